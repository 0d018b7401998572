"""Errors: three lines each, and exit codes that scripts can rely on."""

import inspect
import pickle

import pytest

from abox import errors
from abox.errors import (
    AboxError,
    AboxErrors,
    ErrorCollector,
    ExitCode,
    HostError,
    PolicyError,
    SettingsError,
)


def an_error(kind: type[AboxError] = SettingsError) -> AboxError:
    return kind(what="it broke", why="it was weak", remedy="mend it")


def test_the_picture_shows_every_class_with_its_exit_code() -> None:
    classes = [
        c for _, c in inspect.getmembers(errors, inspect.isclass) if issubclass(c, AboxError)
    ]
    assert len(classes) == 7
    for kind in classes:
        line = next(line for line in errors.__doc__.splitlines() if f"{kind.__name__} " in line)
        if kind is not AboxErrors:
            assert f"exit {kind.exit_code.value}" in line


def test_exit_codes_are_the_contract() -> None:
    assert {code.name: code.value for code in ExitCode} == {
        "OK": 0,
        "CHECK_FAILED": 1,
        "USAGE": 2,
        "DRIFT": 7,
    }


def test_an_error_is_told_in_three_lines() -> None:
    assert str(an_error()).splitlines() == ["it broke", "why: it was weak", "do: mend it"]


@pytest.mark.parametrize("hostile", ["a\nb", "a\r\x1b[2Jb", "a\x00b", "a\u2028b", "a\u202eb"])
def test_no_value_breaks_the_line_or_drives_the_terminal(hostile: str) -> None:
    error = SettingsError(what=hostile, why=hostile, remedy=hostile)
    assert len(str(error).splitlines()) == 3
    assert all(line.isprintable() for line in str(error).splitlines())


def test_letters_of_other_scripts_stay_readable() -> None:
    assert "Bücher.例え" in str(SettingsError(what="Bücher.例え", why="w", remedy="r"))


def test_a_group_tells_every_error_in_order_and_exits_like_the_first() -> None:
    group = AboxErrors([an_error(HostError), an_error(errors.DriftError)])
    assert str(group).count("why:") == 2
    assert group.exit_code is ExitCode.USAGE
    assert AboxErrors([an_error(errors.DriftError)]).exit_code is ExitCode.DRIFT
    assert AboxErrors.exit_code is ExitCode.USAGE


def test_a_group_of_nothing_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(ValueError, match="at least one"):
        AboxErrors([])


@pytest.mark.parametrize("error", [an_error(PolicyError), AboxErrors([an_error(), an_error()])])
def test_errors_survive_the_way_between_processes(error: AboxError) -> None:
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    assert type(copy) is type(error)
    assert str(copy) == str(error)


def test_a_document_gives_the_same_error_back() -> None:
    error = an_error(HostError)
    assert str(HostError.from_document(error.to_document())) == str(error)
    assert HostError.from_document({"what": "it broke"}).why == "unknown"


def test_the_collector_gathers_members_of_groups_and_goes_on() -> None:
    collector = ErrorCollector()

    def fail(error: AboxError) -> int:
        raise error

    assert collector.attempt(lambda: 7) == 7
    assert collector.attempt(lambda: fail(an_error())) is None
    assert collector.attempt(lambda: fail(AboxErrors([an_error(), an_error()]))) is None
    with pytest.raises(AboxErrors) as caught:
        collector.raise_all()
    assert len(caught.value.errors) == 3
    ErrorCollector().raise_all()


def test_the_collector_lets_mistakes_of_the_program_through() -> None:
    with pytest.raises(ZeroDivisionError):
        ErrorCollector().attempt(lambda: 1 // 0)
