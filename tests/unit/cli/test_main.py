"""Every command: help, three-line errors, exit codes."""

from __future__ import annotations

import pytest
from typer.main import get_command

from abox.errors import AboxError, AboxErrors, CheckError, DriftError, HostError
from cli import main
from cli.checkout import Checkout
from cli.main import run
from cli.version import VERSION

COMMANDS = {
    "check", "drift", "exec", "shell", "ssh", "cp", "tap", "logs", "profile", "explain", "allow",
    "deny", "ls", "doctor", "monitor", "snapshot",
}  # fmt: skip


def test_the_commands_are_those_of_the_design():
    assert set(get_command(main.app).commands) == COMMANDS  # type: ignore[attr-defined]


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_every_command_has_help_that_says_what_it_does(command, capsys):
    assert run([command, "--help"]) == 0
    shown = capsys.readouterr().out
    assert f"Usage: abox {command}" in shown
    assert "Options:" in shown
    assert len(shown.splitlines()[2].strip()) > 20


def test_the_version_is_printed(capsys):
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"abox {VERSION}\n"


@pytest.mark.parametrize(
    "arguments",
    [["frob"], ["explain"], ["check"], ["drift", "dev", "--frob"], ["logs", "dev", "extra"]],
    ids=" ".join,
)
def test_a_mistake_on_the_command_line_is_three_lines_and_exits_2(arguments, capsys):
    assert run(arguments) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    lines = shown.err.splitlines()
    assert len(lines) == 3
    assert lines[0].startswith("abox")
    assert lines[1].startswith("why: ")
    assert lines[2].startswith("do: see `abox")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (HostError(what="w", why="y", remedy="r"), 2),
        (CheckError(what="w", why="y", remedy="r"), 1),
        (DriftError(what="w", why="y", remedy="r"), 7),
        (AboxErrors([AboxError(what="w", why="y", remedy="r")] * 2), 2),
    ],
)
def test_an_error_ends_with_its_code_and_no_traceback(monkeypatch, capsys, error, code):
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(main, "app", fail)
    assert run([]) == code
    assert capsys.readouterr().err == f"{error}\n"


def test_an_interrupt_ends_quietly(monkeypatch, capsys):
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(main, "app", interrupt)
    assert run([]) == 130
    assert capsys.readouterr().err == ""


def test_a_wrong_root_is_told(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("ABOX_ROOT", str(tmp_path))
    assert run(["explain", "dev", "a.test"]) == 2
    assert "ABOX_ROOT" in capsys.readouterr().err


def test_no_command_shows_the_help(checkout: Checkout, capsys):
    assert run([]) == 0
    assert "Commands:" in capsys.readouterr().out
