"""The one module of the command line that starts processes.

Every call takes a list of arguments (never a shell line), and every wait has an end or belongs to
a person in front of a terminal.
"""

import functools
import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import FileIO
from typing import NoReturn, cast

from toolchain import shell
from toolchain.shell import Finished, missing

__all__ = ["Finished", "Running", "interrupt", "piped", "pipes", "replace", "run", "running"]

run = functools.partial(shell.run, timeout_s=30.0)
"""`shell.run` for somebody who waits in front of a terminal: not so long, unless told."""


def replace(arguments: Sequence[str]) -> NoReturn:
    """Become another program: its input, output, signals and exit code are then the caller's.

    Raises:
        HostError: the program isn't there.
    """
    try:
        os.execvp(arguments[0], list(arguments))  # noqa: S606  no shell is wanted
    except FileNotFoundError as error:
        raise missing(arguments[0]) from error


@dataclass(frozen=True)
class Running:
    """A process whose lines are read while it runs."""

    process: "subprocess.Popen[str]"

    def lines(self) -> Iterator[str]:
        """Lines of standard output (and of standard error, which is merged into it)."""
        if self.process.stdout is None:
            return
        for line in self.process.stdout:
            yield line.rstrip("\n")

    def wait(self) -> int:
        """Exit code, once the process has ended."""
        return self.process.wait()


@contextmanager
def running(
    arguments: Sequence[str], *, environment: Mapping[str, str] | None = None
) -> Iterator[Running]:
    """Start a program and end it with the block, if it hasn't ended by itself.

    An interrupt from the keyboard reaches the program too (it is in the same process group); it
    gets the time to finish what it holds.

    Raises:
        HostError: the program isn't there.
    """
    try:
        process = subprocess.Popen(
            list(arguments),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=None if environment is None else dict(environment),
            text=True,
            errors="replace",
        )
    except FileNotFoundError as error:
        raise missing(arguments[0]) from error
    try:
        yield Running(process)
    except KeyboardInterrupt:
        process.wait()
        raise
    finally:
        if process.poll() is None:
            process.terminate()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


@contextmanager
def piped(arguments: Sequence[str]) -> Iterator["subprocess.Popen[bytes]"]:
    """Start a program whose three streams are the caller's, and end it with the block.

    An interrupt from the keyboard doesn't reach it: the caller decides.

    Raises:
        HostError: the program isn't there.
    """
    try:
        process = subprocess.Popen(
            list(arguments),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
        )
    except FileNotFoundError as error:
        raise missing(arguments[0]) from error
    with process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.terminate()


def pipes(process: "subprocess.Popen[bytes]") -> tuple[FileIO, FileIO, FileIO]:
    """The caller's ends of a piped program's input, output and errors, without buffers."""
    return (
        cast("FileIO", process.stdin),
        cast("FileIO", process.stdout),
        cast("FileIO", process.stderr),
    )


def interrupt(process: "subprocess.Popen[bytes]") -> None:
    """Ask a program to end as Ctrl-C does; no error if it has ended."""
    process.send_signal(signal.SIGINT)
