"""The tests' only module for processes: everything they run on the host goes through here."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
"""The checkout that the tests belong to."""


@dataclass(frozen=True)
class Completed:
    """How a process ended and what it printed."""

    args: tuple[str, ...]
    code: int
    stdout: str
    stderr: str


class CommandError(Exception):
    """A process that a test needs ended with a code other than 0."""

    def __init__(self, done: Completed) -> None:
        said = (done.stderr.strip() or done.stdout.strip())[-1200:]
        super().__init__(f"{' '.join(done.args)[:400]}: exit {done.code}: {said}")
        self.done = done


class TimeLimitError(Exception):
    """A condition didn't come true, or a process didn't end, in its time."""


Process = subprocess.Popen
"""A process that stays (see `spawn`)."""


def run(
    args: Sequence[str],
    *,
    text: str = "",
    timeout_s: float = 60,
    check: bool = True,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> Completed:
    """Run `args` to its end with `text` on its standard input.

    Raises:
        CommandError: if it ends with another code than 0 and `check` is set.
        TimeLimitError: if it takes longer than `timeout_s`.
    """
    try:
        done = subprocess.run(
            list(args),
            input=text.encode(),
            capture_output=True,
            timeout=timeout_s,
            check=False,
            env=None if env is None else dict(env),
            cwd=cwd,
        )
    except subprocess.TimeoutExpired as error:
        raise TimeLimitError(f"{' '.join(args)[:400]}: no end after {timeout_s} s") from error
    completed = Completed(
        args=tuple(args),
        code=done.returncode,
        stdout=done.stdout.decode(errors="replace"),
        stderr=done.stderr.decode(errors="replace"),
    )
    if check and completed.code != 0:
        raise CommandError(completed)
    return completed


def pipe(args: Sequence[str], data: bytes, *, timeout_s: float = 60) -> None:
    """Run `args` with bytes on its standard input.

    Raises: CommandError if it ends with another code than 0.
    """
    done = subprocess.run(
        list(args), input=data, capture_output=True, timeout=timeout_s, check=False
    )
    if done.returncode != 0:
        said = [part.decode(errors="replace") for part in (done.stdout, done.stderr)]
        raise CommandError(Completed(tuple(args), done.returncode, *said))


def transform(
    args: Sequence[str], data: bytes, *, env: Mapping[str, str], timeout_s: float = 60
) -> bytes:
    """Run `args` with bytes on its standard input and more variables; returns what it printed.

    Raises: CommandError if it ends with another code than 0.
    """
    done = subprocess.run(
        list(args),
        input=data,
        capture_output=True,
        timeout=timeout_s,
        check=False,
        env={**os.environ, **env},
    )
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace")
        raise CommandError(Completed(tuple(args), done.returncode, "", said))
    return done.stdout


def spawn(
    args: Sequence[str],
    *,
    stderr_path: Path | None = None,
    env: Mapping[str, str] | None = None,
    cwd: Path = ROOT,
) -> Process[bytes]:
    """Start a process with pipes for standard input and output; it ends when its input closes."""
    environment = {**(os.environ if env is None else env), "PYTHONUNBUFFERED": "1"}
    environment.setdefault("PYTHONPATH", str(ROOT))
    with Path(stderr_path or os.devnull).open("ab") as stderr:
        return subprocess.Popen(
            list(args),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            env=environment,
            cwd=cwd,
            start_new_session=True,
        )


def detach(args: Sequence[str], log: Path) -> None:
    """Start a service of the host that outlives the tests."""
    with log.open("ab") as file:
        subprocess.Popen(
            list(args),
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            start_new_session=True,
        )


def end(process: Process[bytes], *, timeout_s: float = 5) -> None:
    """Close a spawned process's input and wait; one that stays is killed."""
    if process.stdin is not None:
        with contextlib.suppress(BrokenPipeError):  # it is gone already
            process.stdin.close()
    try:
        process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(timeout_s)
    if process.stdout is not None:
        process.stdout.close()


def wait_until(
    condition: Callable[[], bool],
    *,
    timeout_s: float,
    describe: Callable[[], str],
    every_s: float = 0.05,
) -> None:
    """Wait for a state; on giving up say what was seen last."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise TimeLimitError(f"not within {timeout_s} s: {describe()}")
        time.sleep(every_s)
