"""Processes of the toolchain: reports while they run, and nothing left behind."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from abox.errors import HostError
from tests.host import wait_until
from toolchain import shell


def test_run_returns_what_was_printed_whatever_the_code() -> None:
    """The exit code is a value, not an exception."""
    finished = shell.run(["sh", "-c", "echo out; echo err >&2; exit 3"])
    assert finished == shell.Finished(3, "out\n", "err\n")


def test_run_has_an_end() -> None:
    """A program that hangs becomes an error that names it."""
    with pytest.raises(HostError, match=r"sleep 60 did not end within 0\.2 s"):
        shell.run(["sleep", "60"], timeout_s=0.2)


def test_missing_program_is_named() -> None:
    """A program that isn't there is an error with a remedy, from every way of starting one."""
    for start in (shell.run, shell.foreground):
        with pytest.raises(HostError, match="abox-no-such-program was not found"):
            start(["abox-no-such-program"])


def test_stream_shows_lines_and_ticks_meanwhile() -> None:
    """Lines of both streams arrive in order, and a silent program is reported on."""
    lines: list[str] = []
    ticks: list[int] = []
    finished = shell.stream(
        ["sh", "-c", "echo one; sleep 0.5; echo two >&2; exit 4"],
        lines.append,
        on_tick=lambda: ticks.append(len(lines)),
        tick_s=0.1,
    )
    assert lines == ["one", "two"]
    assert finished.code == 4
    assert finished.stdout == "one\ntwo"
    assert len([seen for seen in ticks if seen == 1]) >= 2


def test_stream_keeps_the_last_lines_only() -> None:
    """Output of any length is held in bounded memory."""
    finished = shell.stream(["seq", "1000"], lambda _: None)
    kept = finished.stdout.splitlines()
    assert (len(kept), kept[-1]) == (shell.TAIL_LINES, "1000")


def test_interrupted_stream_ends_the_program(tmp_path: Path) -> None:
    """An interrupt while a step runs ends the step's whole process group."""
    pids = tmp_path / "pids"

    def interrupt(_: str) -> None:
        raise KeyboardInterrupt

    script = f"sleep 60 & echo $! $$ > {pids}; echo started; wait"
    with pytest.raises(KeyboardInterrupt):
        shell.stream(["sh", "-c", script], interrupt, grace_s=1.0)
    for pid in pids.read_text().split():
        _await_end(pid)


def test_interrupt_lets_a_program_finish_what_it_is_at(tmp_path: Path) -> None:
    """The chosen signal comes first, and a program that heeds it isn't killed."""
    done = tmp_path / "done"

    def interrupt(_: str) -> None:
        raise KeyboardInterrupt

    # Not a shell: one that was started with SIGINT ignored (in the background) can't trap it.
    script = f"""
import pathlib, signal, sys, time
def finish(*_):
    time.sleep(0.3)
    pathlib.Path({str(done)!r}).touch()
    sys.exit()
signal.signal(signal.SIGINT, finish)
print("started", flush=True)
while True:
    time.sleep(0.05)
"""
    with pytest.raises(KeyboardInterrupt):
        shell.stream([sys.executable, "-c", script], interrupt, stop=signal.SIGINT, grace_s=5.0)
    assert done.exists()


def _await_end(pid: str) -> None:
    wait_until(lambda: _ended(pid), timeout_s=5, describe=lambda: f"{pid} still runs")


def _ended(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def test_child_is_out_of_reach_of_the_keyboard(tmp_path: Path) -> None:
    """A child has a session of its own, so that an interrupt doesn't reach it."""
    process = shell.child(
        [sys.executable, "-c", "import os; print(os.getsid(0), flush=True)"],
        environment=dict(os.environ),
        directory=tmp_path,
        piped=True,
    )
    out, _ = process.communicate(timeout=10)
    assert int(out) == process.pid != os.getsid(0)


def test_daemon_appends_to_its_log(tmp_path: Path) -> None:
    """What a background program prints is kept beside what was there."""
    log = tmp_path / "log"
    log.write_text("before\n")
    process = shell.daemon(["sh", "-c", "echo out; echo err >&2"], log=log)
    assert process.wait(timeout=10) == 0
    assert log.read_text() == "before\nout\nerr\n"


def test_require_says_the_last_words() -> None:
    """A failed program's last lines are the reason in the message."""
    with pytest.raises(HostError) as failed:
        shell.require(shell.Finished(1, "", "a\nb\nc\nd\n"), what="it failed", remedy="repair it")
    assert str(failed.value) == "it failed\nwhy: b | c | d\ndo: repair it"
    with pytest.raises(HostError, match="exit code 9"):
        shell.require(shell.Finished(9, "", ""), what="it failed", remedy="repair it")


@pytest.mark.parametrize(
    ("script", "seen", "ended"),
    [
        ("echo one; echo ready; sleep 60", "one\nready\n", False),
        ("echo one >&2", "one\n", True),
        ("printf rea; sleep 60", "rea", False),
    ],
    ids=["said", "ended", "late"],
)
def test_output_is_read_until_a_word_the_end_or_time(script: str, seen: str, ended: bool) -> None:
    """Whichever comes first; both streams count."""
    process = shell.child(["sh", "-c", script], environment={"PATH": "/usr/bin:/bin"}, piped=True)
    assert shell.read_until(process, "ready", 0.5) == (seen, ended)
    shell.end_group(process, grace_s=0.2)


def test_programs_of_administrators_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where PATH is a user's."""
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    assert shell.which("chroot") == "/usr/sbin/chroot"
    assert shell.which("abox-no-such-program") is None
