"""A fork server: Python programs that begin as copies of an interpreter with the SDK loaded.

Of a plugin's start, importing Pulumi's SDK takes most, and the engine starts its plugins one after
another, twice in a run. Here one process imports it once, while the engine has other things to do,
and forks whatever is asked for. A copy then becomes what `python -u PROGRAM` would be: in a process
group of its own, with its own arguments, variables, folder, output, exit code and atexit handlers.

The standard library's fork server (multiprocessing) runs a function below its own bootstrap, where
exit codes, messages and atexit handlers are those of a worker.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import io
import json
import os
import runpy
import select
import signal
import socket
import struct
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

PRELOADED = (
    "pulumi.provider.experimental.server",
    "docker",
    "pulumi_docker",
    "pulumi_command",
    "pulumi_libvirt",
    "pydantic.main",
    "cryptography.x509",
    "publicsuffixlist",
)
"""What programs and plugins import, none of which starts a thread.

A copy is served when the first one is there, the others come whenever nobody waits."""

OWN = ("abox", "toolchain")
"""Packages of this process that a copy must not see: a plugin brings its own."""

READ_EARLY = ("GRPC_", "LANG", "LC_", "LD_", "OTEL_", "PROTOCOL_", "PYTHON", "TRACEPARENT")
"""Beginnings of variables that an interpreter, or what is preloaded, reads when it starts."""

_INT = struct.Struct("i")
"""A process id or an exit code, on its way between owner and server."""


@dataclass(frozen=True)
class Program:
    """What a copy becomes."""

    target: str
    """File or folder of the program; of a module its name."""
    is_module: bool
    arguments: list[str]
    environment: dict[str, str]
    directory: str
    """Working directory."""


@dataclass(eq=False)
class Forked:
    """A running copy, with as much of `subprocess.Popen` as its owner needs."""

    pid: int
    """Its process, which is also its process group."""
    stdout: IO[bytes] | None
    stderr: IO[bytes] | None
    _status: int
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _code: int | None = None

    def poll(self) -> int | None:
        """Exit code (negative: the signal that ended it); None while it runs."""
        with self._lock:
            if self._code is None and select.select([self._status], [], [], 0)[0]:
                said = os.read(self._status, _INT.size)
                os.close(self._status)
                if not said:  # nobody can say any more how it ends, so it ends now
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(self.pid, signal.SIGKILL)
                self._code = _INT.unpack(said)[0] if said else -signal.SIGKILL
            return self._code

    def wait(self) -> int:
        """Exit code, once it has ended."""
        while (code := self.poll()) is None:
            # Another thread may take the answer, and the number may then be another file's.
            with contextlib.suppress(OSError, ValueError):
                select.select([self._status], [], [], 1.0)
        return code


class ForkServer:
    """The owner's end of a fork server."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._lock = threading.Lock()

    def start(
        self,
        arguments: Sequence[str],
        *,
        environment: Mapping[str, str],
        directory: Path | None = None,
        piped: bool = False,
    ) -> Forked | None:
        """Start `python -u PROGRAM …` or `python -u -m MODULE …` as a copy of the server.

        Args:
            arguments: the command line.
            environment: all of its variables.
            directory: working directory; None: that of this process.
            piped: give its output to the caller, in pipes; False: it prints where this process
                does.

        Returns:
            The copy; None if only an interpreter of its own can be what was asked for, or if the
            server has ended or can't fork.
        """
        program = parse_command(arguments, environment, str(directory or Path.cwd()))
        if program is None:
            return None
        with contextlib.ExitStack() as ours:
            pipes = [_pipe(ours) if piped else (None, number) for number in (1, 2)]
            status, told = os.pipe()
            ours.callback(os.close, told)
            try:
                pid = self._ask(program, [*(end for _, end in pipes), told])
            except OSError:
                os.close(status)
                for stream, _ in pipes:
                    if stream is not None:
                        stream.close()
                return None
        return Forked(pid, pipes[0][0], pipes[1][0], status)

    def _ask(self, program: Program, files: list[int]) -> int:
        """Process id of the copy that the server makes.

        Raises: OSError if the server has ended or can't fork.
        """
        asked = os.memfd_create("program")
        try:
            os.write(asked, json.dumps(vars(program)).encode())
            with self._lock:
                socket.send_fds(self._channel, [b"?"], [asked, *files])
                said = self._channel.recv(_INT.size)
        finally:
            os.close(asked)
        pid: int = _INT.unpack(said)[0] if said else 0
        if pid <= 0:
            raise ConnectionResetError("the fork server has ended, or can't fork")
        return pid


def _pipe(ours: contextlib.ExitStack) -> tuple[IO[bytes], int]:
    """A pipe: the end to read from, and the other, which is closed with the stack."""
    reading, writing = os.pipe()
    ours.callback(os.close, writing)
    return os.fdopen(reading, "rb"), writing


def parse_command(
    arguments: Sequence[str], environment: Mapping[str, str], directory: str
) -> Program | None:
    """What a command line asks for; None if a copy of this interpreter can't be that."""
    interpreter, *words = arguments
    if words[:1] != ["-u"] or not _is_own(Path(interpreter)):
        return None
    is_module = words[1] == "-m"
    target, *rest = words[2 if is_module else 1 :]
    if target.startswith("-") or _early(environment) != _early(os.environ):
        return None
    return Program(target, is_module, rest, dict(environment), directory)


def _is_own(interpreter: Path) -> bool:
    """Whether a path leads to this interpreter in this virtual environment."""
    own = Path(sys.executable)  # a link to the system's, so its folder is what counts
    return interpreter.name == own.name and interpreter.parent.resolve() == own.parent.resolve()


def _early(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: text for name, text in environment.items() if name.startswith(READ_EARLY)}


def fork(path: Sequence[str], modules: Sequence[str] = PRELOADED) -> ForkServer:
    """Fork the server off this process, which must not have threads yet.

    Args:
        path: `sys.path` of a fresh interpreter, without a program's folder.
        modules: what the server imports; one that isn't there is left to who asks for it.

    Returns:
        The server. In its copies it returns never: they run their program and exit.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if os.fork() != 0:
        theirs.close()
        return ForkServer(ours)
    ours.close()
    os.setsid()
    _take_output([os.open(os.devnull, os.O_WRONLY)] * 2)  # whoever reads it would wait for its end
    _become(*_Server(theirs, list(modules)).serve(), path)
    raise AssertionError("a program returned")


@dataclass
class _Server:
    """The server's loop, without threads."""

    channel: socket.socket
    modules: list[str]
    copies: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Process id and file for the status of each copy, by its process's descriptor."""

    def serve(self) -> tuple[Program, list[int]]:
        """What a copy is to become and its output; returns in copies only."""
        # A copy that is asked for now would import the first one itself.
        self._import(self.modules.pop(0))
        files = select.poll()
        files.register(self.channel, select.POLLIN)
        while True:
            ready = files.poll(0 if self.modules else None)
            if not ready and self.modules:
                self._import(self.modules.pop(0))
            for number, _ in ready:
                if number != self.channel.fileno():
                    files.unregister(number)
                    self._tell(number)
                elif (made := self._fork()) is None:
                    continue
                elif isinstance(made, int):
                    files.register(made, select.POLLIN)
                else:
                    return made

    @staticmethod
    def _import(name: str) -> None:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
        gc.freeze()  # a copy's collector then leaves the shared pages alone

    def _tell(self, number: int) -> None:
        """Say how a copy ended."""
        pid, told = self.copies.pop(number)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        with contextlib.suppress(OSError):  # nobody asks any more
            os.write(told, _INT.pack(code))
        os.close(told)
        os.close(number)

    def _fork(self) -> int | tuple[Program, list[int]] | None:
        """Serve one request: the copy's descriptor, or in the copy what it becomes."""
        message, files, _, _ = socket.recv_fds(self.channel, 1, 4)
        if not message:
            self._end()
        asked, *output, told = files
        try:
            pid = os.fork()
        except OSError:  # the owner gets a clear error where it tries the same
            pid = -1
        if pid == 0:
            self.channel.detach()
            with os.fdopen(asked, "rb", closefd=False) as text:
                text.seek(0)
                return Program(**json.load(text)), output
        if pid > 0:
            os.setpgid(pid, pid)  # before anybody can want to end it
        for number in (asked, *output):
            os.close(number)
        with contextlib.suppress(OSError):
            self.channel.send(_INT.pack(pid))
        if pid < 0:
            os.close(told)
            return None
        copy = os.pidfd_open(pid)
        self.copies[copy] = (pid, told)
        return copy

    def _end(self) -> None:
        """The owner is gone: so is what it started."""
        for pid, _ in self.copies.values():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGTERM)
        os._exit(0)


def _become(program: Program, output: Sequence[int], path: Sequence[str]) -> None:
    """Be a program, from a fresh interpreter's state to its exit."""
    _take_output(output)
    os.closerange(3, _highest() + 1)
    _renew_streams()
    os.environ.clear()
    os.environ.update(program.environment)
    os.chdir(program.directory)
    for name in [each for each in sys.modules if each.partition(".")[0] in OWN]:
        del sys.modules[name]
    sys.argv = [program.target, *program.arguments]
    if program.is_module:
        sys.path[:] = [program.directory, *path]
        runpy.run_module(program.target, run_name="__main__", alter_sys=True)
    else:
        target = Path(program.target)
        # A folder gets its own entry from runpy.
        sys.path[:] = path if target.is_dir() else [str(target.parent), *path]
        runpy.run_path(program.target, run_name="__main__")
    sys.exit(0)


def _take_output(output: Sequence[int]) -> None:
    """Print to other files, and read nothing."""
    for number, file in enumerate([os.open(os.devnull, os.O_RDONLY), *output]):
        os.dup2(file, number)


def _highest() -> int:
    """The highest open file of this process."""
    return max(int(each.name) for each in Path("/proc/self/fd").iterdir())


def _renew_streams() -> None:
    """Streams on the new files, without a buffer, as `python -u` has them."""
    sys.stdin = open(0, closefd=False)  # noqa: SIM115
    for name, number in (("stdout", 1), ("stderr", 2)):
        old = getattr(sys, name)
        raw = io.FileIO(number, "w", closefd=False)
        new = io.TextIOWrapper(raw, old.encoding, old.errors, write_through=True)
        setattr(sys, name, new)
        setattr(sys, f"__{name}__", new)
