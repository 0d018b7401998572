"""The guest's sensor: what it writes is a heartbeat, and it never waits for the host."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest

from abox.heartbeat import PERIOD_S, parse_heartbeat
from abox.render.heartbeat import SCRIPT, SCRIPT_PATH, UNIT_TEXT
from tests.unit.abox.test_heartbeat import BOOT


class EndedError(Exception):
    """The guest has lived long enough."""


class FakeGuest:
    """What the script sees of its machine; `answers` says what each write meets."""

    O_WRONLY, O_NONBLOCK = 1, 2048

    def __init__(self, *answers: Exception | None) -> None:
        self.answers = list(answers)
        self.calls: list[Any] = []
        self.written: list[bytes] = []

    def open(self, _path: str, flags: int) -> int:
        self.calls.append(("open", flags))
        return 3

    def write(self, _port: int, data: bytes) -> None:
        answer = self.answers.pop(0)
        if answer is not None:
            raise answer
        self.written.append(data)

    def close(self, _port: int) -> None:
        self.calls.append("close")

    def sleep(self, seconds: float) -> None:
        assert seconds == PERIOD_S
        if not self.answers:
            raise EndedError


@pytest.fixture
def live(monkeypatch) -> Callable[..., FakeGuest]:
    def run(*answers: Exception | None) -> FakeGuest:
        guest = FakeGuest(*answers)
        monkeypatch.setattr("time.sleep", guest.sleep)
        for name in ("open", "write", "close"):
            monkeypatch.setattr(f"os.{name}", getattr(guest, name))
        with pytest.raises(EndedError):
            exec(SCRIPT, {"open": lambda _: io.StringIO(f"{BOOT}\n")})  # noqa: S102
        return guest

    return run


def test_every_line_is_a_heartbeat_and_they_are_counted(live) -> None:
    guest = live(None, None)
    beats = [parse_heartbeat(line.removesuffix(b"\n")) for line in guest.written]
    assert [beat.sequence for beat in beats] == [1, 2]
    assert {beat.boot for beat in beats} == {BOOT}
    assert guest.calls == [("open", guest.O_WRONLY | guest.O_NONBLOCK)]


def test_what_nobody_hears_is_dropped_and_counted(live) -> None:
    guest = live(BlockingIOError(), BlockingIOError(), None)
    (line,) = guest.written
    assert parse_heartbeat(line.removesuffix(b"\n")).sequence == 3
    assert "close" not in guest.calls


def test_a_port_that_breaks_is_opened_again(live) -> None:
    guest = live(OSError(), None)
    assert [call for call in guest.calls if call == "close"] == ["close"]
    assert len(guest.written) == 1


def test_the_unit_runs_the_script() -> None:
    assert f"python3 -IS {SCRIPT_PATH}\n" in UNIT_TEXT
