"""The one module of the image builder that starts processes."""

from __future__ import annotations

import contextlib
import os
import queue
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

from abox.errors import HostError

TICK_S = 5.0
"""Seconds between two calls of `on_tick` while a long process runs."""

LAST_LINES = 5
"""How many of a failed process's last lines its error repeats."""


def require(program: str) -> None:
    """Make sure that a program is on PATH.

    Raises:
        HostError: it isn't.
    """
    if shutil.which(program) is None:
        raise _missing(program)


def run(
    command: Sequence[str],
    *,
    timeout_s: float = 120.0,
    environment: Mapping[str, str] | None = None,
) -> str:
    """Run a program to its end and return what it printed.

    Raises:
        HostError: the program isn't there, failed, or was still running after `timeout_s`.
    """
    code, output, errors = run_any(command, timeout_s=timeout_s, environment=environment)
    if code != 0:
        raise _failed(command[0], code, (errors or output).splitlines())
    return output


def run_any(
    command: Sequence[str],
    *,
    timeout_s: float = 120.0,
    environment: Mapping[str, str] | None = None,
) -> tuple[int, str, str]:
    """Like `run`, whatever the exit code: returns code, standard output, standard error."""
    try:
        done = subprocess.run(
            list(command),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
            env=None if environment is None else dict(environment),
            check=False,
        )
    except FileNotFoundError as error:
        raise _missing(command[0]) from error
    except subprocess.TimeoutExpired as error:
        raise HostError(
            what=f"{command[0]} did not end within {timeout_s:.0f} s",
            why=f"the command was: {' '.join(command)}",
            remedy="run it by hand to see what it waits for, then try again",
        ) from error
    return done.returncode, done.stdout, done.stderr


def stream(
    command: Sequence[str],
    *,
    name: str,
    log: Path,
    on_line: Callable[[str], None],
    on_tick: Callable[[], None],
) -> None:
    """Run a long program; hand over each line that it prints, and keep them all in `log`.

    Args:
        command: program and arguments.
        name: what an error calls the program.
        log: file that takes both output streams.
        on_line: called with each line, without its end.
        on_tick: called every `TICK_S` seconds, for a sign of life.

    Raises:
        HostError: the program isn't there, or failed; its last lines are in the error.
    """
    lines: queue.Queue[str | None] = queue.Queue()
    seen: list[str] = []
    with log.open("w", encoding="utf-8") as kept, _process(command) as process:
        reader = threading.Thread(target=_read_lines, args=(process, lines), daemon=True)
        reader.start()
        for line in _until_end(lines, on_tick):
            kept.write(line + "\n")
            seen.append(line)
            del seen[:-40]
            on_line(line)
        code = process.wait()
        reader.join(timeout=5)
    if code != 0:
        raise _failed(name, code, [*_telling(seen), f"(everything: {log})"])


def feed(command: Sequence[str], write: Callable[[IO[bytes]], None]) -> str:
    """Run a program, let `write` fill its standard input, return what it printed.

    Raises:
        HostError: the program isn't there, or failed.
    """
    with _process(command, stdin=subprocess.PIPE) as process:
        assert process.stdin is not None and process.stdout is not None  # noqa: S101, PT018
        output: list[bytes] = []
        reader = threading.Thread(target=lambda: output.extend(process.stdout or ()), daemon=True)
        reader.start()
        with contextlib.suppress(BrokenPipeError):  # it gave up: its code and words say why
            write(process.stdin)
            process.stdin.close()
        code = process.wait()
        reader.join(timeout=5)
    text = b"".join(output).decode(errors="replace")
    if code != 0:
        raise _failed(command[0], code, text.splitlines())
    return text


@contextlib.contextmanager
def _process(
    command: Sequence[str], stdin: int = subprocess.DEVNULL
) -> Iterator[subprocess.Popen[bytes]]:
    """A process in a group of its own; whatever happens, the group is gone at the end."""
    try:
        process = subprocess.Popen(
            list(command),
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, "LC_ALL": "C.UTF-8"},
        )
    except FileNotFoundError as error:
        raise _missing(command[0]) from error
    try:
        yield process
    finally:
        if process.poll() is None:
            _end(process)
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ask the process's group to end; after ten seconds, force it."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
            process.wait(timeout=10)
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue
        return


def _read_lines(process: subprocess.Popen[bytes], lines: queue.Queue[str | None]) -> None:
    for raw in process.stdout or ():
        lines.put(raw.decode(errors="replace").rstrip())
    lines.put(None)


def _until_end(lines: queue.Queue[str | None], on_tick: Callable[[], None]) -> Iterator[str]:
    """Lines until the stream's end; `on_tick` fires also while lines keep coming."""
    fired = threading.Event()

    def mark() -> None:
        while not ended.wait(TICK_S):
            fired.set()

    ended = threading.Event()
    threading.Thread(target=mark, daemon=True).start()
    try:
        while True:
            try:
                line = lines.get(timeout=0.5)
            except queue.Empty:
                line = ""
            if line is None:
                return
            if line:
                yield line
            if fired.is_set():
                fired.clear()
                on_tick()
    finally:
        ended.set()


def _telling(lines: Sequence[str]) -> list[str]:
    """The lines that name a failure, or else the last ones."""
    marked = [line for line in lines if line.startswith(("E:", "dpkg: error", "Err:", "ERROR"))]
    return list(marked or lines)[-LAST_LINES:]


def _missing(program: str) -> HostError:
    return HostError(
        what=f"{program} is not on this machine",
        why="the images are built from Debian packages with it",
        remedy=f"install it (apt-get install {_PACKAGES.get(program, program)}), then try again",
    )


_PACKAGES = {
    "docker": "docker.io",
    "unshare": "util-linux",
    "chroot": "coreutils",
    "apt-get": "apt",
    "apt-config": "apt",
}
"""Debian package of a program, where the names differ."""


def _failed(name: str, code: int, lines: Sequence[str]) -> HostError:
    said = " | ".join(line.strip() for line in lines if line.strip())
    why = said[-1500:] or "it said nothing"
    full = "No space left on device" in why
    return HostError(
        what=f"{name} failed with exit code {code}",
        why=why,
        remedy="make room on the disk, then try again"
        if full
        else "mend what it names, then try again",
    )
