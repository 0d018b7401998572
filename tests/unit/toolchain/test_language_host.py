"""The language host, called over gRPC on loopback as the CLI calls it."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf import empty_pb2, json_format, struct_pb2
from pulumi.runtime.proto import language_pb2, language_pb2_grpc

from tests.host import wait_until
from toolchain import language_host, pulumi_cli, shell
from toolchain.language_host import LanguageHost, engine_address, make_server
from toolchain.layout import PLUGINS, this_checkout

EXEC_SCRIPT = """\
import json, os, signal, subprocess, sys, time
from pathlib import Path
out = Path(os.environ["RECORD"])
names = ("PULUMI_CONFIG", "PULUMI_CONFIG_SECRET_KEYS", "VIRTUAL_ENV", "PATH", "PYTHONHOME")
seen = {"argv": sys.argv[1:], "env": {n: os.environ.get(n) for n in names}, "pid": os.getpid()}
seen["parent"] = os.getppid()
how = os.environ.get("HOW", "0")
if how == "stay":
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    seen["child"] = child.pid
if how == "stubborn":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
out.with_suffix(".part").write_text(json.dumps(seen))
out.with_suffix(".part").rename(out)
if how in ("stay", "stubborn"):
    time.sleep(60)
if how == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
sys.exit(int(how))
"""

PLUGIN = """\
import os, sys
sys.stdout.write("out:" + os.environ.get("GREETING", "") + ":" + os.getcwd() + "\\n")
sys.stderr.write("err:" + ",".join(sys.argv[1:]) + ":" + os.environ["VIRTUAL_ENV"] + "\\n")
sys.exit(5)
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project folder beside a virtual environment that a relative path leads to."""
    bin_folder = tmp_path / "venv" / "bin"
    bin_folder.mkdir(parents=True)
    (bin_folder / "python").symlink_to(sys.executable)
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


@pytest.fixture
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """File in which the exec script writes down how it was run."""
    path = tmp_path / "record.json"
    monkeypatch.setenv("RECORD", str(path))
    return path


@pytest.fixture
def stub(tmp_path: Path) -> Iterator[Any]:
    """A client of a language host whose exec script is `EXEC_SCRIPT`."""
    script = tmp_path / "exec-script"
    script.write_text(EXEC_SCRIPT)
    host = LanguageHost(version="3.0.0", engine="127.0.0.1:7", exec_script=script)
    server, port = make_server(host)
    server.start()
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield language_pb2_grpc.LanguageRuntimeStub(channel)
    host.children.end_all()
    server.stop(None).wait()


def program_info(folder: Path, **options: Any) -> Any:
    """A program's folder and runtime options; by default the environment beside the folder."""
    chosen = json_format.ParseDict(
        options or {"toolchain": "pip", "virtualenv": "../venv"}, struct_pb2.Struct()
    )
    return language_pb2.ProgramInfo(
        root_directory=str(folder),
        program_directory=str(folder),
        entry_point=".",
        options=chosen,
    )


def run_request(folder: Path, **fields: Any) -> Any:
    """A request to run a program as `pulumi preview` makes it."""
    given = {
        "project": "tiny",
        "stack": "dev",
        "pwd": str(folder),
        "parallel": 16,
        "dryRun": True,
        "organization": "organization",
        "monitor_address": "127.0.0.1:1",
        "config": {"tiny:key": "value"},
        "configSecretKeys": ["tiny:secret"],
        "info": program_info(folder),
    }
    return language_pb2.RunRequest(**{**given, **fields})


def await_end(pid: int) -> None:
    """Wait until a process has ended."""
    wait_until(lambda: is_gone(pid), timeout_s=8, describe=lambda: f"process {pid} still runs")


def is_gone(pid: int) -> bool:
    """Whether a process has ended (a zombie has)."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return True
    return state == "Z"


def read_record(path: Path) -> dict[str, Any]:
    """What the exec script wrote, once it did."""
    wait_until(path.exists, timeout_s=10, describe=lambda: "the exec script wrote nothing")
    seen: dict[str, Any] = json.loads(path.read_text())
    return seen


def test_program_gets_flags_config_and_environment(stub: Any, project: Path, record: Path) -> None:
    """A program runs on its environment with all that the exec script needs to know."""
    answer = stub.Run(run_request(project))
    assert (answer.error, answer.bail) == ("", False)
    seen = read_record(record)
    flags = dict(zip(seen["argv"][0:-1:2], seen["argv"][1::2], strict=True))
    assert flags == {
        "--monitor": "127.0.0.1:1",
        "--engine": "127.0.0.1:7",
        "--project": "tiny",
        "--stack": "dev",
        "--pwd": str(project),
        "--parallel": "16",
        "--dry_run": "true",
        "--organization": "organization",
        "--root_directory": str(project),
    }
    assert seen["argv"][-1] == str(project)
    environment = seen["env"]
    assert json.loads(environment["PULUMI_CONFIG"]) == {"tiny:key": "value"}
    assert json.loads(environment["PULUMI_CONFIG_SECRET_KEYS"]) == ["tiny:secret"]
    venv = project.parent / "venv"
    assert environment["VIRTUAL_ENV"] == str(venv)
    assert environment["PATH"].split(os.pathsep)[0] == str(venv / "bin")


def test_up_is_no_dry_run(stub: Any, project: Path, record: Path) -> None:
    """The dry-run flag is absent in an update."""
    stub.Run(run_request(project, dryRun=False))
    assert "--dry_run" not in read_record(record)["argv"]


def test_handshake_replaces_the_engine_address(stub: Any, project: Path, record: Path) -> None:
    """The address of the handshake is the one that programs get."""
    stub.Handshake(language_pb2.LanguageHandshakeRequest(engine_address="127.0.0.1:9"))
    stub.Run(run_request(project))
    argv = read_record(record)["argv"]
    assert argv[argv.index("--engine") + 1] == "127.0.0.1:9"


@pytest.mark.parametrize(
    ("how", "bail", "error"),
    [
        ("0", False, ""),
        ("32", True, ""),
        ("3", False, "Program exited with non-zero exit code: 3"),
        ("killed", False, "Program was ended by signal SIGKILL"),
    ],
)
def test_exit_code_becomes_the_answer(
    stub: Any,
    project: Path,
    record: Path,
    monkeypatch: pytest.MonkeyPatch,
    how: str,
    bail: bool,
    error: str,
) -> None:
    """The CLI learns how the program ended; code 32 says that the user knows already."""
    monkeypatch.setenv("HOW", how)
    answer = stub.Run(run_request(project))
    assert (answer.bail, answer.error) == (bail, error)
    assert record.exists()


def test_cancelled_call_ends_the_whole_process_group(
    stub: Any, project: Path, record: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither a program nor what it started outlives its call."""
    monkeypatch.setenv("HOW", "stay")
    call = stub.Run.future(run_request(project))
    seen = read_record(record)
    assert not is_gone(seen["pid"])
    assert not is_gone(seen["child"])
    call.cancel()
    for pid in (seen["pid"], seen["child"]):
        await_end(pid)


def test_program_that_ignores_sigterm_is_killed(
    stub: Any, project: Path, record: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the grace period a cancelled program is killed."""
    monkeypatch.setenv("HOW", "stubborn")
    monkeypatch.setattr(language_host, "GRACE_S", 0.3)
    call = stub.Run.future(run_request(project))
    pid = read_record(record)["pid"]
    call.cancel()
    await_end(pid)


def plugin_request(project: Path, **fields: Any) -> Any:
    """A request to run a plugin whose folder lies beside the project's."""
    folder = project.parent / "plugin"
    folder.mkdir(exist_ok=True)
    (folder / "__main__.py").write_text(PLUGIN)
    given = {
        "pwd": str(project),
        "args": ["127.0.0.1:7"],
        "env": ["GREETING=hello=you"],
        "kind": "resource",
        "info": program_info(folder),
    }
    return language_pb2.RunPluginRequest(**{**given, **fields})


def test_plugin_streams_output_and_exit_code(stub: Any, project: Path) -> None:
    """A plugin's streams stay apart, and its exit code comes last."""
    answers = list(stub.RunPlugin(plugin_request(project)))
    out = b"".join(each.stdout for each in answers).decode()
    err = b"".join(each.stderr for each in answers).decode()
    assert out == f"out:hello=you:{project}\n"
    assert err == f"err:127.0.0.1:7:{project.parent / 'venv'}\n"
    assert answers[-1].exitcode == 5


def test_policy_pack_runs_in_the_sdks_policy_module(project: Path) -> None:
    """A plugin of kind analyzer is a policy pack: the SDK's module runs its folder."""
    request = plugin_request(project, kind="analyzer")
    arguments = language_host.plugin_arguments(request, Path("/v/bin/python"))
    folder = str(project.parent / "plugin")
    assert arguments == ["/v/bin/python", "-u", "-m", "pulumi.policy", "127.0.0.1:7", folder]


def test_cancelled_plugin_ends(stub: Any, project: Path) -> None:
    """A plugin that the CLI has no more use for ends."""
    request = plugin_request(project)
    program = project.parent / "plugin" / "__main__.py"
    program.write_text("import os, time\nprint(os.getpid(), flush=True)\ntime.sleep(60)\n")
    answers = stub.RunPlugin(request)
    pid = int(next(answers).stdout)
    assert not is_gone(pid)
    answers.cancel()
    await_end(pid)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"virtualenv": "missing"}, "'missing' is not a virtual environment"),
        ({"toolchain": "uv"}, "toolchain is 'uv'"),
        ({"typechecker": "mypy"}, "'typechecker' is refused"),
    ],
)
def test_what_is_not_served_is_refused(
    stub: Any, project: Path, options: dict[str, str], named: str
) -> None:
    """An option that this host doesn't serve is an error of three lines, never ignored."""
    with pytest.raises(grpc.RpcError) as refused:
        stub.Run(run_request(project, info=program_info(project, **options)))
    assert refused.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    lines = (refused.value.details() or "").splitlines()
    assert named in lines[0]
    assert [line.partition(":")[0] for line in lines[1:]] == ["why", "do"]


def test_debugger_is_refused(stub: Any, project: Path) -> None:
    """A request to attach a debugger is refused by programs and plugins alike."""
    with pytest.raises(grpc.RpcError, match="attach-debugger"):
        stub.Run(run_request(project, attach_debugger=True))
    with pytest.raises(grpc.RpcError, match="attach-debugger"):
        list(stub.RunPlugin(plugin_request(project, attach_debugger=True)))


def test_code_generation_is_unimplemented(stub: Any) -> None:
    """What the host has no method for answers "unimplemented"."""
    with pytest.raises(grpc.RpcError) as refused:
        stub.GenerateProgram(language_pb2.GenerateProgramRequest())
    assert refused.value.code() is grpc.StatusCode.UNIMPLEMENTED


def test_required_packages_are_those_of_the_requirements(stub: Any, project: Path) -> None:
    """The plugins asked for are those of the installed SDKs, in their versions, each once."""
    info = program_info(project, virtualenv=sys.prefix)
    packages = stub.GetRequiredPackages(language_pb2.GetRequiredPackagesRequest(info=info)).packages
    checkout = this_checkout()
    assert {(each.name, each.kind, each.version) for each in packages} == {
        (name, "resource", f"v{checkout.plugin_version(name)}") for name in PLUGINS
    }
    assert len(packages) == len(PLUGINS)


def test_foreign_interpreter_is_asked_itself(stub: Any, project: Path) -> None:
    """The packages of another environment are read by its own interpreter."""
    request = language_pb2.GetProgramDependenciesRequest(
        info=program_info(project), transitiveDependencies=True
    )
    names = {each.name for each in stub.GetProgramDependencies(request).dependencies}
    assert "pulumi" not in names  # the environment beside the project holds nothing


def test_dependencies_without_those_of_others(stub: Any, project: Path) -> None:
    """Only with the transitive flag are the requirements of requirements listed."""
    info = program_info(project, virtualenv=sys.prefix)
    listed = [
        {
            each.name
            for each in stub.GetProgramDependencies(
                language_pb2.GetProgramDependenciesRequest(
                    info=info, transitiveDependencies=transitive
                )
            ).dependencies
        }
        for transitive in (False, True)
    ]
    assert listed[0] < listed[1]
    assert "pulumi" in listed[1] - listed[0]
    assert "pulumi-docker" in listed[0]


def test_installation_makes_the_environment_then_installs(project: Path) -> None:
    """The commands that a folder needs: none that is done already."""
    host = LanguageHost(version="3.0.0", engine="", exec_script=project)
    for option, wanted in (("fresh", ["-m venv", "-m pip"]), ("../venv", ["-m pip"])):
        (project / "requirements.txt").write_text("# nothing\n")
        info = program_info(project, virtualenv=option)
        request = language_pb2.InstallDependenciesRequest(directory=str(project), info=info)
        commands = [" ".join(command[1:3]) for command, _ in host.install_steps(request)]
        assert commands == wanted
        (project / "requirements.txt").unlink()
        commands = [" ".join(command[1:3]) for command, _ in host.install_steps(request)]
        assert commands == wanted[:-1]


def test_installation_streams_its_output(stub: Any, project: Path) -> None:
    """What pip says arrives as it comes, after a line that says what is done."""
    (project / "requirements.txt").write_text("pip\n")
    info = program_info(project, virtualenv=sys.prefix)
    request = language_pb2.InstallDependenciesRequest(directory=str(project), info=info)
    said = b"".join(each.stdout for each in stub.InstallDependencies(request)).decode()
    assert said.startswith(f"Installing {project / 'requirements.txt'}\n")
    assert "Requirement already satisfied: pip" in said


def test_failed_installation_is_an_error(stub: Any, project: Path) -> None:
    """Requirements that can't be installed end the call with an error."""
    (project / "requirements.txt").write_text("./no-such-folder\n")
    info = program_info(project, virtualenv=sys.prefix)
    request = language_pb2.InstallDependenciesRequest(directory=str(project), info=info)
    with pytest.raises(grpc.RpcError, match="exit code 1"):
        list(stub.InstallDependencies(request))


def test_about_names_the_programs_interpreter(stub: Any, project: Path) -> None:
    """`pulumi about` shows the interpreter that a program runs on."""
    answer = stub.About(language_pb2.AboutRequest(info=program_info(project)))
    assert answer.executable == str(project.parent / "venv" / "bin" / "python")
    assert answer.version == ".".join(map(str, sys.version_info[:3]))


def test_plugin_info_and_prompts(stub: Any) -> None:
    """The host says its version and asks nothing."""
    assert stub.GetPluginInfo(empty_pb2.Empty()).version == "3.0.0"
    assert not stub.RuntimeOptionsPrompts(language_pb2.RuntimeOptionsRequest()).prompts


@pytest.mark.parametrize(
    ("arguments", "address"),
    [([], ""), (["127.0.0.1:7"], "127.0.0.1:7"), (["-v=9", "--logflow", "[::1]:7"], "[::1]:7")],
)
def test_engine_address_is_the_last_argument(arguments: list[str], address: str) -> None:
    """Flags before the engine's address don't matter."""
    assert engine_address(arguments) == address


@contextmanager
def running_host(tmp_path: Path, *prefix: str) -> Iterator[Any]:
    """A language host in a process of its own, started by the words of `prefix` if given."""
    launcher = tmp_path / "launcher"
    launcher.write_text(
        pulumi_cli.LAUNCHER.format(python=sys.executable, root=str(this_checkout().root))
    )
    (tmp_path / language_host.EXEC_SCRIPT).write_text(EXEC_SCRIPT)
    command = [*prefix, sys.executable, str(launcher), "127.0.0.1:7"]
    environment = {**os.environ, "HOW": "stay"}
    process = shell.child(command, environment=environment, piped=True)
    try:
        yield process
    finally:
        shell.end_group(process, 5.0)
        process.communicate()


@pytest.mark.parametrize("options", [{}, {"toolchain": "pip"}], ids=["interpreter", "copy"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_ends_the_host_quietly_with_its_children(
    tmp_path: Path,
    project: Path,
    record: Path,
    number: signal.Signals,
    options: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """SIGINT and SIGTERM end the host with code 0, no word on stderr, and no child left."""
    monkeypatch.delenv("PULUMI_PYTHON_CMD", raising=False)
    info = program_info(project, **options)
    with running_host(tmp_path) as process:
        address = f"127.0.0.1:{int(process.stdout.readline())}"
        with grpc.insecure_channel(address) as channel:
            request = run_request(project, info=info)
            call = language_pb2_grpc.LanguageRuntimeStub(channel).Run.future(request)
            seen = read_record(record)
            assert (seen["parent"] != process.pid) is bool(options), "the copy is none"
            process.send_signal(number)
            assert process.wait(timeout=10) == 0
            # Cut off, or answered in the last moment: never taken for a program that succeeded.
            assert call.exception() is not None or "SIGTERM" in call.result().error
        assert process.communicate()[1] == b""
    for pid in (seen["pid"], seen["child"]):
        await_end(pid)


def test_host_ends_with_the_process_that_started_it(tmp_path: Path) -> None:
    """A killed CLI leaves no language host behind."""
    with running_host(tmp_path, "sh", "-c", '"$@" & echo $! >&2; wait', "sh") as process:
        host = int(process.stderr.readline())
        assert process.stdout.readline()
        assert not is_gone(host)
        process.kill()
        process.wait()
        await_end(host)
