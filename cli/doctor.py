"""`abox doctor`: what this host can and can't do, each with the remedy. Changes nothing."""

import json
import os
import platform
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Network, NetmaskValueError
from pathlib import Path
from typing import Any, Literal

import typer
from rich.text import Text

from abox.addresses import EGRESS_POOL, SANDBOX_POOL
from abox.errors import ExitCode, HostError
from abox.host_state import LIBVIRT_URI
from abox.resolv_conf import parse_resolvers
from cli import host
from cli.checkout import Checkout, current_checkout
from cli.listing import lease_folder, read_leases
from cli.output import say, say_json, say_table
from cli.parameters import AsJson
from images.lock import Locked, read_lock
from toolchain import acceleration, hypervisor
from toolchain.environment import uses_stand_ins
from toolchain.layout import Checkout as ToolchainCheckout

Level = Literal["ok", "warning", "missing"]

DEBIAN_MINIMUM = 12
DOCKER_MINIMUM = (20, 10)
PULUMI_MINIMUM = (3, 231)
DISK_MINIMUM_MB = 3 * 1024
"""Room for the images, the engine's layers and a built CLI."""

MEMORY_MINIMUM_MB = 1024

BRIDGE_FILTER = Path("/proc/sys/net/bridge/bridge-nf-call-iptables")
FORWARDING = Path("/proc/sys/net/ipv4/ip_forward")

REPAIR = "run `make up`, which installs and starts what is missing"


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at."""

    id: str
    level: Level
    """ok, warning (works, within limits), missing (sandboxes can't be made)."""
    found: str
    remedy: str = ""
    """What to do; empty if nothing."""


def doctor(*, as_json: AsJson = False) -> None:
    """Tell what this host can and can't do for sandboxes, each with the remedy.

    Looks and changes nothing. Exit code 1 if something is missing without which no sandbox can
    be made.
    """
    checkout = current_checkout()
    findings = [finding for look in LOOKS for finding in look(checkout)]
    missing = [one for one in findings if one.level == "missing"]
    if as_json:
        say_json({"ok": not missing, "findings": [one.__dict__ for one in findings]})
    else:
        _show(findings)
        words = ", ".join(one.id for one in missing)
        say(f"missing: {words}" if missing else "this host can run sandboxes")
    if missing:
        raise typer.Exit(int(ExitCode.CHECK_FAILED))


def _show(findings: list[Finding]) -> None:
    """The findings for people."""
    styles = {"ok": "green", "warning": "yellow", "missing": "bold red"}
    rows: list[list[str | Text]] = [
        [one.id, Text(one.level, style=styles[one.level]), one.found, one.remedy]
        for one in findings
    ]
    say_table(["what", "", "found", "what to do"], rows)


def _judged(name: str, found: str, remedy: str, *, good: bool, else_: Level = "missing") -> Finding:
    """A finding that is ok or not."""
    return Finding(name, "ok" if good else else_, found, "" if good else remedy)


def look_at_user(_: Checkout) -> Iterator[Finding]:
    """Bridges and firewall tables take root."""
    root = os.geteuid() == 0
    yield _judged("root", "root" if root else f"uid {os.geteuid()}", "become root", good=root)


def look_at_system(_: Checkout) -> Iterator[Finding]:
    """What was tested is Debian 12 on the two usual architectures."""
    try:
        release = parse_os_release(Path("/etc/os-release").read_text())
    except OSError:
        release = {}
    name, version = release.get("ID", "unknown"), release.get("VERSION_ID", "")
    good = name == "debian" and version.isdigit() and int(version) >= DEBIAN_MINIMUM
    yield _judged(
        "system",
        f"{release.get('PRETTY_NAME', name)}, kernel {platform.release()}",
        "Debian 12 is what is tested; elsewhere install docker, nftables and mmdebstrap yourself",
        good=good,
        else_="warning",
    )
    machine = platform.machine()
    yield _judged(
        "architecture", machine, "use x86_64 or aarch64", good=machine in ("x86_64", "aarch64")
    )


def parse_os_release(text: str) -> dict[str, str]:
    """Keys and values of os-release(5)."""
    pairs = (line.partition("=") for line in text.splitlines() if "=" in line)
    return {key: value.strip().strip("\"'") for key, _, value in pairs}


def look_at_engine(_: Checkout) -> Iterator[Finding]:
    """The Docker engine and what it says about itself."""
    try:
        done = host.run(["docker", "info", "--format", "{{json .}}"])
        information = json.loads(done.stdout or "{}")
    except HostError as error:
        yield Finding("docker", "missing", error.what, REPAIR)
        return
    except ValueError:
        information = {}
    version = information.get("ServerVersion") or ""
    if not version:
        yield Finding("docker", "missing", _first_line(done.stderr) or "no answer", "`make engine`")
        return
    good = version_of(version) >= DOCKER_MINIMUM
    yield _judged("docker", f"engine {version}", "install 20.10 or newer", good=good)
    yield from judge_engine(information)


def judge_engine(information: dict[str, Any]) -> Iterator[Finding]:
    """Settings of the engine that sandboxes rely on.

    Args:
        information: what `docker info` says.
    """
    options = " ".join(information.get("SecurityOptions") or [])
    yield _judged(
        "seccomp",
        "on" if "seccomp" in options else "off",
        "use a kernel and an engine with seccomp",
        good="seccomp" in options,
    )
    limits = [
        name
        for name, key in (("memory", "MemoryLimit"), ("pids", "PidsLimit"), ("cpu", "CpuCfsQuota"))
        if not information.get(key)
    ]
    yield _judged(
        "limits",
        f"cgroup v{information.get('CgroupVersion', '?')}, "
        + (f"without {', '.join(limits)}" if limits else "memory, pids and cpu"),
        "enable these cgroup controllers (kernel parameter, or delegation in a nested host)",
        good=not limits,
    )
    yield _judged(
        "isolation",
        "user namespaces for containers are on" if "userns" in options else "plain containers",
        "turn `userns-remap` off: joined network namespaces don't work with it",
        good="userns" not in options,
        else_="warning",
    )
    yield from _disk("disk: engine", information.get("DockerRootDir") or "/var/lib/docker")


def look_at_firewall(_: Checkout) -> Iterator[Finding]:
    """The kernel's packet filter, and that bridged frames pass it."""
    try:
        done = host.run(["nft", "--json", "list", "tables"])
    except HostError as error:
        yield Finding("nftables", "missing", error.what, REPAIR)
    else:
        found = "works" if done.code == 0 else _first_line(done.stderr)
        remedy = "run as root on a kernel with nf_tables"
        yield _judged("nftables", found, remedy, good=done.code == 0)
    value = _read(BRIDGE_FILTER)
    level: Level = "missing" if value is None else "warning"
    yield _judged(
        "bridge filtering",
        "br_netfilter isn't loaded" if value is None else f"bridge-nf-call-iptables={value}",
        "run `modprobe br_netfilter`" if value is None else "`pulumi up` switches it on",
        good=value == "1",
        else_=level,
    )
    forwarding = _read(FORWARDING)
    yield _judged(
        "forwarding",
        f"ip_forward={forwarding}",
        "restart the engine, which sets it (the gateway's way out needs it)",
        good=forwarding == "1",
        else_="warning",
    )


def look_at_pulumi(checkout: Checkout) -> Iterator[Finding]:
    """The CLI and whether plugins are the official ones."""
    try:
        done = host.run(["pulumi", "version"], environment=checkout.environment())
    except HostError as error:
        yield Finding("pulumi", "missing", error.what, REPAIR)
        return
    said = done.stdout.strip()
    program = shutil.which("pulumi", path=checkout.environment()["PATH"]) or ""
    origin = "built here" if program.startswith(str(checkout.root)) else "the user's own"
    good = done.code == 0 and version_of(said) >= PULUMI_MINIMUM
    yield _judged("pulumi", f"{said or 'no version'}, {origin}", REPAIR, good=good)
    stand_ins = uses_stand_ins(ToolchainCheckout(checkout.root))
    yield Finding("plugins", "ok", "stand-ins of this project" if stand_ins else "official")


def look_at_images(checkout: Checkout) -> Iterator[Finding]:
    """The images that the lock file names, in the engine."""
    wanted = read_lock(checkout.root / ".abox" / "images.lock.json")
    if not wanted:
        yield Finding("images", "missing", "not built yet", REPAIR)
        return
    absent = [name for name, one in wanted.items() if not _has_image(one)]
    found = f"{', '.join(absent)} not there" if absent else ", ".join(sorted(wanted))
    yield _judged("images", found, REPAIR, good=not absent)


def _has_image(image: Locked) -> bool:
    """Whether the engine holds an image, or the host the files of a virtual machine's."""
    if image.files:
        return all(Path(file.path).is_file() for file in image.files.values())
    try:
        done = host.run(["docker", "image", "inspect", "--format", "{{.Id}}", image.id])
    except HostError:
        return False
    return done.stdout.strip() == image.id


def look_at_virtual_machines(_: Checkout) -> Iterator[Finding]:
    """QEMU, libvirt, and whether KVM has proven to work: only `backend: vm` needs them."""
    version = acceleration.qemu_version()
    if not version:
        yield Finding("virtual machines", "ok", "QEMU isn't installed; only `backend: vm` needs it")
        return
    yield Finding("qemu", "ok", f"QEMU {version}")
    answers = hypervisor.answers()
    found = f"answers at {LIBVIRT_URI}" if answers else "doesn't answer"
    yield _judged("libvirt", found, "run `make vm`, which starts it", good=answers, else_="warning")
    yield judge_acceleration(acceleration.read(), device=acceleration.DEVICE.exists())


def judge_acceleration(known: acceleration.Acceleration | None, *, device: bool) -> Finding:
    """What is known about KVM, and what would make virtual machines faster.

    Args:
        known: what a probe found; None: none has run with this kernel and this QEMU.
        device: whether /dev/kvm exists.
    """
    if known is not None and known.type == "kvm":
        return Finding("kvm", "ok", known.reason)
    if not device:
        remedy = (
            "enable virtualisation in the firmware, or nested virtualisation in the host's host"
        )
        return Finding("kvm", "warning", "no /dev/kvm: virtual machines are emulated", remedy)
    if known is None:
        return Finding("kvm", "warning", "not probed yet", "run `make vm`, which boots a guest")
    return Finding(
        "kvm",
        "warning",
        f"virtual machines are emulated: {known.reason}",
        f"a host where KVM works runs them faster; to try again, remove {acceleration.RECORD} and "
        "run `make vm`. A libvirtd that abox didn't start tries KVM at every call: if that takes "
        "long, take /dev/kvm away from it",
    )


def look_at_room(checkout: Checkout) -> Iterator[Finding]:
    """Disk and memory."""
    yield from _disk("disk: checkout", str(checkout.root))
    available = parse_meminfo(_read(Path("/proc/meminfo")) or "").get("MemAvailable", 0) // 1024
    yield _judged(
        "memory",
        f"{available} MB available",
        f"free memory: below {MEMORY_MINIMUM_MB} MB an agent has little room",
        good=available >= MEMORY_MINIMUM_MB,
        else_="warning",
    )


def parse_meminfo(text: str) -> dict[str, int]:
    """Values of /proc/meminfo in kB."""
    pairs = (line.split() for line in text.splitlines())
    return {words[0].rstrip(":"): int(words[1]) for words in pairs if len(words) > 1}


def look_at_network(_: Checkout) -> Iterator[Finding]:
    """Free subnets, resolvers, ports."""
    taken = [*_routes(), *(IPv4Network(one.subnet) for one in _leases())]
    free = free_subnets(taken)
    yield _judged(
        "subnets",
        f"{free} of 256 free in {SANDBOX_POOL} and {EGRESS_POOL}",
        "remove the route, network or sandbox that covers them (`ip route`, `abox ls`)",
        good=free > 0,
    )
    resolvers = parse_resolvers(_read(Path("/etc/resolv.conf")) or "")
    yield _judged(
        "resolvers",
        ", ".join(map(str, resolvers)) or "only this host's own loopback",
        "set `upstream_dns` in the stack's settings to a resolver that the gateway can reach",
        good=bool(resolvers),
        else_="warning",
    )
    yield Finding("ports", "ok", "none of the host's ports is used")


def free_subnets(taken: list[IPv4Network]) -> int:
    """Number of N for which neither pool's N-th /24 overlaps something taken."""
    pairs = zip(
        SANDBOX_POOL.subnets(new_prefix=24), EGRESS_POOL.subnets(new_prefix=24), strict=True
    )
    return sum(
        not any(one.overlaps(inner) or one.overlaps(outer) for one in taken)
        for inner, outer in pairs
    )


def _routes() -> list[IPv4Network]:
    """Networks of the host's routes, the default route left out."""
    try:
        return parse_routes(host.run(["ip", "-json", "-4", "route", "show"]).stdout)
    except HostError:
        return []


def parse_routes(text: str) -> list[IPv4Network]:
    """Networks in the output of `ip -json route`; routes that aren't networks are left out."""
    found = []
    for one in json.loads(text or "[]"):
        try:
            found.append(IPv4Network(one.get("dst", "")))
        except (AddressValueError, NetmaskValueError, ValueError):
            continue
    return [network for network in found if network.prefixlen > 0]


def _leases() -> list[Any]:
    """Leases of this host."""
    return list(read_leases(lease_folder()).values())


def _disk(name: str, folder: str) -> Iterator[Finding]:
    """Free room below a folder."""
    try:
        free = shutil.disk_usage(folder).free // (1024 * 1024)
    except OSError as error:
        yield Finding(name, "warning", str(error), "")
        return
    yield _judged(
        name,
        f"{free} MB free in {folder}",
        f"free at least {DISK_MINIMUM_MB} MB",
        good=free >= DISK_MINIMUM_MB,
        else_="warning",
    )


def version_of(text: str) -> tuple[int, ...]:
    """The first two numbers of a version such as v3.274.1 or 20.10.24+dfsg1."""
    parts = text.strip().removeprefix("v").split(".")[:2]
    return tuple(int(part) if part.isdigit() else 0 for part in parts)


def _read(file: Path) -> str | None:
    """Content of a small file without white space around it; None if it can't be read."""
    try:
        return file.read_text().strip()
    except OSError:
        return None


def _first_line(text: str) -> str:
    """The first line that says something."""
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


LOOKS: tuple[Callable[[Checkout], Iterator[Finding]], ...] = (
    look_at_user,
    look_at_system,
    look_at_engine,
    look_at_firewall,
    look_at_pulumi,
    look_at_images,
    look_at_virtual_machines,
    look_at_room,
    look_at_network,
)
"""Everything that is looked at, in the order shown."""
