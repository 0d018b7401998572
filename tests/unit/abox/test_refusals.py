"""Refusals: everything that is wrong with a list's members is told in one run, with positions."""

import pytest

from abox.errors import AboxErrors
from abox.refusals import Refusals, RefusedError, parse_each, shown


def refuse(*reasons: str) -> int:
    refusals = Refusals()
    for reason in reasons:
        refusals.add(RefusedError(reason, "write another", key=f".{reason}"))
    refusals.raise_all()
    return 1


def test_nothing_gathered_is_nothing_raised() -> None:
    assert refuse() == 1
    assert Refusals().attempt(lambda: 7) == 7


def test_refusals_of_steps_within_steps_are_kept_in_order() -> None:
    refusals = Refusals()
    assert refusals.attempt(lambda: refuse("a", "b")) is None
    assert refusals.attempt(lambda: refuse("c")) is None

    def parse(item: object) -> object:
        if item == "bad":
            refusals.raise_all()
        return item

    with pytest.raises(AboxErrors) as caught:
        parse_each(["good", "bad"], "list", parse)
    assert [error.what for error in caught.value.errors] == [
        f"list[1].{reason}: 'bad' is refused" for reason in "abc"
    ]


def test_a_long_value_is_cut() -> None:
    assert shown("x" * 500).endswith("…")
    assert len(shown("x" * 500)) == 80
