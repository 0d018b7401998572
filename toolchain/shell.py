"""Starts processes: the one module of the toolchain that does, and what `cli/host.py` builds on.

Every call takes a list of arguments (never a shell line). What may take longer than a few seconds
reports while it runs.
"""

import os
import queue
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Protocol

from abox.errors import HostError

SYSTEM_FOLDERS = ("/usr/local/sbin", "/usr/sbin", "/sbin")
"""Folders of administrators' commands, which not every PATH holds."""

TAIL_LINES = 40
"""Lines of a failed program's output that are kept for the message."""


class Process(Protocol):
    """A process that leads a group of its own."""

    stdout: Any
    """Its output in bytes, if it is piped; else None."""
    stderr: Any

    @property
    def pid(self) -> int:
        """Number of the process and of its group."""

    def poll(self) -> int | None:
        """Exit code; None while it runs."""

    def wait(self) -> int:
        """Exit code, once it has ended."""


@dataclass(frozen=True)
class Finished:
    """How a process ended."""

    code: int
    """Exit code; negative: the signal that ended it."""
    stdout: str
    stderr: str


def run(
    arguments: Sequence[str | Path],
    *,
    stdin: str = "",
    timeout_s: float = 60.0,
    environment: Mapping[str, str] | None = None,
    directory: Path | None = None,
) -> Finished:
    """Run a program to its end and return what it printed, whatever its exit code.

    Raises:
        HostError: the program isn't there, or it was still running after `timeout_s`.
    """
    try:
        done = subprocess.run(
            [str(argument) for argument in arguments],
            input=stdin.encode(),
            capture_output=True,
            timeout=timeout_s,
            env=None if environment is None else dict(environment),
            cwd=directory,
            check=False,
        )
    except FileNotFoundError as error:
        raise missing(arguments[0]) from error
    except subprocess.TimeoutExpired as error:
        raise HostError(
            what=f"{_shown(arguments)} did not end within {timeout_s:g} s",
            why="the program hangs, or this machine is overloaded",
            remedy="try again; if it happens again, run the command by hand to see where it stops",
        ) from error
    return Finished(
        done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
    )


def stream(
    arguments: Sequence[str | Path],
    on_line: Callable[[str], None],
    *,
    on_tick: Callable[[], None] = lambda: None,
    tick_s: float = 5.0,
    stop: signal.Signals = signal.SIGTERM,
    grace_s: float = 5.0,
    environment: Mapping[str, str] | None = None,
    directory: Path | None = None,
) -> Finished:
    """Run a program of unknown length, its output line by line as it comes.

    Args:
        arguments: the program and its arguments.
        on_line: called with each line of standard output and standard error.
        on_tick: called at least every `tick_s` seconds, also while nothing is printed.
        tick_s: see `on_tick`.
        stop: signal that asks the program to end when this one is interrupted.
        grace_s: seconds that the program has to end by itself when this one is interrupted.
        environment: all of the program's variables; None: those of this process.
        directory: working directory; None: that of this process.

    Returns:
        The exit code; `stdout` holds the last lines of both streams.

    Raises:
        HostError: the program isn't there.
    """
    process = _spawn(arguments, environment, directory)
    lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    reader = threading.Thread(target=_read_lines, args=(process, lines), daemon=True)
    reader.start()
    tail: list[str] = []
    try:
        for line in _ticking(lines, on_tick, tick_s):
            tail = [*tail[-(TAIL_LINES - 1) :], line]
            on_line(line)
        code = process.wait()
    except BaseException:
        end_group(process, grace_s, stop)
        raise
    return Finished(code, "\n".join(tail), "")


def _spawn(
    arguments: Sequence[str | Path], environment: Mapping[str, str] | None, directory: Path | None
) -> "subprocess.Popen[str]":
    """Start a program in a process group of its own, both streams in one pipe."""
    try:
        return subprocess.Popen(
            [str(argument) for argument in arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env=None if environment is None else dict(environment),
            cwd=directory,
            process_group=0,
        )
    except FileNotFoundError as error:
        raise missing(arguments[0]) from error


def _read_lines(process: "subprocess.Popen[str]", lines: "queue.SimpleQueue[str | None]") -> None:
    """Put each line of a process into the queue, None at the end."""
    if process.stdout is not None:
        with process.stdout:
            for line in process.stdout:
                lines.put(line.rstrip("\n"))
    lines.put(None)


def _ticking(
    lines: "queue.SimpleQueue[str | None]", on_tick: Callable[[], None], tick_s: float
) -> Iterator[str]:
    """Lines from the queue; `on_tick` in between at least every `tick_s` seconds."""
    next_tick = time.monotonic() + tick_s
    while True:
        try:
            line = lines.get(timeout=max(0.0, next_tick - time.monotonic()))
        except queue.Empty:
            line = ""
        else:
            if line is None:
                return
            yield line
        if time.monotonic() >= next_tick:
            on_tick()
            next_tick = time.monotonic() + tick_s


def foreground(
    arguments: Sequence[str | Path],
    *,
    environment: Mapping[str, str] | None = None,
    directory: Path | None = None,
) -> int:
    """Run a program on this terminal and return its exit code.

    An interrupt from the keyboard reaches the program too; it gets the time to finish what it
    holds before the interrupt goes on.

    Raises:
        HostError: the program isn't there.
    """
    try:
        process = subprocess.Popen(
            [str(argument) for argument in arguments],
            env=None if environment is None else dict(environment),
            cwd=directory,
        )
    except FileNotFoundError as error:
        raise missing(arguments[0]) from error
    try:
        return process.wait()
    except KeyboardInterrupt:
        process.wait()
        raise


def daemon(arguments: Sequence[str | Path], *, log: Path) -> "subprocess.Popen[bytes]":
    """Start a program that outlives this one, its output appended to a file.

    Raises:
        HostError: the program isn't there.
    """
    try:
        with log.open("ab") as output:
            return subprocess.Popen(
                [str(argument) for argument in arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd="/",
                start_new_session=True,
            )
    except FileNotFoundError as error:
        raise missing(arguments[0]) from error


def child(
    arguments: Sequence[str | Path],
    *,
    environment: Mapping[str, str],
    directory: Path | None = None,
    piped: bool = False,
) -> "subprocess.Popen[bytes]":
    """Start a program in a session of its own, to be ended by `end_group`.

    The session keeps an interrupt from the keyboard away from it: whoever started it decides.

    Args:
        arguments: the program and its arguments.
        environment: all of its variables.
        directory: working directory; None: that of this process.
        piped: give its output to the caller, in pipes; False: it prints where this process does.

    Raises:
        HostError: the program isn't there.
    """
    output = subprocess.PIPE if piped else None
    try:
        return subprocess.Popen(
            [str(argument) for argument in arguments],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=dict(environment),
            cwd=directory,
            start_new_session=True,
        )
    except (FileNotFoundError, NotADirectoryError) as error:
        raise missing(arguments[0]) from error


def read_until(process: "subprocess.Popen[bytes]", text: str, timeout_s: float) -> tuple[str, bool]:
    """Read a piped program's output until it says something, ends, or time is up.

    Returns: what it printed on both streams, and whether it has ended.
    """
    printed: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    streams = [stream for stream in (process.stdout, process.stderr) if stream is not None]
    for stream in streams:
        threading.Thread(target=_read_all, args=(stream, printed), daemon=True).start()
    output = b""
    deadline = time.monotonic() + timeout_s
    open_streams = len(streams)
    while open_streams and text.encode() not in output and time.monotonic() < deadline:
        try:
            chunk = printed.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            break
        output += chunk
        open_streams -= not chunk
    return output.decode(errors="replace"), not open_streams


def _read_all(stream: IO[bytes], printed: "queue.SimpleQueue[bytes]") -> None:
    """Put what a stream holds into the queue as it comes, an empty piece at the end."""
    with stream:
        while chunk := os.read(stream.fileno(), 4096):
            printed.put(chunk)
    printed.put(b"")


def which(program: str) -> str | None:
    """Path of a program on PATH or in the administrators' folders."""
    path = os.pathsep.join([os.environ.get("PATH", ""), *SYSTEM_FOLDERS])
    return shutil.which(program, path=path)


def end_group(
    process: Process,
    grace_s: float,
    stop: signal.Signals = signal.SIGTERM,
) -> None:
    """End a process and all that it started in its process group.

    They get the signal `stop` first; what is left after `grace_s` seconds is killed. A program
    that has ended may leave processes behind in its group: those are ended all the same.
    """
    if not _signal_group(process.pid, stop):
        process.poll()
        return
    deadline = time.monotonic() + grace_s
    while time.monotonic() < deadline:
        process.poll()  # reaps it: a zombie would keep its group alive
        if not _signal_group(process.pid, 0):
            return
        time.sleep(0.02)
    _signal_group(process.pid, signal.SIGKILL)
    process.wait()


def _signal_group(group: int, number: int) -> bool:
    """Send a signal to a process group (0 only asks); whether the group still exists."""
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def require(finished: Finished, *, what: str, why: str = "", remedy: str) -> Finished:
    """Hand on what ended well.

    Raises:
        HostError: the exit code isn't 0; the last lines of the output are the reason.
    """
    if finished.code == 0:
        return finished
    said = [line for line in (finished.stderr or finished.stdout).splitlines() if line.strip()]
    reason = " | ".join(said[-3:]) or f"it ended with exit code {finished.code}"
    raise HostError(what=what, why=f"{why}: {reason}" if why else reason, remedy=remedy)


def missing(program: str | Path) -> HostError:
    """Error for a program that isn't on PATH."""
    return HostError(
        what=f"{program} was not found",
        why="it is not installed, or the folder that holds it is not on PATH",
        remedy="run `make up` in the checkout, which installs what it can, or install it",
    )


def _shown(arguments: Sequence[str | Path]) -> str:
    """First words of a command line, for a message."""
    return " ".join(str(argument) for argument in arguments[:4])
