"""The one module of this plugin that starts processes."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Literal

Stream = Literal["stdout", "stderr"]
OnLine = Callable[[Stream, str], None]
"""Hears each line that a command prints, as it prints it."""


class StartError(Exception):
    """The program could not be started."""


@dataclass(frozen=True)
class Finished:
    """How a command ended."""

    code: int
    """Exit code; negative: the signal that ended it."""
    stdout: str
    stderr: str
    printed: str
    """Both streams, in the order in which they came."""

    def describe_end(self) -> str:
        """The end in the words of the official plugin's language."""
        if self.code < 0:
            return f"signal: {signal.strsignal(-self.code) or -self.code}".lower()
        return f"exit status {self.code}"


@dataclass
class _Recorder:
    """Collects what two streams say."""

    on_line: OnLine
    lines: dict[str, list[str]] = field(default_factory=lambda: {"stdout": [], "stderr": []})
    printed: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def follow(self, name: Stream, stream: IO[bytes]) -> None:
        for raw in stream:
            line = raw.decode(errors="replace")
            with self.lock:
                self.lines[name].append(line)
                self.printed.append(line)
            self.on_line(name, line.rstrip("\n"))


@dataclass
class Commands:
    """Runs commands; `end_all` ends those that are running."""

    _running: set[subprocess.Popen[bytes]] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def run(
        self,
        arguments: Sequence[str],
        *,
        directory: str,
        environment: Mapping[str, str],
        stdin: str,
        on_line: OnLine,
    ) -> Finished:
        """Run a command to its end, in a session of its own.

        Raises:
            StartError: the program or the directory isn't there.
        """
        try:
            process = subprocess.Popen(
                list(arguments),
                cwd=directory,
                env={**os.environ, **environment},
                stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            raise StartError(_why_not_started(arguments[0], directory, error)) from error
        with self._lock:
            self._running.add(process)
        try:
            return _attend(process, stdin, on_line)
        finally:
            with self._lock:
                self._running.discard(process)

    def end_all(self) -> None:
        """Kill what is running, with all that it started."""
        with self._lock:
            for process in self._running:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)


def _why_not_started(program: str, directory: str, error: OSError) -> str:
    """The reason in the words of the official plugin's language."""
    reason = (error.strerror or str(error)).lower()
    if not Path(directory).is_dir():
        return f"chdir {directory}: {reason}"
    if isinstance(error, FileNotFoundError) and "/" not in program:
        return f'exec: "{program}": executable file not found in $PATH'
    return f"fork/exec {program}: {reason}"


def _attend(process: subprocess.Popen[bytes], stdin: str, on_line: OnLine) -> Finished:
    recorder = _Recorder(on_line)
    streams: list[tuple[Stream, IO[bytes] | None]] = [
        ("stdout", process.stdout),
        ("stderr", process.stderr),
    ]
    followers = [
        threading.Thread(target=recorder.follow, args=(name, stream)) for name, stream in streams
    ]
    for follower in followers:
        follower.start()
    if process.stdin is not None:
        with suppress(BrokenPipeError):
            process.stdin.write(stdin.encode())
        with suppress(BrokenPipeError):
            process.stdin.close()
    for follower in followers:
        follower.join()
    code = process.wait()
    for _, stream in streams:
        if stream is not None:
            stream.close()
    return Finished(
        code=code,
        stdout="".join(recorder.lines["stdout"]),
        stderr="".join(recorder.lines["stderr"]),
        printed="".join(recorder.printed),
    )
