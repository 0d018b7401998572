"""The command stand-in runs commands as the official plugin does, recorded calls included."""

from __future__ import annotations

import time
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from tests.recordings import CallFailedError, Document, ask, differences, recording
from toolchain.plugins.command.provider import CommandProvider
from toolchain.plugins.wire_values import SECRET_SIGNATURE, SIGNATURE_KEY

pytestmark = pytest.mark.integration

URN = "urn:pulumi:s::p::command:local:Command::c"


class Lines:
    """Hears what a command prints."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def info(self, _urn: str, line: str) -> None:
        self.heard.append(line)


@pytest.fixture
def lines() -> Lines:
    return Lines()


@pytest.fixture
def plugin(lines: Lines) -> CommandProvider:
    return CommandProvider(lines)  # type: ignore[arg-type]


def create(plugin: CommandProvider, **properties: Any) -> Document:
    answer = ask(plugin, "Create", {"urn": URN, "name": "c", "properties": properties})
    return dict(answer["properties"])


def secret(value: str) -> Document:
    return {SIGNATURE_KEY: SECRET_SIGNATURE, "value": value}


@pytest.mark.parametrize("name", ["command-create", "command-update", "command-delete"])
def test_command_runs_as_recorded(plugin: CommandProvider, tmp_path: Path, name: str) -> None:
    """Same outputs, environment and effects; only the folder and the id's digits differ."""
    call = recording(name).spelled({"/var/lib/example": str(tmp_path)})
    got = ask(plugin, call.call, call.request)
    wanted = call.response or {}
    if name == "command-create":
        assert len(got["id"]) == len(wanted["id"])
        wanted["id"] = got["id"]
        assert (tmp_path / "made").exists()
    if name == "command-delete":
        deleted = (tmp_path / "deleted").read_text()
        assert deleted == "deleted baz updated baz prev=updated bar prev=made bar\n"
    assert list(differences(wanted, got)) == []


def test_nothing_is_read_back(plugin: CommandProvider) -> None:
    """A refresh answers what the state says, whatever became of the command's work."""
    call = recording("command-read")
    assert ask(plugin, "Read", call.request) == call.response


def test_output_is_logged_line_by_line(plugin: CommandProvider, lines: Lines) -> None:
    """Both streams by default, one of them or none on demand."""
    create(plugin, create="echo out; echo err >&2")
    assert sorted(lines.heard) == ["err", "out"]
    lines.heard.clear()
    create(plugin, create="echo out; echo err >&2", logging="stderr")
    assert lines.heard == ["err"]
    lines.heard.clear()
    create(plugin, create="echo out; echo err >&2", logging="none")
    assert lines.heard == []


def test_stdin_directory_and_interpreter_are_honoured(
    plugin: CommandProvider, tmp_path: Path
) -> None:
    """The command gets what the inputs say."""
    state = create(plugin, create="cat; pwd", stdin="hello\n", dir=str(tmp_path))
    assert state["stdout"] == f"hello\n{tmp_path}"
    state = create(plugin, create="ignored", interpreter=["echo", "-n", "a"])
    assert state["stdout"] == "a ignored"


def test_only_one_newline_is_stripped(plugin: CommandProvider) -> None:
    """The official plugin strips one newline from the end, no more."""
    assert create(plugin, create="printf 'a\\n\\n'")["stdout"] == "a\n"


def test_failing_command_tells_its_code_and_output(plugin: CommandProvider) -> None:
    """The error holds exit code, command and both streams, in the order printed."""
    with pytest.raises(CallFailedError) as failed:
        create(plugin, create="echo one; sleep 0.1; echo two >&2; exit 3")
    assert str(failed.value) == (
        'exit status 3: running "echo one; sleep 0.1; echo two >&2; exit 3":\none\ntwo\n'
    )


@pytest.mark.parametrize(
    ("properties", "said"),
    [
        (
            {"interpreter": ["abxt-nope"]},
            'exec: "abxt-nope": executable file not found in $PATH: running "é":\n',
        ),
        (
            {"interpreter": ["/abxt-nope"]},
            'fork/exec /abxt-nope: no such file or directory: running "é":\n',
        ),
        ({"dir": "/abxt-nope"}, 'chdir /abxt-nope: no such file or directory: running "é":\n'),
    ],
    ids=["not on PATH", "no file", "no folder"],
)
def test_command_that_cant_start_says_why(
    plugin: CommandProvider, properties: Document, said: str
) -> None:
    """In the official plugin's words."""
    with pytest.raises(CallFailedError) as failed:
        create(plugin, create="é", **properties)
    assert str(failed.value) == said


def test_outputs_are_unwrapped_by_check(plugin: CommandProvider) -> None:
    """The engine hands over outputs; checked inputs hold their values, secrets or unknowns."""
    output = {SIGNATURE_KEY: "d0e6a833031e9bbcd3f4e8bde6ca49a4"}
    news = {
        "create": {**output, "value": "a"},
        "update": None,
        "environment": {"A": {**output, "value": "x", "secret": True}, "B": output},
    }
    inputs = ask(plugin, "Check", {"urn": URN, "news": news})["inputs"]
    assert inputs == {
        "create": "a",
        "environment": {"A": secret("x"), "B": "04da6b54-80e4-46f7-96ec-b56ff0331ba9"},
    }


def test_secrets_stay_secret(plugin: CommandProvider, lines: Lines) -> None:
    """A secret input comes back as a secret and is masked in what is logged and in errors."""
    state = create(plugin, create="echo $KEY", environment={"KEY": secret("s3cr3t")})
    assert state["environment"]["KEY"] == secret("s3cr3t")
    assert state["stdout"] == "s3cr3t"  # as official: mark it by additional_secret_outputs
    assert lines.heard == ["[secret]"]
    with pytest.raises(CallFailedError) as failed:
        create(plugin, create="echo $KEY; false", environment={"KEY": secret("s3cr3t")})
    assert "s3cr3t" not in str(failed.value)
    assert "[secret]" in str(failed.value)


def test_cancel_ends_running_commands(plugin: CommandProvider) -> None:
    """The engine's Cancel kills a command with all that it started."""
    failures: list[BaseException] = []

    def run() -> None:
        try:
            create(plugin, create="sleep 300 & wait")
        except CallFailedError as error:
            failures.append(error)

    thread = Thread(target=run)
    thread.start()
    started = time.monotonic()
    while thread.is_alive() and time.monotonic() - started < 20:
        ask(plugin, "Cancel", {})
        thread.join(0.1)
    assert not thread.is_alive()
    assert "signal: killed" in str(failures[0])


def test_preview_of_an_update_knows_no_output(plugin: CommandProvider) -> None:
    """In preview nothing runs; the outputs are unknown if an input changes."""
    olds = {"create": "echo a", "stdout": "a", "stderr": ""}
    request = {"urn": URN, "id": "c1", "preview": True, "olds": olds}
    changed = ask(plugin, "Update", {**request, "news": {"create": "echo b"}})
    assert changed["properties"]["stdout"] == "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
    same = ask(plugin, "Update", {**request, "news": {"create": "echo a"}})
    assert same["properties"]["stdout"] == "a"
