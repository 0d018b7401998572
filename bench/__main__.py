"""`make bench`: measure, write bench/results.json and the tables of the README."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from bench import bare, load, peers
from bench.data_plane import measure_dns, measure_http, measure_reload
from bench.figures import Figure, render_table
from bench.lab import lab
from bench.memory import container_memory_mb, proportional_memory_mb
from bench.readme import (
    DNS_SUBJECTS,
    HTTP_SUBJECTS,
    RELOAD_SUBJECTS,
    replace_figures,
)
from bench.rows import Row, render_rows
from bench.sandbox import PROBE, Machine, Sandbox, empty_stack, stack_of
from tests import host

RESULTS = host.ROOT / "bench" / "results.json"
README = host.ROOT / "README.md"
PARTS = ("sandbox", "vm", "data-plane")
POD = ("pause", "dns", "proxy", "control")
DROP_CACHES = Path("/proc/sys/vm/drop_caches")


def main() -> int:
    """Measure everything and tell it."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="rounds of each measurement")
    parser.add_argument("--seconds", type=float, default=3, help="of each run of the load")
    parser.add_argument("--cold", action="store_true", help="also with empty page caches")
    parser.add_argument("--only", choices=PARTS, help="one part; the figures of the others stay")
    options = parser.parse_args()
    wanted = (options.only,) if options.only else PARTS
    if "sandbox" in wanted:
        figures = measure_sandbox(options.rounds, cold=options.cold)
        keep(to_document(figures, options.rounds))
        sys.stdout.write(render_table(figures) + "\n")
    if "vm" in wanted:
        figures = measure_machine(options.rounds)
        keep({"vm": to_document(figures, options.rounds)})
        sys.stdout.write(render_table(figures) + "\n")
    if "data-plane" in wanted:
        measure_data_plane(options.rounds, options.seconds)
    README.write_text(replace_figures(README.read_text(), read_results()))
    return 0


def read_results() -> dict[str, Any]:
    """What an earlier run found; empty if there was none."""
    return dict(json.loads(RESULTS.read_text())) if RESULTS.exists() else {}


def keep(found: dict[str, Any]) -> None:
    """Write what was found over what an earlier run found; the rest of that stays."""
    RESULTS.write_text(json.dumps(read_results() | found, indent=2) + "\n")


def measure_sandbox(rounds: int, *, cold: bool) -> list[Figure]:
    """Life of a sandbox beside the same containers by a script."""
    bare.stop()
    try:
        with stack_of(Sandbox) as one:
            return measure(one, rounds, cold=cold)
    finally:
        bare.stop()


def measure_machine(rounds: int) -> list[Figure]:
    """Life of a sandbox whose agent is a VM, beside the same machine started by libvirt alone."""
    times: dict[str, list[float]] = {}

    def take(what: str, action: Callable[[], object]) -> None:
        times.setdefault(what, []).append(timed(action))

    with stack_of(Machine) as one, empty_stack() as empty:
        one.configure()
        for number in range(rounds):
            say(f"VM, round {number + 1} of {rounds}")
            take("up", lambda: bring_up(one))
            take("no-op", one.up)
            take("empty up", empty.up)
            take("drift", one.drift_check)
            take("empty drift", empty.drifted)
            times.setdefault("policy", []).extend(change_policy(one))
            take("bare", one.start_bare)
            take("destroy", one.destroy)
    return vm_figures(times)


def vm_figures(times: dict[str, list[float]]) -> list[Figure]:
    """Figures from what was measured."""
    bare = "the same machine by `virsh start`, until its ssh answers"
    empty = "Pulumi with an empty program"
    rows = (
        ("vm-up", "VM: `up`, until the agent's first answer", "up", bare, "bare", 45),
        ("vm-up-no-op", "VM: `up` without changes", "no-op", empty, "empty up", 6),
        ("vm-drift", "VM: drift check", "drift", empty, "empty drift", 4),
        ("vm-policy", "VM: allowlist change, live", "policy", empty, "empty up", 3),
        ("vm-destroy", "VM: `destroy`", "destroy", empty, "empty up", 5),
    )
    return [_seconds(times, *row) for row in rows]


def _seconds(
    times: dict[str, list[float]],
    name: str,
    what: str,
    key: str,
    beside: str,
    other: str,
    limit: float | None,
) -> Figure:
    """A figure of the times that were taken."""
    return Figure(
        id=name,
        what=what,
        unit="s",
        values=tuple(times[key]),
        beside=beside,
        beside_values=tuple(times[other]),
        limit=limit,
    )


def measure_data_plane(rounds: int, seconds: float) -> None:
    """Requests, names and reloads beside the peers; each is written as soon as it is there."""
    say("load generator and peers")
    load.build()
    peers.install()
    rows: list[Row] = []
    with lab() as place:
        parts: tuple[tuple[tuple[str, ...], Callable[[], list[Row]]], ...] = (
            (HTTP_SUBJECTS, lambda: measure_http(place, rounds, seconds, say)),
            (DNS_SUBJECTS, lambda: measure_dns(place, rounds, seconds, say)),
            (RELOAD_SUBJECTS, lambda: measure_reload(place, rounds, say)),
        )
        for subjects, measure_rows in parts:
            found = measure_rows()
            rows += found
            documents = [row.to_document() for row in rows]
            keep({"data_plane": {"machine": machine(), "rounds": rounds, "rows": documents}})
            sys.stdout.write(render_rows(found, subjects) + "\n")


def machine() -> dict[str, Any]:
    """What figures are of."""
    return {
        "cores": os.cpu_count(),
        "kernel": platform.release(),
        "architecture": platform.machine(),
        "load": round(os.getloadavg()[0], 2),
    }


def to_document(figures: list[Figure], rounds: int) -> dict[str, Any]:
    """All figures, with the machine that they are of."""
    return {
        "machine": machine(),
        "rounds": rounds,
        "figures": [one.to_document() for one in figures],
    }


def measure(one: Sandbox, rounds: int, *, cold: bool) -> list[Figure]:
    """Every figure, in the order of the table."""
    one.configure()
    times: dict[str, list[float]] = {}
    say("bare containers and the sandbox, up and away")
    for number in range(rounds):
        times.setdefault("bare up", []).append(timed(bare.start))
        times.setdefault("bare down", []).append(timed(bare.stop))
        times.setdefault("up", []).append(timed(lambda: bring_up(one)))
        if number < rounds - 1:
            times.setdefault("destroy", []).append(timed(one.destroy))
    say("no changes, drift, policy")
    with empty_stack() as empty:
        for _ in range(rounds):
            times.setdefault("empty up", []).append(timed(empty.up))
            times.setdefault("no-op", []).append(timed(one.up))
            times.setdefault("empty drift", []).append(timed(empty.drifted))
            times.setdefault("drift", []).append(timed(one.drift_check))
            times.setdefault("policy", []).extend(change_policy(one))
    say("memory")
    pod = [one.containers()[role] for role in POD]
    memory = container_memory_mb(pod), proportional_memory_mb(pod)
    times.setdefault("destroy", []).append(timed(one.destroy))
    with bare.servers() as plain:
        time.sleep(2)  # until both have allocated what they need; nothing tells it
        plain_memory = container_memory_mb(plain), proportional_memory_mb(plain)
    if cold:
        say("up with empty page caches")
        drop_caches()
        times["cold bare"] = [timed(bare.start)]
        bare.stop()
        drop_caches()
        times["cold"] = [timed(lambda: bring_up(one))]
    return figures_of(times, memory, plain_memory)


def figures_of(
    times: dict[str, list[float]], memory: tuple[float, float], plain: tuple[float, float]
) -> list[Figure]:
    """Figures from what was measured."""
    empty = "Pulumi with an empty program"
    script = "the same five containers by a script"
    rows: list[tuple[str, str, str, str, str, float | None]] = [
        ("up", "`up`, until the agent's first answer", "up", script, "bare up", 6),
        ("up-no-op", "`up` without changes", "no-op", empty, "empty up", 6),
        ("drift", "drift check", "drift", empty, "empty drift", 4),
        ("policy", "allowlist change, live", "policy", empty, "empty up", 3),
        ("destroy", "`destroy`", "destroy", "`docker rm` by a script", "bare down", 5),
    ]
    if "cold" in times:
        what = "`up` with empty page caches"
        rows.insert(1, ("up-cold", what, "cold", script, "cold bare", None))
    found = [_seconds(times, *row) for row in rows]
    for name, what, mine, other, limit in (
        ("memory", "memory of the pod (cgroups)", memory[0], plain[0], 120.0),
        ("memory-pss", "memory of the pod (PSS of its processes)", memory[1], plain[1], None),
    ):
        found.append(
            Figure(
                id=name,
                what=what,
                unit="MB",
                values=(mine,),
                limit=limit,
                beside="a bare Envoy and Unbound",
                beside_values=(other,),
            )
        )
    return found


def bring_up(one: Sandbox) -> None:
    """Up, and the first answer that the agent gets."""
    one.up()
    one.first_answer()


def change_policy(one: Sandbox) -> list[float]:
    """Seconds from the start of an `up` that allows a name until its first use; and back."""
    found = []
    for allow, status in (([PROBE], 200), ([], 403)):
        one.configure(*allow)
        with ThreadPoolExecutor(1) as pool:
            seen = pool.submit(one.wait_for, PROBE, status)
            settled(one, 403 if status == 200 else 200)
            start = time.time()
            one.up()
            found.append(seen.result() - start)
    return found


def settled(one: Sandbox, status: int) -> None:
    """See that the old answer still holds, so that a change can be told from it."""
    one.wait_for(PROBE, status)


def drop_caches() -> None:
    """Empty the kernel's page cache, as after a boot."""
    os.sync()
    DROP_CACHES.write_text("3")


def timed(action: Callable[[], object]) -> float:
    """Seconds that an action takes."""
    start = time.monotonic()
    action()
    return time.monotonic() - start


def say(text: str) -> None:
    """Tell how far it is, on standard error."""
    sys.stderr.write(f"bench      {text}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
