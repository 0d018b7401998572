"""The data plane beside its peers: requests, tunnels, bulk, names, memory, reloads."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from bench import load, peers
from bench.bare import image_ids
from bench.lab import DENIED, NAME, ORIGIN, Lab
from bench.memory import process_memory_mb, proportional_memory_mb
from bench.readme import DIRECT, HTTP_SUBJECTS
from bench.rows import ABOX, Row
from tests import host

CONNECTIONS = 32
BULK_BYTES = 200_000_000
HELD = 1000


@dataclass(frozen=True)
class Question:
    """What is asked of every subject."""

    row: Row
    options: tuple[str, ...]
    """Of the load generator, beside those that say by which way."""
    value: Callable[[load.Load], float]
    tls: bool = False
    connections: int = CONNECTIONS
    subjects: tuple[str, ...] = HTTP_SUBJECTS


def _rate(found: load.Load) -> float:
    return found.per_second


def _bulk(found: load.Load) -> float:
    return found.megabytes_per_second


def _p50(found: load.Load) -> float:
    return found.p50_us


def _p99(found: load.Load) -> float:
    return found.p99_us


def questions() -> list[Question]:
    """Every question about HTTP, in the order of the table."""
    squid_or_best = ("Squid", "tinyproxy", "mitmproxy")
    http1, http2 = ("--path", "/small"), ("--path", "/small", "--http2")
    secure = (ABOX, DIRECT, "Squid", "mitmproxy")
    down = ("--path", f"/bulk?bytes={BULK_BYTES}")
    up = ("--path", "/sink", "--upload", str(BULK_BYTES))
    return [
        Question(
            Row(id="plain", what="plain HTTP, forwarded", unit="requests/s", goal_ratio=3.0,
                goal_beside=squid_or_best), http1, _rate),
        Question(
            Row(id="blocked", what="denied with 403", unit="requests/s"),
            ("--path", "/small", "--expect", "403"), _rate,
            subjects=(ABOX, "Envoy", "Squid", "tinyproxy", "mitmproxy")),
        Question(
            Row(id="tls-h1", what="intercepted, kept alive, HTTP/1.1", unit="requests/s",
                goal_ratio=10.0, goal_beside=("mitmproxy",)), http1, _rate, tls=True,
            subjects=secure),
        Question(
            Row(id="tls-h2", what="intercepted, kept alive, HTTP/2", unit="requests/s",
                goal_ratio=10.0, goal_beside=("mitmproxy",)), http2, _rate, tls=True,
            subjects=(ABOX, DIRECT, "mitmproxy")),
        Question(
            Row(id="tls-new", what="intercepted, a new connection each", unit="requests/s"),
            ("--path", "/small", "--new"), _rate, tls=True, subjects=secure),
        Question(
            Row(id="plain-p50", what="plain, one client, median", unit="µs", more_is_better=False),
            http1, _p50, connections=1),
        Question(
            Row(id="plain-p99", what="plain, one client, 99 %", unit="µs", more_is_better=False),
            http1, _p99, connections=1),
        Question(
            Row(id="tls-p50", what="intercepted, one client, median", unit="µs",
                more_is_better=False), http1, _p50, tls=True, connections=1, subjects=secure),
        Question(
            Row(id="tls-p99", what="intercepted, one client, 99 %", unit="µs",
                more_is_better=False), http1, _p99, tls=True, connections=1, subjects=secure),
        Question(
            Row(id="bulk-down", what="intercepted download", unit="MB/s", goal=300.0), down, _bulk,
            tls=True, connections=2, subjects=secure),
        Question(
            Row(id="bulk-up", what="intercepted upload", unit="MB/s"), up, _bulk, tls=True,
            connections=2, subjects=secure),
    ]  # fmt: skip


def measure_http(lab: Lab, rounds: int, seconds: float, say: Callable[[str], None]) -> list[Row]:
    """All rows about HTTP: the subjects take turns in every round."""
    asked = questions()
    tunnel = Row(id="tunnel", what="tunnel, not intercepted, kept alive", unit="requests/s")
    held = Row(
        id="held", what=f"memory with {HELD} open connections", unit="MB", more_is_better=False
    )
    for number in range(rounds):
        say(f"HTTP, round {number + 1} of {rounds}")
        for name, ways in _ways(lab):
            _ask_all(asked, name, ways, seconds, _enter(lab, name))
        _tunnels(lab, tunnel, seconds)
    say(f"{HELD} open connections")
    _hold(lab, held)
    rows = [question.row for question in asked]
    return [*rows[:5], tunnel, *rows[5:], held]


def _enter(lab: Lab, subject: str) -> tuple[str, ...]:
    """The way into the namespace that the generator asks a subject from.

    Origins are reached from the pod's alone: on the host their addresses are somebody else's.
    """
    return ("nsenter", f"--net=/proc/{lab.place.pid}/ns/net", "--") if subject == DIRECT else ()


def _ways(lab: Lab) -> Iterator[tuple[str, dict[bool, tuple[str, ...]]]]:
    """Each subject while it runs: the generator's options for plain and TLS requests."""
    gateway, minted = lab.place.gateway, ("--tls", str(lab.minting_ca))
    yield (
        ABOX,
        {
            False: ("--via", "absolute", "--dial", f"{gateway}:{lab.pod.proxy_port}"),
            True: ("--via", "connect", "--dial", f"{gateway}:{lab.pod.proxy_port}", *minted),
        },
    )
    yield (
        DIRECT,
        {
            False: ("--via", "direct", "--dial", f"{ORIGIN}:80"),
            True: ("--via", "direct", "--dial", f"{ORIGIN}:443", "--tls", str(lab.origin_ca)),
        },
    )
    peers.copy_envoy(image_ids()["gateway"])
    for plain, secure in (
        (peers.envoy(lab.place), None),
        (peers.squid(lab.place), peers.squid_bump(lab.place)),
        (peers.tinyproxy(lab.place), None),
        (peers.mitmproxy(lab.place), peers.mitmproxy(lab.place)),
    ):
        with contextlib.ExitStack() as running:
            ways = {}
            for tls, peer in ((False, plain), (True, secure)):
                if peer is None:
                    continue
                if tls is False or peer != plain:
                    running.enter_context(peers.running(peer, lab.place, lab.log(peer.name)))
                via = ("connect", *minted) if tls else ("absolute",)
                ways[tls] = ("--via", via[0], "--dial", f"{gateway}:{peer.port}", *via[1:])
            yield plain.name, ways


def _ask_all(
    asked: Sequence[Question],
    name: str,
    ways: dict[bool, tuple[str, ...]],
    seconds: float,
    enter: Sequence[str],
) -> None:
    """Every question that a subject takes part in."""
    for question in asked:
        if name not in question.subjects or question.tls not in ways:
            continue
        host_name = DENIED if question.row.id == "blocked" else NAME
        target = ("--name", host_name, "--port", "443" if question.tls else "80")
        try:
            found = load.run(
                *ways[question.tls], *target, *question.options,
                seconds=seconds, connections=question.connections, enter=enter,
            )  # fmt: skip
            question.row.add(name, question.value(found))
        except (load.LoadError, host.CommandError, host.TimeLimitError) as error:
            question.row.failures[name] = str(error)


def _tunnels(lab: Lab, row: Row, seconds: float) -> None:
    """TLS from end to end: what a proxy costs that looks at names only."""
    target = ("--name", NAME, "--port", "443", "--tls", str(lab.origin_ca), "--path", "/small")
    gateway = lab.place.gateway
    lab.apply([NAME], tls_interception=False)
    try:
        _one(
            row,
            ABOX,
            ("--via", "connect", "--dial", f"{gateway}:{lab.pod.proxy_port}", *target),
            seconds,
        )
    finally:
        lab.apply([NAME])
    straight = ("--via", "direct", "--dial", f"{ORIGIN}:443", *target)
    _one(row, DIRECT, straight, seconds, _enter(lab, DIRECT))
    for peer in (peers.squid(lab.place), peers.tinyproxy(lab.place)):
        with peers.running(peer, lab.place, lab.log(peer.name)):
            dial = ("--via", "connect", "--dial", f"{gateway}:{peer.port}", *target)
            _one(row, peer.name, dial, seconds)


def _one(
    row: Row, subject: str, options: Sequence[str], seconds: float, enter: Sequence[str] = ()
) -> None:
    try:
        found = load.run(*options, seconds=seconds, connections=CONNECTIONS, enter=enter)
        row.add(subject, _rate(found))
    except load.LoadError as error:
        row.failures[subject] = str(error)


def _hold(lab: Lab, row: Row) -> None:
    """Memory while many connections are open, each asked once."""
    target = ("--name", NAME, "--port", "443", "--tls", str(lab.minting_ca), "--path", "/small")
    gateway = lab.place.gateway
    dial = ("--via", "connect", "--dial", f"{gateway}:{lab.pod.proxy_port}", *target)
    holder = load.hold(*dial, connections=HELD, log=lab.log("hold"))
    row.add(ABOX, proportional_memory_mb([lab.pod.containers["proxy"]]))
    host.end(holder)
    for peer in (peers.squid_bump(lab.place), peers.mitmproxy(lab.place)):
        with peers.running(peer, lab.place, lab.log(peer.name)) as process:
            dial = ("--via", "connect", "--dial", f"{gateway}:{peer.port}", *target)
            try:
                holder = load.hold(*dial, connections=HELD, log=lab.log("hold"))
            except load.LoadError as error:
                row.failures[peer.name] = str(error)
                continue
            row.add(peer.name, process_memory_mb(process.pid))
            host.end(holder)


def measure_dns(lab: Lab, rounds: int, seconds: float, say: Callable[[str], None]) -> list[Row]:
    """Queries per second and their latency, blocked and allowed."""
    rows = {}
    for kind, what in (("blocked", "denied names"), ("allowed", "an allowed name")):
        goal = 100_000.0 if kind == "blocked" else None
        ratio = 0.5 if kind == "blocked" else None
        rows[kind] = (
            Row(id=f"dns-{kind}", what=f"DNS, {what}", unit="queries/s", goal=goal,
                goal_ratio=ratio, goal_beside=("Unbound",) if ratio else ()),
            Row(id=f"dns-{kind}-p99", what=f"DNS, {what}, 99 %", unit="µs", more_is_better=False),
        )  # fmt: skip
    write_questions()
    for number in range(rounds):
        say(f"DNS, round {number + 1} of {rounds}")
        for name, port in _resolvers(lab):
            for kind, (rate, late) in rows.items():
                per_second, p99 = dnsperf(lab, port, kind, seconds)
                rate.add(name, per_second)
                late.add(name, p99)
    return [row for pair in rows.values() for row in pair]


def write_questions() -> None:
    """Files with queries for dnsperf, inside the peers' root."""
    folder = peers.ROOT / peers.FILES
    folder.mkdir(exist_ok=True)
    denied = "".join(f"n{number}.{DENIED} A\n" for number in range(10_000))
    (folder / "blocked.txt").write_text(denied)
    (folder / "allowed.txt").write_text(f"{NAME} A\n")


def _resolvers(lab: Lab) -> Iterator[tuple[str, int]]:
    yield ABOX, 53
    for peer in (peers.unbound(lab.place), peers.dnsmasq(lab.place)):
        with peers.running(peer, lab.place, lab.log(peer.name)):
            yield peer.name, peer.port


_RATE = re.compile(r"Queries per second:\s+([\d.]+)")
_LATENCY = re.compile(r"^> \S+ \S+ \S+ ([\d.]+)$", re.MULTILINE)


def dnsperf(lab: Lab, port: int, kind: str, seconds: float) -> tuple[float, float]:
    """Queries per second at full speed, and the 99 % latency in µs at a tenth of it.

    Raises: RuntimeError if queries were lost or dnsperf says nothing.
    """
    base = [
        "chroot", str(peers.ROOT), "dnsperf", "-s", lab.place.gateway, "-p", str(port), "-c", "8",
        "-T", "1", "-d", f"/{peers.FILES}/{kind}.txt", "-l", str(max(1, round(seconds))),
    ]  # fmt: skip
    fast = host.run(base, timeout_s=seconds + 60).stdout
    rate = _RATE.search(fast)
    if rate is None:
        raise RuntimeError(f"dnsperf said nothing: {fast[-300:]}")
    slow = host.run([*base, "-v", "-Q", str(int(float(rate[1]) / 10))], timeout_s=seconds + 60)
    times = sorted(float(one) for one in _LATENCY.findall(slow.stdout))
    if not times:
        raise RuntimeError(f"dnsperf listed no latencies: {slow.stdout[:300]}")
    return float(rate[1]), times[len(times) * 99 // 100] * 1e6


SIZES = (10, 1_000, 100_000)


def measure_reload(lab: Lab, rounds: int, say: Callable[[str], None]) -> list[Row]:
    """Seconds until a list of so many names is live, by size; a bare Unbound beside it."""
    rows = []
    for size in SIZES:
        say(f"reload with {size} names")
        row = Row(id=f"reload-{size}", what=f"{size:,} names live", unit="s", more_is_better=False)
        for number in range(rounds):
            names = [NAME, *(f"n{count}.reload{number}.test" for count in range(size - 1))]
            row.add(ABOX, _timed(partial(lab.apply, names)))
            row.add("Unbound", _unbound_reload(lab, names))
        rows.append(row)
    lab.apply([NAME])
    return rows


def _unbound_reload(lab: Lab, names: Sequence[str]) -> float:
    peer = peers.unbound(lab.place, names=names)
    control = ["chroot", str(peers.ROOT), "unbound-control", "-c", f"/{peers.FILES}/unbound.conf"]
    with peers.running(peer, lab.place, lab.log("Unbound")):
        return _timed(lambda: host.run([*control, "reload"], timeout_s=120))


def _timed(action: Callable[[], object]) -> float:
    start = time.monotonic()
    action()
    return time.monotonic() - start
