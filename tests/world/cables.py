"""What the test world lays on the host: a namespace, a cable into it, routes and a guard.

Everything carries the prefix ``abxt-`` and the run's number. Packets that come from bridges of test
sandboxes are routed into the namespace whatever their destination (policy routing by incoming
device), so no address of a case can be one of somebody else's; where the namespace is gone they
are refused. The guard is the second layer: it drops and counts what would still leave the machine.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests import host
from tests.world.origins import DEVICE

PREFIX = "abxt-"
RUNS = Path("/run/abxt")
"""One file for each test run that lives, named by its number."""
HOST_SIDE = "198.51.100.250"
"""The host's address on the cable: what masqueraded packets come from."""
WORLD_SIDE = "198.51.100.251"
HOST_SIDE_V6 = "2001:db8:ffff::250"
WORLD_SIDE_V6 = "2001:db8:ffff::251"
RESOLVER = "198.51.100.53"
TABLE_BASE = 100_000
"""Routing tables of test runs are numbered from here."""
PREFERENCE = 99


def _start_time(pid: int) -> str:
    """When a process started, in clock ticks; empty if there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


@dataclass(frozen=True)
class Run:
    """The number of a test run: four hex digits, unique on the host while it lives."""

    number: str

    @property
    def world(self) -> str:
        """Name of the namespace and of the host's end of the cable."""
        return PREFIX + self.number

    @property
    def guard(self) -> str:
        """Name of the guard's nftables table."""
        return PREFIX + self.number

    @property
    def table(self) -> int:
        """Number of the routing table."""
        return TABLE_BASE + int(self.number, 16)

    def stack(self, letter: str) -> str:
        """Name of one of the run's sandboxes; its bridges' names carry it in full."""
        return f"{PREFIX}{self.number}{letter}"


@contextlib.contextmanager
def alone(what: str = "lock") -> Iterator[None]:
    """Wait until no other process holds this lock of the runs, and hold it."""
    RUNS.mkdir(mode=0o755, parents=True, exist_ok=True)
    with (RUNS / what).open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def register() -> Run:
    """Take a free number for this process."""
    with alone():
        while True:
            run = Run(secrets.token_hex(2))
            record = RUNS / f"{run.number}.json"
            if not record.exists():
                owner = {"pid": os.getpid(), "started": _start_time(os.getpid())}
                record.write_text(json.dumps(owner))
                return run


def unregister(run: Run) -> None:
    """Give the number back."""
    (RUNS / f"{run.number}.json").unlink(missing_ok=True)


def living_runs() -> set[str]:
    """Numbers of runs whose process exists."""
    living = set()
    with alone():
        for record in RUNS.glob("*.json"):
            owner = json.loads(record.read_text())
            if owner["started"] and _start_time(owner["pid"]) == owner["started"]:
                living.add(record.stem)
    return living


def uplinks() -> list[str]:
    """Devices of the host's default routes."""
    found = set()
    for family in ("-4", "-6"):
        listed = host.run(["ip", "-j", family, "route", "show", "default"]).stdout
        found |= {route["dev"] for route in json.loads(listed or "[]") if "dev" in route}
    return sorted(found)


def _ip(commands: Iterable[str], *, netns: str = "", force: bool = False) -> None:
    """Carry out commands of the ip tool; those that begin with ``-6`` are for IPv6."""
    place = ["-netns", netns] if netns else []
    todo = list(commands)
    for family in ("-4", "-6"):
        batch = [c.removeprefix("-6 ") for c in todo if c.startswith("-6 ") == (family == "-6")]
        if batch:
            args = ["ip", *place, family, *(["-force"] if force else []), "-batch", "-"]
            host.run(args, text="\n".join(batch) + "\n", check=not force)


ESCAPEES = {
    "escapees": ("ifname . ifname . ipv4_addr . ipv4_addr . inet_proto",
                 "iifname . oifname . ip saddr . ip daddr . meta l4proto"),
    "escapees6": ("ifname . ipv6_addr . ipv6_addr . inet_proto",
                  "iifname . ip6 saddr . ip6 daddr . meta l4proto"),
    "by_the_host": ("ipv4_addr . ipv4_addr . inet_proto . inet_service . inet_service",
                    "ip saddr . ip daddr . meta l4proto . th sport . th dport"),
}  # fmt: skip
"""Sets of what was counted: their type, and what of a packet is put into them.

nft 1.0.6 takes five parts at most, and 64 bytes.
"""

_FORWARDED, _SENT = ("escapees", "escapees6"), ("by_the_host",)


def _counted(names: Sequence[str]) -> list[str]:
    """Note a packet in these sets, count it, drop it."""
    return [*(f"add @{n} {{ {ESCAPEES[n][1]} }}" for n in names), "counter name escaped drop"]


def _guard_rules(run: Run, devices: list[str]) -> str:
    """The guard's table; `devices` are the uplinks that nothing of a test may leave by.

    Late answers of the world to a pod that was just removed are dropped without counting: its
    address has no bridge any more, so they would take the default route, and so would the reset
    that the kernel sends for them from the cable's address. Nobody in a sandbox sent either.
    """
    out = "{ " + ", ".join(f'"{device}"' for device in devices) + " }"
    late = f'iifname "{run.world}" oifname {out} ct direction reply drop'
    resets = [
        f"oifname {out} {match} drop"
        for match in (f"ip saddr {HOST_SIDE}", f"ip6 saddr {HOST_SIDE_V6}")
    ]
    leave = [
        f"iifname {devices_in} oifname {out} {what}"
        for devices_in in (f'"abx-{run.world}*"', f'"{run.world}*"', "@foreign")
        for what in _counted(_FORWARDED)
    ]
    sent = [f"oifname {out} ip daddr @targets {what}" for what in _counted(_SENT)]
    return "\n".join(
        [
            f"table inet {run.guard} {{",
            "counter escaped {}",
            "set foreign { type ifname; }",
            "set targets { type ipv4_addr; }",
            *(
                f"set {name} {{ type {kinds}; size 64; flags dynamic; }}"
                for name, (kinds, _) in ESCAPEES.items()
            ),
            "chain forward { type filter hook forward priority -300; policy accept;",
            *([late, *leave] if devices else []),
            "}",
            "chain output { type filter hook output priority -300; policy accept;",
            *(resets if devices else []),
            *(sent if devices else []),
            "}",
            "chain seen { type filter hook input priority 300; policy accept; }",
            "}",
            "",
        ]
    )


def lay(run: Run) -> None:
    """Make namespace, cable, routes and guard."""
    host.run(["nft", "-f", "-"], text=_guard_rules(run, uplinks()))
    host.run(["ip", "netns", "add", run.world])
    _ip(
        [
            f"link add {run.world} type veth peer name {DEVICE} netns {run.world}",
            f"address add {HOST_SIDE}/32 dev {run.world}",
            f"-6 address add {HOST_SIDE_V6}/128 dev {run.world} nodad",
            f"link set {run.world} up",
            f"route add unreachable default metric 4000 table {run.table}",
            f"-6 route add unreachable default metric 4000 table {run.table}",
            f"route add default via {WORLD_SIDE} dev {run.world} onlink table {run.table}",
            f"-6 route add default via {WORLD_SIDE_V6} dev {run.world} onlink table {run.table}",
        ]
    )
    commands = [
        "link set lo up",
        f"address add {WORLD_SIDE}/32 dev {DEVICE}",
        f"address add {RESOLVER}/32 dev lo",
        f"-6 address add {WORLD_SIDE_V6}/128 dev {DEVICE} nodad",
        f"link set {DEVICE} up",
        f"route add {HOST_SIDE}/32 dev {DEVICE} src {WORLD_SIDE}",
        f"-6 route add {HOST_SIDE_V6}/128 dev {DEVICE}",
    ]
    _ip(commands, netns=run.world)


def route_bridges(run: Run, devices: Iterable[str]) -> None:
    """Lead what comes in by these devices into the world; they need not exist yet."""
    rules = [
        f"{family}rule add iif {device} lookup {run.table} pref {PREFERENCE}"
        for device in devices
        for family in ("", "-6 ")
    ]
    _ip(rules)


def guard_device(run: Run, device: str) -> None:
    """Let the guard watch a device whose name doesn't carry the run's number."""
    host.run(["nft", "add", "element", "inet", run.guard, "foreign", f'{{ "{device}" }}'])


def guard_target(run: Run, address: str) -> None:
    """Let the guard watch for packets of the host itself to an address of the world."""
    host.run(["nft", "add", "element", "inet", run.guard, "targets", f"{{ {address} }}"])


def escaped(run: Run) -> int:
    """Packets of the run's tests that would have left the machine."""
    listed = host.run(["nft", "-j", "list", "counter", "inet", run.guard, "escaped"]).stdout
    return sum(e["counter"]["packets"] for e in json.loads(listed)["nftables"] if "counter" in e)


def escapees(run: Run) -> str:
    """Devices, addresses and protocol of counted packets, as nft writes them."""
    shown = (host.run(["nft", "list", "set", "inet", run.guard, name]).stdout for name in ESCAPEES)
    listed = (text.partition("elements = ")[2].partition("}")[0].lstrip("{ ") for text in shown)
    return " ".join(text for text in listed if text)


def watch_input(run: Run, device: str, address: str, proto: str, port: int) -> None:
    """Count packets that the host's other tables let through to the host itself."""
    family = "ip6" if ":" in address else "ip"
    match = ["iifname", device, family, "daddr", address, "meta", "l4proto", proto]
    if proto in ("tcp", "udp"):
        match += [proto, "dport", str(port)]
    host.run(["nft", "add", "rule", "inet", run.guard, "seen", *match, "counter"])


def counted_input(run: Run) -> int:
    """Packets that rules of `watch_input` counted."""
    listed = host.run(["nft", "-j", "list", "chain", "inet", run.guard, "seen"]).stdout
    rules = [e["rule"]["expr"] for e in json.loads(listed)["nftables"] if "rule" in e]
    return sum(part["counter"]["packets"] for rule in rules for part in rule if "counter" in part)


def forget_input(run: Run) -> None:
    """Remove the rules of `watch_input`."""
    host.run(["nft", "flush", "chain", "inet", run.guard, "seen"])


def add_address(run: Run, address: str) -> None:
    """Give the world another address."""
    _ip([_address_command(address, "add")], netns=run.world)


def _address_command(address: str, verb: str) -> str:
    if ":" not in address:
        return f"address {verb} {address}/32 dev lo"
    device = DEVICE if address.lower().startswith("fe8") else "lo"
    return f"-6 address {verb} {address}/128 dev {device}" + (" nodad" if verb == "add" else "")


def remove_addresses(run: Run, addresses: Iterable[str]) -> None:
    """Take addresses away again."""
    _ip([_address_command(address, "del") for address in addresses], netns=run.world, force=True)


def _rules_of(run: Run) -> list[str]:
    """Commands that delete the run's routing rules."""
    commands = []
    for family in ("-4", "-6"):
        listed = host.run(["ip", "-j", family, "rule", "show", "pref", str(PREFERENCE)]).stdout
        prefix = "-6 " if family == "-6" else ""
        commands += [
            f"{prefix}rule del iif {rule['iif']} lookup {run.table} pref {PREFERENCE}"
            for rule in json.loads(listed or "[]")
            if rule.get("table") == str(run.table) and "iif" in rule
        ]
    return commands


def remove(run: Run) -> None:
    """Take down what `lay` made; parts may be missing."""
    host.run(["ip", "netns", "del", run.world], check=False)
    _ip(
        [
            f"link del {run.world}",
            f"route flush table {run.table}",
            f"-6 route flush table {run.table}",
            *_rules_of(run),
        ],
        force=True,
    )
    host.run(["nft", "delete", "table", "inet", run.guard], check=False)
