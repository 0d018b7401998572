"""The Docker engine: uses the one that answers, else starts one and knows that it did."""

import http.client
import json
import os
import signal
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from abox.errors import HostError
from toolchain import shell
from toolchain.layout import HOST_RUN, HOST_STATE
from toolchain.locks import exclusive
from toolchain.progress import Step

DEFAULT_SOCKET = Path("/var/run/docker.sock")
START_TIMEOUT_S = 90.0
"""Seconds that an engine may take until it answers."""

STOP_TIMEOUT_S = 30.0
"""Seconds that an engine may take to end."""

OTHER_START_S = 20.0
"""Seconds that an engine which someone else is starting may take."""

MAX_LOG_BYTES = 10 * 1024 * 1024
"""Size from which the log of earlier engines is dropped at a start."""

LOG = HOST_STATE / "engine" / "dockerd.log"
PID_FILE = HOST_RUN / "dockerd.pid"
"""Process id of an engine that this module started; Docker's own file is left alone."""

CONTAINERD_PID_FILE = Path("/var/run/docker/containerd/containerd.pid")
BRIDGE_SYSCTL = Path("/proc/sys/net/bridge/bridge-nf-call-iptables")


class _SocketConnection(http.client.HTTPConnection):
    """HTTP over a unix socket."""

    def __init__(self, path: Path, timeout_s: float) -> None:
        super().__init__("localhost", timeout=timeout_s)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


def socket_path(environment: Mapping[str, str]) -> Path:
    """Socket of the engine on this host.

    Raises:
        HostError: DOCKER_HOST names an engine elsewhere.
    """
    host = environment.get("DOCKER_HOST", "")
    if not host:
        return DEFAULT_SOCKET
    if host.startswith("unix://"):
        return Path(host.removeprefix("unix://"))
    raise HostError(
        what=f"DOCKER_HOST={host} is refused",
        why="the firewall and the network namespaces are on this host, so the engine must be too",
        remedy="unset DOCKER_HOST, or set it to unix:///var/run/docker.sock",
    )


def ask(path: Path, request: str, timeout_s: float = 3.0) -> Any:
    """Answer of the engine to a GET request, parsed; None if no engine answers.

    Raises:
        HostError: there is a socket that this user may not open.
    """
    connection = _SocketConnection(path, timeout_s)
    try:
        connection.request("GET", request)
        response = connection.getresponse()
        return json.loads(response.read()) if response.status == http.client.OK else None
    except PermissionError as error:
        raise HostError(
            what=f"no permission to use the Docker engine at {path}",
            why="only root (and the group of the socket) may",
            remedy="run the command as root",
        ) from error
    except (OSError, http.client.HTTPException, ValueError):
        return None
    finally:
        connection.close()


def ensure(step: Step, environment: Mapping[str, str]) -> None:
    """See to it that an engine answers.

    Raises:
        HostError: none answers and none can be started; the reason is in the message.
    """
    path = socket_path(environment)
    if not _answers(path, step):
        _require_root()
        with exclusive(HOST_RUN / "engine.lock", lambda: step.say("waiting for another run")):
            if not _answers(path, step):
                _start(path, step)
    _load_bridge_filter(step)


def _answers(path: Path, step: Step) -> bool:
    """Whether an engine answers; says which one."""
    version = ask(path, "/version")
    if version is None:
        return False
    step.done(f"Docker {version.get('Version', 'of unknown version')} answers")
    return True


def _require_root() -> None:
    """Refuse to start an engine without the right to."""
    if os.geteuid() != 0:
        raise HostError(
            what="no Docker engine answers",
            why="only root can start one",
            remedy="run the command as root, or start the engine",
        )


def _start(path: Path, step: Step) -> None:
    """Start an engine: the system's service where there is one, else a process of our own."""
    if _someone_starts_one(path, step):
        return
    if Path("/run/systemd/system").is_dir():
        step.say("starting the system's docker service")
        started = shell.run(["systemctl", "start", "docker"], timeout_s=START_TIMEOUT_S)
        shell.require(
            started,
            what="the system's docker service can't be started",
            remedy="look at `journalctl -u docker`, repair what it names, then run this again",
        )
        _wait(path, step, None)
        return
    _start_process(path, step)


def _someone_starts_one(path: Path, step: Step) -> bool:
    """Give an engine that is just starting the time to answer."""
    if not processes_named("dockerd"):
        return False
    step.say("a dockerd is running but doesn't answer yet; waiting for it")
    deadline = time.monotonic() + OTHER_START_S
    while time.monotonic() < deadline and processes_named("dockerd"):
        if _answers(path, step):
            return True
        time.sleep(0.3)
    return False


def _start_process(path: Path, step: Step) -> None:
    """Start dockerd in the background and wait until it answers."""
    program = shell.which("dockerd")
    if program is None:
        raise HostError(
            what="no Docker engine answers and dockerd was not found",
            why="the package docker.io is not installed",
            remedy="run `make packages`, or install an engine yourself",
        )
    LOG.parent.mkdir(parents=True, exist_ok=True)
    PID_FILE.parent.mkdir(parents=True, exist_ok=True)
    if LOG.exists() and LOG.stat().st_size > MAX_LOG_BYTES:
        LOG.unlink()
    _remove_stale(PID_FILE, "dockerd")
    _remove_stale(CONTAINERD_PID_FILE, "containerd")
    hosts = [] if path == DEFAULT_SOCKET else ["--host", f"unix://{path}"]
    step.say(f"starting dockerd; its log is {LOG}")
    offset = LOG.stat().st_size if LOG.exists() else 0
    process = shell.daemon([program, "--pidfile", PID_FILE, *hosts], log=LOG)
    _wait(path, step, lambda: None if process.poll() is None else _reason(offset))


def _wait(path: Path, step: Step, died: Any) -> None:
    """Wait until the engine answers; `died` gives the reason once it can't any more."""
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline:
        if _answers(path, step):
            return
        reason = died() if died else None
        if reason:
            raise HostError(
                what="dockerd ended right after its start",
                why=reason,
                remedy=f"repair that and run this again; the whole log is {LOG}",
            )
        step.tick("waiting for the engine to answer")
        time.sleep(0.2)
    raise HostError(
        what=f"the Docker engine doesn't answer at {path} after {START_TIMEOUT_S:.0f} s",
        why=_reason(0) if died else "the service runs but its socket stays silent",
        remedy=f"look at {LOG}, or at the service's log, then run this again",
    )


def _reason(offset: int) -> str:
    """What the log says from `offset` on: the failing lines, else the last ones."""
    try:
        text = LOG.read_bytes()[offset:].decode(errors="replace")
    except OSError:
        return "it left no log"
    return last_words(text)


def last_words(log: str) -> str:
    """The lines of an engine's log that say why it ended, at most three."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    failing = [line for line in lines if line.startswith("failed to") or "level=fatal" in line] or [
        line for line in lines if "level=error" in line
    ]
    return " | ".join((failing or lines)[-3:]) or "it printed nothing"


def _remove_stale(path: Path, program: str) -> None:
    """Remove a pid file whose process is gone, or is another program by now."""
    pid = read_pid(path)
    if pid is not None and program_of(pid) != program:
        path.unlink(missing_ok=True)


def read_pid(path: Path) -> int | None:
    """Process id in a pid file; None if there is none."""
    try:
        return int(path.read_text().strip())
    except (OSError, ValueError):
        return None


def program_of(pid: int) -> str:
    """Name of the program that a process runs; empty if there is none, or it has ended."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    name, _, rest = text.partition("(")[2].rpartition(")")
    return "" if rest.split()[:1] in (["Z"], ["X"]) else name


def processes_named(program: str) -> list[int]:
    """Ids of the processes that run a program."""
    ids = (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())
    return [pid for pid in ids if program_of(pid) == program]


def stop(step: Step, environment: Mapping[str, str]) -> None:
    """Stop the engine, if this module started it and no container is running.

    Raises:
        HostError: containers are running, or it doesn't end.
    """
    pid = read_pid(PID_FILE)
    if pid is None or program_of(pid) != "dockerd":
        step.done("no engine that abox started is running")
        return
    running = ask(socket_path(environment), "/containers/json") or []
    if running:
        raise HostError(
            what="the Docker engine is not stopped",
            why=f"{len(running)} containers are running, among them {running[0]['Names'][0]}",
            remedy="end them first: `make down STACK=name` for sandboxes",
        )
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + STOP_TIMEOUT_S
    while program_of(pid) == "dockerd":
        if time.monotonic() > deadline:
            raise HostError(
                what=f"dockerd (process {pid}) still runs after {STOP_TIMEOUT_S:.0f} s",
                why="it is busy, or hangs",
                remedy=f"look at {LOG}; end the process by hand if need be",
            )
        time.sleep(0.1)
    PID_FILE.unlink(missing_ok=True)
    step.done("the engine is stopped")


def _load_bridge_filter(step: Step) -> None:
    """Load br_netfilter, without which the tables don't see frames between bridge ports."""
    if BRIDGE_SYSCTL.exists() or os.geteuid() != 0:
        return
    loaded = shell.run(["modprobe", "br_netfilter"])
    if loaded.code != 0 or not BRIDGE_SYSCTL.exists():
        step.say(f"the kernel has no br_netfilter: {loaded.stderr.strip() or 'no message'}")
