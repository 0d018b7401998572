"""The fork server: a copy behaves as an interpreter of its own would."""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Mapping
from concurrent import futures
from pathlib import Path
from typing import Any

import pytest

from tests import host
from tests.host import wait_until
from toolchain import fork_server
from toolchain.layout import this_checkout

OWNER = """\
import json, os, sys
fresh = sys.path[1:]
sys.path.insert(0, {root!r})
from toolchain import fork_server
forks = fork_server.fork(fresh, {modules!r})
{body}
"""
"""A process that owns a fork server and says what became of its copies."""

RUN = """\
environment = {**os.environ, **json.loads(os.environ["GIVEN"])}
found = []
for arguments in json.loads(os.environ["COMMANDS"]):
    copy = forks.start([sys.executable, "-u", *arguments], environment=environment,
                       directory=os.environ.get("WHERE"), piped=True)
    said = [stream.read().decode() for stream in (copy.stdout, copy.stderr)]
    found.append([*said, copy.wait(), copy.poll()])
print(json.dumps(found))
"""


def owner(tmp_path: Path, body: str, *, modules: tuple[str, ...] = ("decimal",)) -> list[str]:
    """Command line of an owner."""
    script = tmp_path / "owner.py"
    root = str(this_checkout().root)
    script.write_text(OWNER.format(root=root, modules=modules, body=body))
    return [sys.executable, str(script)]


def run(
    tmp_path: Path, commands: list[list[str]], given: dict[str, str] | None = None, **more: str
) -> list[Any]:
    """What copies printed on both streams and their exit codes, twice."""
    variables = {"GIVEN": json.dumps(given or {}), "COMMANDS": json.dumps(commands), **more}
    return list(json.loads(said_by(owner(tmp_path, RUN), variables)))


def said_by(command: list[str], variables: Mapping[str, str]) -> str:
    """What an owner prints."""
    return host.run(command, env={**os.environ, **variables}).stdout


def alone(arguments: list[str], given: dict[str, str], where: Path) -> list[Any]:
    """The same of an interpreter of its own."""
    command = [sys.executable, "-u", *arguments]
    done = host.run(command, env={**os.environ, **given}, cwd=where, check=False)
    return [done.stdout, done.stderr, done.code, done.code]


SEEN = """\
import atexit, json, os, signal, sys, threading
atexit.register(print, "at exit")
threading.Timer(0.3, print, ["thread"]).start()
import beside
print(json.dumps({
    "name": __name__, "argv": sys.argv, "path": sys.path, "folder": os.getcwd(),
    "in": sys.stdin.read(),
    "kept": os.environ.get("KEPT"), "gone": os.environ.get("GIVEN_NOT"), "beside": beside.__file__,
    "own": sorted(name for name in sys.modules if name.partition(".")[0] in ("abox", "toolchain")),
    "group": os.getpgid(0) == os.getpid(), "interrupt": str(signal.getsignal(signal.SIGINT)),
    "main": sys.modules["__main__"].__name__, "files": len(os.listdir("/proc/self/fd")),
    "encoding": [sys.stdout.encoding, sys.stdout.errors, sys.stderr.errors],
}))
sys.stderr.write("half a line")
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A program as a folder, a file and a module, each with a module beside it."""
    for folder in ("program", "files"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "beside.py").write_text("")
    (tmp_path / "beside.py").write_text("")
    (tmp_path / "program" / "__main__.py").write_text(SEEN)
    (tmp_path / "files" / "program.py").write_text(SEEN)
    (tmp_path / "as_module.py").write_text(SEEN)
    return tmp_path


@pytest.mark.parametrize("target", ["program", "files/program.py", "-m as_module"])
def test_a_copy_sees_what_an_interpreter_of_its_own_sees(place: Path, target: str) -> None:
    words = target.split()
    command = [*words[:-1], words[-1] if "-m" in words else str(place / words[-1]), "--flag", "ö"]
    given = {"KEPT": "yes"}
    (copied,) = run(place, [command], given, WHERE=str(place))
    fresh = alone(command, given, place)

    seen, expected = (
        json.loads(next(line for line in each[0].splitlines() if line.startswith("{")))
        for each in (copied, fresh)
    )
    assert expected.pop("group") is False  # of the test's own group
    assert seen.pop("group") is True
    assert seen == expected
    assert copied[1:] == fresh[1:]
    assert copied[0].splitlines()[-1] == "at exit"
    assert "thread" in copied[0].splitlines()


@pytest.mark.parametrize(
    ("program", "code"),
    [
        ("import sys; sys.exit(7)", 7),
        ("raise SystemExit('said')", 1),
        ("import os; os._exit(3)", 3),
        ("import os; os.kill(os.getpid(), 9)", -9),
        ("1 / 0", 1),
    ],
)
def test_a_copy_ends_as_an_interpreter_of_its_own_ends(
    tmp_path: Path, program: str, code: int
) -> None:
    script = tmp_path / "program.py"
    script.write_text(program)
    (copied,) = run(tmp_path, [[str(script)]])
    fresh = alone([str(script)], {}, tmp_path)
    assert copied[2:] == [code, code] == fresh[2:]
    assert copied[0] == fresh[0]
    assert copied[1].splitlines()[-1:] == fresh[1].splitlines()[-1:]


def test_what_is_preloaded_is_there_without_an_import(tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text("import sys, os; print('decimal' in sys.modules, os.getppid())")
    first, second = run(tmp_path, [[str(script)], [str(script)]])
    assert first[0].split()[0] == "True"
    assert first[0] == second[0], "they aren't copies of one process"


def test_a_copy_starts_while_a_module_is_missing(tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text("print('runs')")
    command = owner(tmp_path, RUN, modules=("no_such_module_at_all", "decimal"))
    said = said_by(command, {"GIVEN": "{}", "COMMANDS": json.dumps([[str(script)]])})
    assert json.loads(said)[0][0] == "runs\n"


def test_one_copy_ends_and_another_stays(tmp_path: Path) -> None:
    body = """\
import time
def start(name):
    command = [sys.executable, "-u", os.environ[name]]
    return forks.start(command, environment=dict(os.environ), piped=True)
stays, ends = start("STAYS"), start("ENDS")
assert stays.stdout.readline() == b"here\\n"
print(ends.wait(), ends.stdout.read(), stays.poll())
os.killpg(stays.pid, 15)
print(stays.wait(), stays.stdout.read())
"""
    (tmp_path / "stays.py").write_text("import time; print('here'); time.sleep(60)")
    (tmp_path / "ends.py").write_text("print('done')")
    given = {"STAYS": str(tmp_path / "stays.py"), "ENDS": str(tmp_path / "ends.py")}
    said = said_by(owner(tmp_path, body), given)
    assert said.splitlines() == [r"0 b'done\n' None", "-15 b''"]


def test_what_a_copy_prints_goes_where_its_owner_prints(tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text("import sys; print('out'); print('err', file=sys.stderr)")
    body = """\
copy = forks.start([sys.executable, "-u", os.environ["PROGRAM"]], environment=dict(os.environ))
sys.exit(copy.wait())
"""
    done = host.run(owner(tmp_path, body), env={**os.environ, "PROGRAM": str(script)})
    assert (done.stdout, done.stderr) == ("out\n", "err\n")


def test_a_killed_owner_takes_its_copies_along(tmp_path: Path) -> None:
    script, record = tmp_path / "program.py", tmp_path / "pid"
    script.write_text(
        "import os, pathlib, sys, time\n"
        "path = pathlib.Path(sys.argv[1])\n"
        "path.with_suffix('.part').write_text(f'{os.getpid()} {os.getppid()}')\n"
        "path.with_suffix('.part').rename(path)\n"
        "time.sleep(60)\n"
    )
    body = """\
import time
script, record = json.loads(os.environ["PROGRAM"])
forks.start([sys.executable, "-u", script, record], environment=dict(os.environ))
while not os.path.exists(record):
    time.sleep(0.05)
os.kill(os.getpid(), 9)
"""
    program = json.dumps([str(script), str(record)])
    done = host.run(owner(tmp_path, body), env={**os.environ, "PROGRAM": program}, check=False)
    assert done.code == -9
    wait_until(
        lambda: not any(_runs(int(pid)) for pid in record.read_text().split()),
        timeout_s=10,
        describe=lambda: "the copy or its server still runs",
    )


def _runs(pid: int) -> bool:
    try:
        return " Z " not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False


def test_a_server_that_was_killed_refuses(tmp_path: Path) -> None:
    body = """\
before = len(os.listdir("/proc/self/fd"))
def start():
    command = [sys.executable, "-u", os.environ["PROGRAM"]]
    return forks.start(command, environment=dict(os.environ), piped=True)
copy = start()
os.kill(int(copy.stdout.readline()), 9)
print(copy.wait(), copy.stdout.read())
copy.stdout.close()
copy.stderr.close()
print(start())
print(len(os.listdir("/proc/self/fd")) - before)
"""
    script = tmp_path / "program.py"
    script.write_text("import os, time; print(os.getppid()); time.sleep(50); print('survived')")
    said = said_by(owner(tmp_path, body), {"PROGRAM": str(script)})
    assert said.splitlines() == ["-9 b''", "None", "0"]


def test_a_server_that_cant_fork_refuses_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    server = fork_server._Server(theirs, [])

    def no_process() -> int:
        raise BlockingIOError("no process is left")

    monkeypatch.setattr(os, "fork", no_process)
    with ours, theirs, futures.ThreadPoolExecutor() as pool:
        command = [sys.executable, "-u", str(tmp_path)]
        for _ in range(2):
            asked = pool.submit(
                fork_server.ForkServer(ours).start, command, environment=os.environ, piped=True
            )
            assert server._fork() is None
            assert asked.result(timeout=10) is None
    assert server.copies == {}


def test_an_interpreter_is_known_by_another_path(tmp_path: Path) -> None:
    """A checkout that is reached through a link has the same virtual environment."""
    own = Path(sys.executable)
    (tmp_path / "link").symlink_to(own.parent.parent)
    other = str(tmp_path / "link" / own.parent.name / own.name)
    program = fork_server.parse_command([other, "-u", "program.py", "x"], os.environ, "/")
    assert program is not None
    assert (program.target, program.arguments) == ("program.py", ["x"])


@pytest.mark.parametrize(
    ("arguments", "variables"),
    [
        (["/usr/bin/env", "-u", "program.py"], {}),
        ([sys.executable, "program.py"], {}),
        ([sys.executable, "-u", "-c", "print()"], {}),
        ([sys.executable, "-u", "program.py"], {"PYTHONPATH": "/elsewhere"}),
        ([sys.executable, "-u", "program.py"], {"LC_ALL": "de_DE.ISO-8859-1"}),
        ([sys.executable, "-u", "program.py"], {"TRACEPARENT": "00-1-2-01"}),
    ],
    ids=["other-program", "buffered", "text", "other-path", "other-locale", "traced"],
)
def test_what_a_copy_cant_be_gets_an_interpreter_of_its_own(
    arguments: list[str], variables: dict[str, str]
) -> None:
    environment = {**os.environ, **variables}
    assert fork_server.parse_command(arguments, environment, "/") is None


def test_nothing_preloaded_starts_a_thread() -> None:
    text = (
        "import importlib, os, sys\n"
        "for name in sys.argv[1:]: importlib.import_module(name)\n"
        "print(len(os.listdir('/proc/self/task')))"
    )
    assert host.run([sys.executable, "-c", text, *fork_server.PRELOADED]).stdout == "1\n"
