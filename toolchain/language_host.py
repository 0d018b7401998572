"""A language host for Python programs: the server that Pulumi's CLI calls to run Python.

It serves the LanguageRuntime service on the stubs that the Python SDK ships, for the requests that
a Python program, a Python provider and a Python policy pack need. It takes the place of the
official `pulumi-language-python`, which no package registry serves. A request for anything else
(another package manager, code generation, a debugger) is refused, never ignored.

The CLI starts it as `pulumi-language-python [flags] [ENGINE]`, reads a port from its first line,
and ends it with SIGINT. Whatever it started ends with it, and with the call it was started for.
"""

import functools
import importlib.metadata
import json
import os
import platform
import queue
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent import futures
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NoReturn, TypeVar

import grpc
from google.protobuf import empty_pb2, json_format
from pulumi.runtime.proto import language_pb2, language_pb2_grpc, plugin_pb2

from abox.errors import AboxError, HostError, SettingsError
from toolchain import python_packages, shell
from toolchain.fork_server import ForkServer
from toolchain.python_packages import Distribution, installed
from toolchain.shell import Process

EXEC_SCRIPT = "pulumi-language-python-exec"
"""The script of Pulumi's sdk module that runs a program; the toolchain installs it."""

EXIT_MESSAGE_SHOWN = 32
"""Exit code of the exec script: the program has told the user what is wrong."""

GRACE_S = 4.0
"""Seconds between SIGTERM and SIGKILL for what a cancelled call had started.

The CLI gives the host 5 s in all before it kills it."""

MAX_MESSAGE_BYTES = 400 * 1024 * 1024
"""Largest gRPC message: the limit that the CLI and the SDK use."""

WORKERS = 64
"""Calls served at once. A plugin holds one for as long as it runs."""

KNOWN_OPTIONS = ("toolchain", "virtualenv")
"""Options of `runtime` in Pulumi.yaml, PulumiPlugin.yaml and PulumiPolicy.yaml that are served."""

Reply = TypeVar("Reply")


@dataclass(frozen=True)
class Interpreter:
    """The Python that a program, plugin or policy pack runs on."""

    executable: Path
    virtualenv: Path | None
    """Folder of the virtual environment; None: the interpreter stands alone."""

    def environment(self, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        """Variables of this process and `extra`, with the virtual environment activated."""
        variables = {**os.environ, **(extra or {})}
        if self.virtualenv is None:
            return variables
        variables.pop("PYTHONHOME", None)
        variables["VIRTUAL_ENV"] = str(self.virtualenv)
        path = variables.get("PATH", "")
        variables["PATH"] = os.pathsep.join(filter(None, [str(self.virtualenv / "bin"), path]))
        return variables


def read_options(info: Any) -> dict[str, Any]:
    """The `runtime.options` of a program, plugin or policy pack.

    Raises:
        SettingsError: an option or a package manager that this host doesn't serve.
    """
    options: dict[str, Any] = json_format.MessageToDict(info.options)
    unknown = sorted(set(options) - set(KNOWN_OPTIONS))
    if unknown:
        raise SettingsError(
            what=f"{info.root_directory}: runtime option {unknown[0]!r} is refused",
            why=f"this language host serves {' and '.join(KNOWN_OPTIONS)} only",
            remedy="remove the option, or put the official pulumi on PATH",
        )
    if options.get("toolchain", "pip") != "pip":
        raise SettingsError(
            what=f"{info.root_directory}: runtime option toolchain is {options['toolchain']!r}",
            why="this language host serves virtual environments with pip only",
            remedy="write `toolchain: pip`, or put the official pulumi on PATH",
        )
    return options


def find_interpreter(info: Any, *, must_exist: bool = True) -> Interpreter:
    """The interpreter for a program, from its `virtualenv` option.

    A relative path starts at the folder of the project, plugin or policy pack. Without the option
    it is `PULUMI_PYTHON_CMD`, else the interpreter of this host.

    Raises:
        SettingsError: the option names no virtual environment.
    """
    option = read_options(info).get("virtualenv")
    if not option:
        return _ambient_interpreter()
    virtualenv = Path(os.path.normpath(Path(info.root_directory or ".") / option))
    executable = virtualenv / "bin" / "python"
    if must_exist and not executable.is_file():
        raise SettingsError(
            what=f"{info.root_directory}: virtualenv {option!r} is not a virtual environment",
            why=f"{executable} doesn't exist",
            remedy="run `make toolchain` in the checkout, or `pulumi install` in a project",
        )
    return Interpreter(executable, virtualenv)


def _ambient_interpreter() -> Interpreter:
    """The interpreter of a program that names no virtual environment."""
    command = os.environ.get("PULUMI_PYTHON_CMD")
    if command:
        return Interpreter(Path(command), None)
    own = Path(sys.prefix) if sys.prefix != sys.base_prefix else None
    return Interpreter(Path(sys.executable), own)


def program_arguments(request: Any, python: Path, engine: str, script: Path) -> list[str]:
    """Command line that runs a program with the SDK's exec script."""
    named = {
        "--monitor": request.monitor_address,
        "--engine": engine,
        "--project": request.project,
        "--stack": request.stack,
        "--pwd": request.pwd,
        "--parallel": str(request.parallel),
        "--dry_run": "true" if request.dryRun else "",
        "--organization": request.organization,
        "--root_directory": request.info.root_directory,
    }
    flags = [word for flag, value in named.items() if value for word in (flag, value)]
    return [str(python), "-u", str(script), *flags, str(program_path(request.info)), *request.args]


def program_path(info: Any) -> Path:
    """File or folder that a program starts from."""
    directory = Path(info.program_directory)
    return directory if info.entry_point in ("", ".") else directory / info.entry_point


def plugin_arguments(request: Any, python: Path) -> list[str]:
    """Command line that runs a provider or, for kind `analyzer`, a policy pack."""
    program = request.info.program_directory
    if request.kind == "analyzer":
        return [str(python), "-u", "-m", "pulumi.policy", *request.args, program]
    return [str(python), "-u", program, *request.args]


def refusing_errors(method: Callable[..., Reply]) -> Callable[..., Reply]:
    """Answer a call that fails with the three lines of its error instead of a traceback."""

    @functools.wraps(method)
    def answer(self: "LanguageHost", request: Any, context: grpc.ServicerContext) -> Reply:
        try:
            return method(self, request, context)
        except AboxError as error:
            _refuse(context, error)

    return answer


def _refuse(context: grpc.ServicerContext, error: AboxError) -> NoReturn:
    """End a call with an error of ours."""
    context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(error))
    raise AssertionError("abort returned") from error


class Children:
    """The processes that calls have started; each ends with its call, or with the host."""

    def __init__(self, forks: ForkServer | None) -> None:
        self._forks = forks
        self._running: set[Process] = set()
        self._lock = threading.Lock()
        self._closed = False

    def start(
        self,
        context: grpc.ServicerContext,
        arguments: Sequence[str],
        *,
        environment: Mapping[str, str],
        directory: Path | None = None,
        piped: bool = False,
    ) -> Process:
        """Start a process for a call: a cancelled call ends it and its whole group.

        Raises:
            HostError: the program isn't there, or the host is stopping.
        """
        with self._lock:
            if self._closed:
                raise HostError(
                    what=f"{arguments[0]} was not started",
                    why="the language host is stopping",
                    remedy="run the command again",
                )
            process: Process | None = None
            if self._forks is not None:
                process = self._forks.start(
                    arguments, environment=environment, directory=directory, piped=piped
                )
            if process is None:
                process = shell.child(
                    arguments, environment=environment, directory=directory, piped=piped
                )
            self._running.add(process)
        # The thread that tells of a call's end serves all calls: it must not wait for a process.
        ender = threading.Thread(target=self.end, args=(process,))
        if not context.add_callback(ender.start):
            ender.start()
        return process

    def end(self, process: Process) -> None:
        """End a process and its group; harmless if it has ended."""
        shell.end_group(process, GRACE_S)
        with self._lock:
            self._running.discard(process)

    def end_all(self) -> None:
        """End everything, side by side, and start nothing any more."""
        with self._lock:
            self._closed = True
            running = list(self._running)
        enders = [threading.Thread(target=self.end, args=(process,)) for process in running]
        for ender in enders:
            ender.start()
        for ender in enders:
            ender.join()


class LanguageHost(language_pb2_grpc.LanguageRuntimeServicer):
    """The LanguageRuntime service.

    Methods that are not here (code generation, packing, linking, templates) answer
    "unimplemented", which the CLI reports as such.
    """

    def __init__(
        self, *, version: str, engine: str, exec_script: Path, forks: ForkServer | None = None
    ) -> None:
        self._version = version
        self._engine = engine
        self._exec_script = exec_script
        self.children = Children(forks)

    def Handshake(self, request: Any, context: grpc.ServicerContext) -> Any:
        """First call of the CLI; carries the engine's address."""
        self._engine = request.engine_address or self._engine
        return language_pb2.LanguageHandshakeResponse()

    def GetPluginInfo(self, request: Any, context: grpc.ServicerContext) -> Any:
        """Version of this host: that of the CLI it was installed with."""
        return plugin_pb2.PluginInfo(version=self._version)

    @refusing_errors
    def About(self, request: Any, context: grpc.ServicerContext) -> Any:
        """The interpreter that a program would run on, for `pulumi about`."""
        interpreter = find_interpreter(request.info)
        if interpreter.executable == Path(sys.executable):
            version = platform.python_version()
        else:
            asked = shell.run(
                [interpreter.executable, "-c", "import platform;print(platform.python_version())"]
            )
            version = asked.stdout.strip()
        return language_pb2.AboutResponse(executable=str(interpreter.executable), version=version)

    def RuntimeOptionsPrompts(self, request: Any, context: grpc.ServicerContext) -> Any:
        """Questions for `pulumi new`: none."""
        return language_pb2.RuntimeOptionsResponse()

    @refusing_errors
    def GetRequiredPackages(self, request: Any, context: grpc.ServicerContext) -> Any:
        """Resource plugins that the SDKs of a program's environment ask for."""
        packages = [
            plugin_pb2.PackageDependency(
                name=plugin["name"],
                kind="resource",
                version=_plugin_version(plugin, distribution),
                server=plugin.get("server", ""),
            )
            for distribution in self._distributions(request.info)
            for plugin in distribution.plugins
        ]
        return language_pb2.GetRequiredPackagesResponse(packages=packages)

    @refusing_errors
    def GetProgramDependencies(self, request: Any, context: grpc.ServicerContext) -> Any:
        """Distributions of a program's environment, for `pulumi about`."""
        found = self._distributions(request.info)
        wanted = found
        if not request.transitiveDependencies:
            needed = {name for distribution in found for name in distribution.requires}
            wanted = [each for each in found if each.name not in needed]
        return language_pb2.GetProgramDependenciesResponse(
            dependencies=[
                language_pb2.DependencyInfo(name=each.name, version=each.version) for each in wanted
            ]
        )

    def _distributions(self, info: Any) -> list[Distribution]:
        """What is installed in a program's environment, by name."""
        interpreter = find_interpreter(info)
        if interpreter.executable == Path(sys.executable):
            return installed()
        asked = shell.require(
            shell.run([interpreter.executable, "-I", python_packages.__file__]),
            what=f"{interpreter.executable} can't say what is installed",
            remedy="remove the virtual environment and make it again with `make toolchain`",
        )
        return [Distribution(**entry) for entry in json.loads(asked.stdout)]

    def InstallDependencies(self, request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
        """Make the virtual environment of a project or plugin and install its requirements."""
        try:
            for arguments, title in self.install_steps(request):
                yield language_pb2.InstallDependenciesResponse(stdout=f"{title}\n".encode())
                yield from self._install_step(request, context, arguments)
        except AboxError as error:
            _refuse(context, error)

    def install_steps(self, request: Any) -> Iterator[tuple[list[str], str]]:
        """Commands that a folder still needs, each with a line for the user."""
        interpreter = find_interpreter(request.info, must_exist=False)
        python = str(interpreter.executable)
        if interpreter.virtualenv is not None and not interpreter.executable.is_file():
            maker = os.environ.get("PULUMI_PYTHON_CMD") or sys.executable
            make = [maker, "-m", "venv", str(interpreter.virtualenv)]
            yield make, f"Creating the virtual environment {interpreter.virtualenv}"
        directory = Path(request.directory or request.info.root_directory)
        if (directory / "requirements.txt").is_file():
            install = [python, "-m", "pip", "install", "-r", "requirements.txt"]
            yield install, f"Installing {directory / 'requirements.txt'}"

    def _install_step(
        self, request: Any, context: grpc.ServicerContext, arguments: list[str]
    ) -> Iterator[Any]:
        """Run one command of an installation, its output as it comes."""
        interpreter = find_interpreter(request.info, must_exist=False)
        directory = Path(request.directory or request.info.root_directory)
        process = self.children.start(
            context,
            arguments,
            environment=interpreter.environment(),
            directory=directory,
            piped=True,
        )
        for field, data in _output(process):
            yield language_pb2.InstallDependenciesResponse(**{field: data})
        code = process.wait()
        self.children.end(process)
        if code != 0:
            raise HostError(
                what=f"{' '.join(arguments[1:4])} failed in {directory}",
                why=f"it ended with exit code {code}; its output stands above",
                remedy="repair what it names and run the command again",
            )

    @refusing_errors
    def Run(self, request: Any, context: grpc.ServicerContext) -> Any:
        """Run a program to its end; what it prints goes to the CLI as this host's output."""
        _refuse_debugger(request)
        interpreter = find_interpreter(request.info)
        environment = interpreter.environment(
            {
                "PULUMI_CONFIG": json.dumps(dict(request.config)),
                "PULUMI_CONFIG_SECRET_KEYS": json.dumps(list(request.configSecretKeys)),
            }
        )
        arguments = program_arguments(
            request, interpreter.executable, self._engine, self._exec_script
        )
        process = self.children.start(context, arguments, environment=environment)
        code = process.wait()
        self.children.end(process)
        return run_response(code)

    def RunPlugin(self, request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
        """Run a provider or policy pack, its output as it comes and its exit code at the end."""
        try:
            process = self._start_plugin(request, context)
        except AboxError as error:
            _refuse(context, error)
        for stream, data in _output(process):
            yield _plugin_output(stream, data)
        code = process.wait()
        self.children.end(process)
        yield language_pb2.RunPluginResponse(exitcode=code)

    def _start_plugin(self, request: Any, context: grpc.ServicerContext) -> Process:
        """Start the process of a plugin."""
        _refuse_debugger(request)
        interpreter = find_interpreter(request.info)
        extra = dict(entry.split("=", 1) for entry in request.env if "=" in entry)
        return self.children.start(
            context,
            plugin_arguments(request, interpreter.executable),
            environment=interpreter.environment(extra),
            directory=Path(request.pwd) if request.pwd else None,
            piped=True,
        )

    def Cancel(self, request: Any, context: grpc.ServicerContext) -> Any:
        """The user has interrupted an operation. The CLI cancels the calls, which ends them."""
        return empty_pb2.Empty()


def _plugin_output(stream: str, data: bytes) -> Any:
    """A piece of a plugin's output."""
    if stream == "stdout":
        return language_pb2.RunPluginResponse(stdout=data)
    return language_pb2.RunPluginResponse(stderr=data)


def run_response(code: int) -> Any:
    """Answer for a program that has ended with an exit code (negative: by a signal)."""
    if code == 0:
        return language_pb2.RunResponse()
    if code == EXIT_MESSAGE_SHOWN:
        return language_pb2.RunResponse(bail=True)
    if code < 0:
        name = signal.Signals(-code).name
        return language_pb2.RunResponse(error=f"Program was ended by signal {name}")
    return language_pb2.RunResponse(error=f"Program exited with non-zero exit code: {code}")


def _refuse_debugger(request: Any) -> None:
    """Refuse a request to wait for a debugger, which would otherwise be forgotten."""
    if request.attach_debugger:
        raise SettingsError(
            what="--attach-debugger is refused",
            why="this language host can't attach a debugger",
            remedy="leave the flag out, or put the official pulumi on PATH",
        )


def _plugin_version(plugin: Mapping[str, Any], distribution: Distribution) -> str:
    """Version of the plugin that an SDK asks for; without one, the SDK's own."""
    return "v" + str(plugin.get("version") or distribution.version).lstrip("v")


def _output(process: Process) -> Iterator[tuple[str, bytes]]:
    """What a process prints, as it comes, each piece with the name of its stream."""
    pieces: queue.SimpleQueue[tuple[str, bytes] | None] = queue.SimpleQueue()

    def pump(stream: IO[bytes], name: str) -> None:
        with stream:
            while data := stream.read1(65536):  # type: ignore[attr-defined]
                pieces.put((name, data))
        pieces.put(None)

    streams = {"stdout": process.stdout, "stderr": process.stderr}
    for name, stream in streams.items():
        threading.Thread(target=pump, args=(stream, name), daemon=True).start()
    ended = 0
    while ended < len(streams):
        piece = pieces.get()
        if piece is None:
            ended += 1
        else:
            yield piece


def make_server(host: LanguageHost) -> tuple[grpc.Server, int]:
    """A gRPC server on a free port of loopback, and the port."""
    limits = [
        ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
        ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ]
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=WORKERS), options=limits)
    language_pb2_grpc.add_LanguageRuntimeServicer_to_server(host, server)
    return server, server.add_insecure_port("127.0.0.1:0")


def serve(host: LanguageHost) -> None:
    """Serve until SIGINT, SIGTERM or the end of the process that started this one."""
    parent = os.getppid()  # before the port is printed: the CLI is there until it has read it
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    server, port = make_server(host)
    server.start()
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()
    while not stop.wait(timeout=1.0) and os.getppid() == parent:
        pass
    host.children.end_all()
    server.stop(grace=None).wait(timeout=GRACE_S)


def engine_address(arguments: Sequence[str]) -> str:
    """The engine's address: the last argument that isn't a flag; empty if there is none."""
    positional = [argument for argument in arguments if not argument.startswith("-")]
    return positional[-1] if positional else ""


def main(arguments: Sequence[str], exec_script: Path, forks: ForkServer | None = None) -> NoReturn:
    """Entry of `pulumi-language-python`; without a fork server everything starts by itself."""
    version = importlib.metadata.version("pulumi")
    engine = engine_address(arguments)
    serve(LanguageHost(version=version, engine=engine, exec_script=exec_script, forks=forks))
    # Threads of calls that were cut off may still hold pipes; nothing of theirs is wanted.
    sys.stdout.flush()
    os._exit(0)
