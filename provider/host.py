"""The provider's only door to the host: processes, kernel settings, files and the Docker engine.

Everything here does as it is told and decides nothing.
"""

from __future__ import annotations

import contextlib
import fcntl
import ipaddress
import json
import os
import shutil
import stat
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import docker
import docker.errors
import requests
from docker.utils import kwargs_from_env

from abox import host_state
from abox.addresses import Network
from abox.errors import HostError
from abox.filter_race import again_if_lost
from abox.naming import LABEL_SANDBOX
from provider.engine import Engine

COMMAND_TIMEOUT_S = 60
"""Seconds until a host command counts as hung."""

_QEMU_PIDS = Path("/run/libvirt/qemu")
_SECCOMP_FILTER = "Seccomp:\t2"

_PROC_SYS = Path("/proc/sys")
_INTERFACES = Path("/sys/class/net")
_IFF_UP = 1
_LIBVIRT_NETWORKS = Path("/etc/libvirt/qemu/networks")


def state_dir() -> Path:
    """Folder of the host's state."""
    return Path(host_state.state_dir(os.environ))


def checkout() -> str:
    """Folder of the project that drives this plugin: the owner of what it makes."""
    return os.environ.get("ABOX_ROOT") or str(Path(__file__).resolve().parent.parent)


def run(*command: str, stdin: str = "") -> str:
    """Standard output of ``command``.

    Raises:
        HostError: the tool is missing, hangs or fails; the text holds what it said.
    """
    shown = " ".join(command)
    try:
        done = subprocess.run(
            command, input=stdin, capture_output=True, text=True, timeout=COMMAND_TIMEOUT_S
        )
    except FileNotFoundError as error:
        raise HostError(
            what=f"`{shown}` can't be run",
            why=f"{command[0]} isn't installed",
            remedy="run `make up`, which installs what is missing",
        ) from error
    except subprocess.TimeoutExpired as error:
        raise HostError(
            what=f"`{shown}` hangs",
            why=f"no answer within {COMMAND_TIMEOUT_S} s",
            remedy="run it by hand to see what it waits for",
        ) from error
    if done.returncode != 0:
        said = " ".join(done.stderr.split()) or f"exit code {done.returncode}, no message"
        raise HostError(what=f"`{shown}` failed", why=said, remedy=_remedy(said))
    return done.stdout


def _remedy(said: str) -> str:
    if "Operation not permitted" in said or "must be root" in said:
        return "run as root (CAP_NET_ADMIN is needed)"
    return "run `abox doctor`, which says what this host lacks"


def nft(*arguments: str, stdin: str = "") -> str:
    """Run the nftables tool."""
    return run("nft", *arguments, stdin=stdin)


def virsh(*arguments: str, stdin: str = "") -> str:
    """Run libvirt's tool against the system's daemon."""
    call = ("virsh", "--quiet", "--connect", host_state.LIBVIRT_URI, *arguments)
    return again_if_lost(lambda: run(*call, stdin=stdin), HostError, time.sleep)


def packet_rules() -> str:
    """All rules of iptables and ebtables, which libvirt makes of nwfilters."""
    return run("iptables-save", "-t", "filter") + run("ebtables-save")


def is_confined(machine: str) -> bool:
    """Whether the QEMU process of a running machine has a system call filter."""
    try:
        pid = (_QEMU_PIDS / f"{machine}.pid").read_text().strip()
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False
    return _SECCOMP_FILTER in status.splitlines()


@dataclass(frozen=True)
class Taken:
    """Addresses that are in use on the host."""

    network: Network
    by: str
    """Who uses them, in words."""
    interface: str = ""
    """Interface of a route, or bridge of a Docker network, where known."""
    docker_id: str = ""
    """Id of a Docker network."""
    sandbox: str = ""
    """Sandbox that a Docker network is labelled with."""


def has_ipv6() -> bool:
    """Whether the kernel has IPv6."""
    return Path("/proc/net/if_inet6").exists()


_LIST_ROUTES, _OF_MAIN = ("ip", "-json"), ("route", "show", "table", "main")


def routes() -> list[Taken]:
    """Routes of the main table, without the default ones."""
    return [
        Taken(
            ipaddress.ip_network(route["dst"], strict=False),
            f"the route {route['dst']} by {route.get('dev', 'no interface')}",
            interface=route.get("dev", ""),
        )
        for family in ("-4", "-6")
        for route in json.loads(run(*_LIST_ROUTES, family, *_OF_MAIN) or "[]")
        if route["dst"] != "default"
    ]


def libvirt_networks() -> list[Taken]:
    """Networks that libvirt has defined, running or not.

    Read from its folder, since a daemon that isn't running can't be asked; a transient network
    has a bridge and therefore a route.
    """
    taken = []
    for path in sorted(_LIBVIRT_NETWORKS.glob("*.xml")):
        with contextlib.suppress(ElementTree.ParseError, ValueError):
            taken += _libvirt_addresses(path)
    return taken


def _libvirt_addresses(path: Path) -> list[Taken]:
    # The folder is writable by root alone, so the parser meets no hostile document.
    root = ElementTree.parse(path).getroot()  # noqa: S314
    name, bridge = root.findtext("name", path.stem), root.find("bridge")
    interface = bridge.get("name", "") if bridge is not None else ""
    return [
        Taken(
            ipaddress.IPv4Interface(f"{ip.get('address')}/{_mask(ip)}").network,
            f"the libvirt network {name!r}",
            interface=interface,
        )
        for ip in root.iter("ip")
        if ip.get("family", "ipv4") == "ipv4" and ip.get("address")
    ]


def _mask(ip: ElementTree.Element) -> str:
    return ip.get("prefix") or ip.get("netmask") or "32"


_clients = threading.local()


def engine() -> Engine:
    """This thread's client of the Docker engine (a session may not be shared by threads).

    Raises:
        HostError: no engine answers.
    """
    with docker_errors("talk to the Docker engine"):
        if not hasattr(_clients, "engine"):
            settings = kwargs_from_env()
            _clients.engine = Engine(version="auto", timeout=COMMAND_TIMEOUT_S, **settings)
        client: Engine = _clients.engine
        client.ping()
        return client


@contextlib.contextmanager
def docker_errors(action: str) -> Iterator[None]:
    """Turn the client's exceptions into errors with three lines; ``action`` is a verb phrase."""
    try:
        yield
    except docker.errors.APIError as error:
        raise HostError(
            what=f"Docker refused to {action}",
            why=" ".join(str(error.explanation or error).split()),
            remedy="look at the engine's log; `abox doctor` says what this host lacks",
        ) from error
    except (docker.errors.DockerException, requests.RequestException, OSError) as error:
        where = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock")
        raise HostError(
            what=f"can't {action}: no Docker engine answers at {where}",
            why=" ".join(str(error).split()),
            remedy="start dockerd (`make engine`), or set DOCKER_HOST to a running engine",
        ) from error


def docker_networks() -> list[Taken]:
    """Subnets of all Docker networks."""
    with docker_errors("list Docker networks"):
        listed = engine().networks()
    return [
        Taken(
            ipaddress.ip_network(block["Subnet"]),
            f"the Docker network {network['Name']!r}",
            interface=bridge_of(network),
            docker_id=network["Id"],
            sandbox=(network.get("Labels") or {}).get(LABEL_SANDBOX, ""),
        )
        for network in listed
        for block in (network.get("IPAM") or {}).get("Config") or []
        if block.get("Subnet")
    ]


def bridge_of(network: Mapping[str, Any]) -> str:
    """Interface name of a Docker bridge network."""
    options = network.get("Options") or {}
    name: str = options.get("com.docker.network.bridge.name") or f"br-{network['Id'][:12]}"
    return name


def network_namespace(pid: int) -> str:
    """Identity of the network namespace of a process; empty if the process is gone."""
    try:
        return str(Path(f"/proc/{pid}/ns/net").readlink())
    except OSError:
        return ""


def is_up(interface: str) -> bool:
    """Whether an interface exists and is switched on (with or without a carrier)."""
    try:
        flags = int((_INTERFACES / interface / "flags").read_text(), 16)
    except OSError:
        return False
    return bool(flags & _IFF_UP)


def bridge_of_port(interface: str) -> str:
    """Name of the bridge that an interface is a port of, empty if it is none."""
    try:
        return (_INTERFACES / interface / "master").readlink().name
    except OSError:
        return ""


def set_bridge(interface: str, bridge: str) -> None:
    """Make an interface a port of a bridge."""
    run("ip", "link", "set", interface, "master", bridge)
    run("ip", "link", "set", interface, "up")


def set_up(interface: str) -> None:
    """Switch an interface on; one that is gone can't be."""
    if (_INTERFACES / interface).exists():
        run("ip", "link", "set", interface, "up")


def _forwarding_setting(interface: str) -> str:
    return f"net.ipv4.conf.{interface}.forwarding"


def forwards(interface: str) -> bool:
    """Whether IPv4 packets that come in by an interface may leave by another."""
    return read_setting(_forwarding_setting(interface)) == "1"


def stop_forwarding(interface: str) -> None:
    """Let nothing that comes in by an interface leave by another, whatever the rules are."""
    if forwards(interface):
        write_setting(_forwarding_setting(interface), "0")


def read_setting(name: str) -> str | None:
    """Value of a kernel setting in dotted form, None if the kernel lacks it now."""
    try:
        return (_PROC_SYS / name.replace(".", "/")).read_text().strip()
    except FileNotFoundError:
        return None


def write_setting(name: str, value: str) -> None:
    """Set a kernel setting given in dotted form."""
    try:
        (_PROC_SYS / name.replace(".", "/")).write_text(f"{value}\n")
    except OSError as error:
        raise HostError(
            what=f"kernel setting {name}={value} can't be made",
            why=error.strerror or str(error),
            remedy="run as root on the host itself (not in a container with a read-only /proc/sys)",
        ) from error


def load_module(name: str) -> None:
    """Load a kernel module; a kernel that has it built in needs none."""
    if shutil.which("modprobe"):
        run("modprobe", name)


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the folder's lock, which other processes respect; waits for it."""
    _make_folder(folder)
    with (folder / ".lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise HostError(
            what=f"folder {folder} can't be made",
            why=error.strerror or str(error),
            remedy="run as root, or set "
            f"{host_state.STATE_VARIABLE} to a folder that may be written",
        ) from error


def write_document(path: Path, document: Mapping[str, Any]) -> None:
    """Write a JSON document so that a reader sees the old one or the new one, never a part."""
    write_private(path, json.dumps(document, indent=2, sort_keys=True))


def write_private(path: Path, text: str) -> None:
    """Write a file that its owner alone reads, in a folder that its owner alone enters.

    A reader sees the old one or the new one, after a crash too.
    """
    _make_folder(path.parent)
    try:
        # A temporary file is its owner's alone from its first moment on.
        with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as handle:
            handle.write(text)
            handle.flush()
            os.fsync(handle.fileno())
        Path(handle.name).replace(path)
    except OSError as error:
        raise HostError(
            what=f"{path} can't be written",
            why=error.strerror or str(error),
            remedy="make room on the disk or mend the folder's permissions, then run again",
        ) from error


def read_file(path: str) -> bytes | None:
    """Content of a file, None if there is none."""
    try:
        return Path(path).read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise HostError(
            what=f"{path} can't be read",
            why=error.strerror or str(error),
            remedy="mend the file's permissions, then run again",
        ) from error


def read_document(path: Path) -> dict[str, Any] | None:
    """The JSON document at ``path``, None if there is none.

    Raises:
        HostError: the file is there and isn't a JSON object.
    """
    try:
        document = json.loads(path.read_text())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise HostError(
            what=f"{path} can't be read",
            why=str(error),
            remedy="remove the file; the next `pulumi up` writes it again",
        ) from error
    if not isinstance(document, dict):
        raise HostError(
            what=f"{path} can't be read",
            why="it isn't a JSON object",
            remedy="remove the file; the next `pulumi up` writes it again",
        )
    return document


def documents(folder: Path) -> Sequence[Path]:
    """JSON documents of a folder, sorted by name."""
    return sorted(folder.glob("*.json"))


@dataclass(frozen=True, kw_only=True)
class FolderFacts:
    """Who a folder belongs to, and what they may do."""

    owner: int
    group: int
    mode: int

    def __str__(self) -> str:
        return f"owner {self.owner}:{self.group}, mode {self.mode:o}"


def read_folder(path: Path) -> FolderFacts | None:
    """What a folder is like; None if there is none, or something else in its place."""
    try:
        found = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    if not stat.S_ISDIR(found.st_mode):
        return None
    mode = stat.S_IMODE(found.st_mode)
    return FolderFacts(owner=found.st_uid, group=found.st_gid, mode=mode)


def make_folder(path: Path, wanted: FolderFacts) -> None:
    """Have a folder with this owner and mode, below one that is root's alone."""
    _make_folder(path.parent)
    try:
        if read_folder(path) is None:
            path.mkdir(mode=wanted.mode)
        os.chown(path, wanted.owner, wanted.group, follow_symlinks=False)
        path.chmod(wanted.mode)
    except OSError as error:
        raise HostError(
            what=f"folder {path} can't be made",
            why=error.strerror or str(error),
            remedy="run as root; if something else has that name, remove it",
        ) from error


def can_be_entered(path: Path) -> bool:
    """Whether every user of the host may pass through a folder and those on the way to it."""
    try:
        return all(at.stat().st_mode & stat.S_IXOTH for at in (path, *path.parents))
    except OSError:
        return False


def let_enter(path: Path) -> None:
    """Let every user of the host pass through a folder of ours, to what is theirs below it."""
    _make_folder(path)
    try:
        path.chmod(stat.S_IMODE(path.stat().st_mode) | stat.S_IXOTH)
    except OSError as error:
        raise HostError(
            what=f"folder {path} can't be opened for QEMU's user",
            why=error.strerror or str(error),
            remedy="run as root",
        ) from error


def remove_folder(path: Path, *, and_above: int = 2) -> None:
    """Remove a folder with all that is in it, and some above as far as that empties them."""
    try:
        shutil.rmtree(path)
    except FileNotFoundError:
        pass
    except OSError as error:
        raise HostError(
            what=f"folder {path} can't be removed",
            why=error.strerror or str(error),
            remedy="remove it by hand, then run again",
        ) from error
    with contextlib.suppress(OSError):
        for folder in list(path.parents)[:and_above]:
            folder.rmdir()


def remove_document(path: Path) -> None:
    """Remove a document, and its folder if that leaves it empty."""
    path.unlink(missing_ok=True)
    remove_empty_folder(path.parent)


def has_tool(name: str) -> bool:
    """Whether a program is on PATH."""
    return shutil.which(name) is not None


def memory_mb() -> int:
    """Memory of the host in megabytes."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2**20


def is_readable(path: str) -> bool:
    """Whether every user of the host may read a file: it, and each folder on the way."""
    target = Path(path).resolve()
    try:
        return bool(target.stat().st_mode & stat.S_IROTH) and all(
            folder.stat().st_mode & stat.S_IXOTH for folder in target.parents
        )
    except OSError:
        return False


def is_empty_folder(folder: Path) -> bool:
    """Whether a folder is there and holds nothing."""
    try:
        return not any(folder.iterdir())
    except OSError:
        return False


def remove_empty_folder(folder: Path) -> None:
    """Remove a folder if it is empty."""
    with contextlib.suppress(OSError):
        folder.rmdir()


def effective_uid() -> int:
    """User id that the provider acts as."""
    return os.geteuid()


def free_mb(folder: str) -> int:
    """Free megabytes of the file system that ``folder`` is, or will be, on."""
    path = Path(folder)
    while not path.exists():
        path = path.parent
    return shutil.disk_usage(path).free // 2**20
