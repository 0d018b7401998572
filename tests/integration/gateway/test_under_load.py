"""Policy changes and killed filters while both filters are busy."""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from tests import host
from tests.integration.gateway.asking import ALLOW, DENY, Asked
from tests.integration.gateway.conftest import Gateway

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

CHANGES = int(os.environ.get("ABOXT_CHANGES", "8"))
"""How many in a run; the environment may ask for more."""
ASKING = "tests.integration.gateway.asking"
NAMES = KEPT, CHANGED, DENIED = "allowed.test", "other.test", "evil.test"
PAUSE_S = 0.4
"""Between two changes, so that there is something to compare."""
BACK_S = 30
"""Limit for a killed filter, on a machine that is busy with more than this."""


@dataclass(frozen=True)
class Change:
    """A policy change: when it was asked for, when it was reported live, and what it said."""

    asked: float
    live: float
    allowed: bool
    """Whether CHANGED is allowed from then on."""


class Load:
    """Processes that ask, and what they were told once they ended."""

    def __init__(self, gateway: Gateway) -> None:
        proxy = (gateway.pod.gateway, str(gateway.pod.proxy_port))
        resolver = (gateway.pod.gateway, "53")
        plans = [
            ("plain", *proxy, *NAMES),
            ("plain", *proxy, KEPT, CHANGED),
            ("tunnel", *proxy, KEPT),
            ("dns", *resolver, *NAMES),
        ]
        self._processes = [host.spawn([sys.executable, "-m", ASKING, *plan]) for plan in plans]
        for process in self._processes:
            assert process.stdout is not None
            assert process.stdout.readline() == b"asking\n"
        self.by_way: list[tuple[str, list[Asked]]] = [(plan[0], []) for plan in plans]

    def end(self) -> None:
        """Let all of them end and read what they say."""
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.close()
        for process, (_, asked) in zip(self._processes, self.by_way, strict=True):
            assert process.stdout is not None
            asked += [Asked(*json.loads(line)) for line in process.stdout]
            assert process.wait(timeout=60) == 0

    def kill(self) -> None:
        """End what still runs."""
        for process in self._processes:
            host.end(process)

    def about(self, *names: str) -> Iterator[tuple[str, Asked]]:
        """Way and question, for some names."""
        for way, asked in self.by_way:
            yield from ((way, one) for one in asked if one.name in names)


@contextmanager
def load_on(gateway: Gateway) -> Iterator[Load]:
    """Load from here to the end of the block."""
    load = Load(gateway)
    try:
        yield load
        load.end()
    finally:
        load.kill()


def test_live_13_changes_under_load_fail_nothing_allowed_and_pass_nothing_denied(gateway: Gateway):
    """Whatever is asked between two changes gets the policy's answer; during one, either's."""
    changes = []
    with load_on(gateway) as load:
        for number in range(CHANGES):
            allowed = number % 2 == 1
            asked = time.monotonic()
            gateway.apply([KEPT, *([CHANGED] if allowed else [])])
            changes.append(Change(asked, time.monotonic(), allowed))
            time.sleep(PAUSE_S)
    told = {name: Counter(one.answer for _, one in load.about(name)) for name in (KEPT, DENIED)}
    assert set(told[KEPT]) == {ALLOW}, told
    assert set(told[DENIED]) == {DENY}, told
    counted = Counter[tuple[str, str]]()
    for way, one in load.about(CHANGED):
        wanted = _wanted(changes, one)
        if wanted is None:  # the two filters change one after the other
            assert one.answer in (ALLOW, DENY, "502", "503"), (way, one)
        else:
            assert one.answer == wanted, (way, one, wanted)
            counted[way, wanted] += 1
    for way in ("plain", "dns"):
        assert min(counted[way, ALLOW], counted[way, DENY]) > 10, counted


def _wanted(changes: Sequence[Change], one: Asked) -> str | None:
    """The answer of the only policy that was live while the question was open, if it is one."""
    if one.got <= changes[0].asked:
        return ALLOW
    for change, later in zip(changes, [*changes[1:], None], strict=True):
        if one.sent >= change.live and (later is None or one.got <= later.asked):
            return ALLOW if change.allowed else DENY
    return None


@pytest.mark.parametrize("role", ["dns", "proxy", "control"])
def test_live_14_a_filter_killed_under_load_opens_nothing_and_is_back_soon(
    gateway: Gateway, role: str
):
    """The process of the filter is killed, not its container: it restarts by its own policy."""
    program = {"dns": "unbound", "proxy": "envoy", "control": "gateway serve"}[role]
    with load_on(gateway) as load:
        _kill(gateway.pod.containers[role], program)
        host.wait_until(lambda: _is_ready(gateway), timeout_s=BACK_S, describe=gateway.pod.logs)
        back = time.monotonic()
        time.sleep(1)
    answers = Counter(one.answer for _, one in load.about(DENIED))
    assert answers[DENY] > 10
    assert answers[ALLOW] == 0, answers
    late = [(way, one) for way, one in load.about(KEPT) if one.sent > back and one.answer != ALLOW]
    assert not late, late[:5]
    hit = {"dns": "dns", "proxy": "plain"}.get(role)
    if hit:  # the kill was felt, else nothing was tested
        answers = Counter(one.answer for way, one in load.about(*NAMES) if way == hit)
        assert set(answers) - {ALLOW, DENY}, answers


def _is_ready(gateway: Gateway) -> bool:
    return gateway.pod.control("ready", "--timeout", "1").code == 0


def _kill(container: str, program: str) -> None:
    """SIGKILL for the processes of a container whose command line names a program."""
    listed = host.run(["docker", "top", container, "-eo", "pid,args"]).stdout.splitlines()[1:]
    found = [line.split(None, 1) for line in listed]
    pids = [int(pid) for pid, args in found if program in args and "tini" not in args]
    assert pids, listed
    for pid in pids:
        os.kill(pid, 9)
