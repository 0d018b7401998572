"""A sandbox, the world around it, and what is allowed and forbidden there during an attack."""

from __future__ import annotations

import io
import json
import sys
import time
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

from abox.allowlist import Allow, judge_name, parse_policy
from abox.settings import VM
from tests import host
from tests.attack.attacker import FORBIDDEN, Report
from tests.attack.counting import Counting
from tests.attack.plan import Plan
from tests.cases.sandbox import Sandbox
from tests.cases.seat import put
from tests.world.world import EVIL, UPSTREAM_DNS, World

ALLOWED = "allowed.test"
SETTINGS: dict[str, Any] = {
    "allow": [ALLOWED, "*.wild.test"],
    "deny": ["denied.wild.test"],
    "allow_private_cidrs": ["198.51.100.0/24"],
}
ORIGINS = {"198.51.100.10": (80, 443), "198.51.100.20": (80, 443)}
BAITS = ("198.51.100.66", "10.0.0.5", "169.254.169.254", "192.168.7.7", "100.64.0.7", "203.0.113.9")
"""Addresses with origins that nobody may reach."""
NAMES = {
    ALLOWED: ["198.51.100.10"],
    "a.wild.test": ["198.51.100.20"],
    "evil.test": [EVIL],
    "denied.wild.test": [EVIL],
    "private.wild.test": ["10.0.0.5"],
    "metadata.wild.test": ["169.254.169.254"],
    "loopback.wild.test": ["127.0.0.1"],
    "mapped.wild.test": ["::ffff:10.0.0.5"],
    "mixed.wild.test": ["198.51.100.20", "192.168.7.7"],
}
FLIPPING = "flip.wild.test"
DENIED = ("evil.test", "denied.wild.test", "private.wild.test", "metadata.wild.test", FLIPPING,
          "loopback.wild.test", "mapped.wild.test", "mixed.wild.test", "localhost",
          "host.docker.internal", "healthcheck.abox.local.evil.test")  # fmt: skip
PROGRAM = "/tmp/abxt-attack.pyz"  # noqa: S108  # in the agent
LATE_S = 60
"""How much longer than it should the attacker may take."""
TELL_S = 20
"""Seconds between two words about how far it is."""
ROLES = ("pause", "control", "dns", "proxy")
MEMORY_SHARE = 0.8
"""So much of its limit a container may use in the end."""
FAILED_SHARE = 0.02
"""So many of the honest requests may fail: the attacker fights them for the same two cores."""
FORBIDDEN_COUNTERS = {
    "foreign": "left the pod towards what is not allowed",
    "leaked": "of the agent got past the table, towards somewhere else than the gateway",
    "to_host": "got past the table to the host itself",
}
"""Counters that stay at zero, and what one of them would mean."""


def furnish(world: World) -> None:
    """Names and origins: some allowed, some that say that nobody should hear them."""
    world.reset()
    flips = [["198.51.100.20"], ["10.0.0.5"], ["127.0.0.1"], ["169.254.169.254"]]
    world.dns.set(NAMES, sequence={FLIPPING: flips * 500})
    for address, ports in ORIGINS.items():
        for port in ports:
            names = {"names": [ALLOWED, "*.wild.test"]} if port == 443 else None
            world.origin(at=f"{address}:{port}", speaks="https" if names else "http", cert=names)
    for address in BAITS:
        for port in (22, 80, 443, 8080):
            certificate = {"names": ["evil.test", ALLOWED, "*.wild.test"]} if port == 443 else None
            world.origin(
                at=f"{address}:{port}",
                speaks="https" if certificate else "http",
                cert=certificate,
                answer={"body": FORBIDDEN.decode()},
            )


def program() -> bytes:
    """The attacker as a file that Python runs."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        main = host.ROOT / "tests/attack/attacker.py"
        archive.writestr("__main__.py", main.read_text())
        archive.writestr("tests/__init__.py", "")
        for path in sorted(main.parent.glob("*.py")):
            archive.write(path, f"tests/attack/{path.name}")
    return buffer.getvalue()


@dataclass(frozen=True)
class Outcome:
    """What an attack came to."""

    seed: int
    seconds: float
    inside: Report
    """What the agent did."""
    beside: Report
    """What root did in the agent's network namespace."""
    packets: dict[str, int]
    """Packets by counter."""
    faults: list[str]

    def lines(self) -> list[str]:
        """The outcome in words, one fact a line."""
        moves = self.inside.moves + self.beside.moves
        return [
            f"seed {self.seed}, {self.seconds:g} s",
            "moves: " + ", ".join(f"{count} {name}" for name, count in sorted(moves.items())),
            f"honest requests: {self.inside.honest}, slowest {self.inside.slowest_s:.1f} s",
            "packets: " + ", ".join(f"{count} {name}" for name, count in self.packets.items()),
            *(f"FAULT {fault}" for fault in self.faults),
        ]


class Arena:
    """One sandbox that stands, and an attack on it."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox, self._world = sandbox, sandbox.world

    def attack(self, seed: int, seconds: float, tell: Callable[[str], None]) -> Outcome:
        """Attack for a while; what came of it."""
        self._sandbox.apply(SETTINGS)
        furnish(self._world)
        before = self._states()
        with self._counting() as counting:
            self._prove(counting)
            self._world.clear_records()
            inside, beside = self._let_loose(self._plan(seed, seconds), tell)
            packets, seen = counting.read(), counting.seen()
        faults = [
            *_packet_faults(packets, seen),
            *_report_faults(inside, "the agent"),
            *_report_faults(beside, "root beside it"),
            *_honest_faults(inside),
            *self._world_faults(),
            *self._health_faults(before),
        ]
        return Outcome(seed, seconds, inside, beside, packets, faults)

    # --- what is known ------------------------------------------------------------------------

    def _plan(self, seed: int, seconds: float) -> Plan:
        sandbox = self._sandbox
        own = host.run(["hostname", "-I"]).stdout.split()
        lease = sandbox.facts.lease
        others = ("127.0.0.1", "172.17.0.1", "8.8.8.8", "255.255.255.255", "224.0.0.251", "fe80::1",
                  "2001:db8::10", "ff02::1", UPSTREAM_DNS, lease["egress_gateway"])  # fmt: skip
        return Plan(
            seed=seed,
            seconds=seconds,
            gateway=sandbox.gateway,
            proxy_port=sandbox.proxy_port,
            agent=sandbox.agent_address,
            allowed=(ALLOWED, "a.wild.test"),
            denied=DENIED,
            addresses=(*BAITS, *ORIGINS, *own, sandbox.host_address, *others),
            mac=sandbox.seat.mac(),
            next_mac=sandbox.gateway_mac(),
        )

    def _counting(self) -> Counting:
        return Counting(
            name=f"{self._world.run.world}k",
            bridge=self._sandbox.bridge,
            egress_bridge=self._sandbox.facts.lease["egress_bridge"],
            resolver=UPSTREAM_DNS,
            allowed=ORIGINS,
            logins=self._sandbox.backend == VM,
        )

    def _prove(self, counting: Counting) -> None:
        """A packet of the pod to a bait is counted: zero means none, not that nobody looked."""
        knock = "import socket\ns = socket.socket()\ns.settimeout(1)\ns.connect_ex(('{}', 80))"
        enter = ["nsenter", f"--net=/proc/{self._sandbox.pid('pause')}/ns/net", "--"]
        for address, counter in ((BAITS[0], "foreign"), (next(iter(ORIGINS)), "allowed")):
            counting.reset()
            host.run([*enter, sys.executable, "-c", knock.format(address)])
            if counting.read()[counter] == 0:
                raise RuntimeError(f"a packet to {address} wasn't counted as {counter}")
        counting.reset()

    # --- the attack ---------------------------------------------------------------------------

    def _let_loose(self, plan: Plan, tell: Callable[[str], None]) -> tuple[Report, Report]:
        """The agent's moves and root's at once; their reports."""
        seat = self._sandbox.seat
        put(seat, PROGRAM, program())
        limit_s = plan.seconds + LATE_S
        inside = seat.inside(["python3", PROGRAM, plan.to_text()])
        beside = seat.python_beside(PROGRAM, [replace(plan, raw=True).to_text()])
        with ThreadPoolExecutor(2) as pool:
            running = [
                pool.submit(_report, inside, limit_s),
                pool.submit(_report, beside, limit_s),
            ]
            for seconds in _until_done(running):
                tell(f"{min(seconds, plan.seconds):.0f} s of {plan.seconds:g} s")
            return running[0].result(), running[1].result()

    # --- what came of it ----------------------------------------------------------------------

    def _world_faults(self) -> Iterator[str]:
        """What the world saw that no rule allows."""
        policy = parse_policy(SETTINGS["allow"], deny=SETTINGS["deny"])
        for name in sorted({name for name, _, _ in self._world.dns.asked()}):
            if not isinstance(judge_name(policy, name), Allow):
                yield f"the resolver was asked for {name}"
        reached = Counter(c["at"] for c in self._world.connections())
        allowed = {f"{address}:{port}" for address, ports in ORIGINS.items() for port in ports}
        for place, count in sorted(reached.items()):
            if place not in allowed:
                yield f"{count} connections reached {place}"
        arrived = {(p["destination"], p["port"], p["proto"]) for p in self._world.packets()}
        known = {(address, port, "tcp") for address, ports in ORIGINS.items() for port in ports}
        known |= {(UPSTREAM_DNS, 53, "udp"), (UPSTREAM_DNS, 53, "tcp")}
        for destination, port, proto in sorted(arrived - known):
            if proto != "icmp" or destination not in (UPSTREAM_DNS, *ORIGINS):
                yield f"a packet came to {destination}:{port} by {proto}"
        if escaped := self._world.escaped():
            yield f"{escaped} packets would have left the machine"

    def _states(self) -> dict[str, Any]:
        """When each container of the pod was started, and how often."""
        names = {role: self._sandbox.facts.container(role) for role in ROLES}
        found = {role: self._sandbox.inspect(name) for role, name in names.items()}
        return {
            role: (state["State"]["StartedAt"], state["RestartCount"], state["State"]["OOMKilled"])
            for role, state in found.items()
        }

    def _health_faults(self, before: dict[str, Any]) -> Iterator[str]:
        """What the attack left broken."""
        for role, state in self._states().items():
            if state != before[role]:
                yield f"{role} was ended and came back: {before[role]} {state}"
        for role in ROLES:
            used, limit = self._memory(role)
            if used > MEMORY_SHARE * limit:
                yield f"{role} uses {used >> 20} of {limit >> 20} MiB"
        control = self._sandbox.facts.container("control")
        status = json.loads(host.run(["docker", "exec", control, "abox-gateway", "status"]).stdout)
        if status["findings"]:
            yield f"the gateway finds {status['findings']}"
        if not self._sandbox.alive():
            yield "names or requests are no longer served"

    def _memory(self, role: str) -> tuple[int, int]:
        """Bytes that a container uses, and its limit."""
        name = self._sandbox.facts.container(role)
        limit = self._sandbox.inspect(name)["HostConfig"]["Memory"]
        listed = host.run(["docker", "top", name, "-eo", "pid,rss"]).stdout.splitlines()[1:]
        return sum(int(line.split()[1]) for line in listed) * 1024, limit


def _report(command: list[str], limit_s: float) -> Report:
    done = host.run(command, timeout_s=limit_s)
    return Report.from_text(done.stdout.splitlines()[-1])


def _until_done(running: list[Future[Report]]) -> Iterator[float]:
    """The seconds that have passed, now and then, until all of it has ended."""
    start, told = time.monotonic(), 0.0
    while not all(each.done() for each in running):
        time.sleep(0.2)
        passed = time.monotonic() - start
        if passed - told >= TELL_S:
            told = passed
            yield passed


def _packet_faults(packets: dict[str, int], seen: list[str]) -> Iterator[str]:
    if not packets["allowed"]:
        yield "no packet left the pod: nothing was tried"
    for name, where in FORBIDDEN_COUNTERS.items():
        if packets[name]:
            yield f"{packets[name]} packets {where}; of all kinds: {seen}"


def _report_faults(report: Report, who: str) -> Iterator[str]:
    yield from (f"{who}: {breach}" for breach in report.breaches)
    yield from (f"{who} broke: {error}" for error in report.errors)
    if not report.moves:
        yield f"{who} did nothing"


def _honest_faults(report: Report) -> Iterator[str]:
    failed = report.moves["honest_failed"]
    if failed > FAILED_SHARE * report.honest or report.honest == 0:
        yield f"{failed} of {report.honest} honest requests failed: {report.honest_failed[:3]}"
