"""A gateway pod for the tests of this folder, and a client on its bridge."""

from __future__ import annotations

import itertools
import json
import os
import secrets
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Network
from typing import Any

import pytest

from abox.allowlist import Allow, judge_name, parse_policy
from tests import host
from tests.cases.sandbox import Prober
from tests.integration.gateway.lanes import PORTS, Lane, lay_lanes
from tests.integration.gateway.pod import GatewayPod
from tests.world import World

NAMES = {
    "allowed.test": ["198.51.100.10"],
    "evil.test": ["198.51.100.66"],
    "other.test": ["198.51.100.20"],
    "*.wild.test": ["198.51.100.20"],
}
ALLOW = ["allowed.test", "other.test", "*.wild.test"]
CIDRS = ["198.51.100.0/24", "2001:db8::/32"]


_numbers = itertools.count(1)

WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
"""Number of the process among those that share a run: two of them never take the same networks."""


@dataclass
class Gateway:
    """The pod, the world around it, and a client that asks it."""

    pod: GatewayPod
    world: World
    client: Prober

    def apply(self, allow: list[object] | None = None, **settings: Any) -> None:
        """Make a policy live, with the world's networks and authority allowed."""
        # Floods of names below one entry: the budget has tests of its own.
        full = {"allow_private_cidrs": CIDRS, "dns_queries_per_minute": 60_000, **settings}
        cas = [self.world.ca_pem]
        answer = self.pod.apply(ALLOW if allow is None else allow, trusted_cas=cas, **full)
        assert answer.get("ok"), answer

    def get(self, url: str, **action: Any) -> dict[str, Any]:
        """One request; by CONNECT if the URL says https."""
        via = "connect" if url.startswith("https") else "proxy"
        asked = {"method": "GET", "via": via, "url": url, **action}
        (answer,) = self.client.ask("http", asked)
        return dict(answer)

    def raw(self, text: str, **action: Any) -> dict[str, Any]:
        """Bytes on the proxy's port; the first answer."""
        found = self.client.ask("raw", {"raw": text, **action})
        return {**found["responses"][0], "ended": found["closed"]}

    def resolve(self, name: str, kind: str = "A", **action: Any) -> dict[str, Any]:
        """One question to the agent's resolver."""
        (answer,) = self.client.ask("dns", {"name": name, "type": kind, **action})
        return dict(answer)

    def name_for(self, address: str) -> str:
        """An allowed name for an address, never asked for before, so that no cache knows it."""
        name = f"n{next(_numbers)}.wild.test"
        self.world.dns.set({**self.world.dns.tables["names"], name: [address]})
        return name

    def foreign_queries(self) -> list[str]:
        """Names that the world's resolver was asked for and the usual policy doesn't allow.

        Envoy looks up again, in the background, names that earlier tests asked for.
        """
        policy = parse_policy(ALLOW)
        asked = {name for name, _, _ in self.world.dns.asked()}
        return sorted(name for name in asked if not isinstance(judge_name(policy, name), Allow))

    def reached(self, address: str) -> list[Mapping[str, Any]]:
        """Packets that went towards an address."""
        return list(self.world.attempts(address))


def _free_number() -> int:
    """Third part of both networks' addresses: of this worker's, one that the host doesn't have."""
    shown = json.loads(host.run(["ip", "-j", "-4", "addr", "show"]).stdout)
    used = {one["local"].rpartition(".")[0] for link in shown for one in link["addr_info"]}
    numbers = range(200 + WORKER % 2, 250, 2)
    return secrets.choice([n for n in numbers if not used & {f"10.10.{n}", f"10.11.{n}"}])


@pytest.fixture(scope="module")
def module_gateway(
    session_world: World, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Gateway]:
    """One pod for the module; `gateway` hands it out with a known policy."""
    number = _free_number()
    pod = GatewayPod(
        session_world.run.stack("g"),
        IPv4Network(f"10.10.{number}.0/24"),
        IPv4Network(f"10.11.{number}.0/24"),
    )
    session_world.join(*pod.bridges)
    try:
        pod.start()
        session_world.watch_pod(pod.pid)
        assert pod.apply([]).get("ok")
        pod.wait_until_ready()
        command = [sys.executable, "-m", "tests.cases.probe", "serve", pod.gateway, "8080"]
        client = Prober(command, tmp_path_factory.mktemp("gateway") / "client.log")
        yield Gateway(pod, session_world, client)
        client.close()
    finally:
        session_world.forget_pods()
        pod.stop()


@pytest.fixture
def gateway(module_gateway: Gateway, world: World) -> Gateway:
    """The pod with its usual policy, in a world with origins at the usual addresses."""
    in_usual_world(world)
    module_gateway.apply(unless_live=True)
    world.clear_records()
    return module_gateway


def in_usual_world(world: World) -> None:
    """Names, and origins at the usual addresses."""
    world.dns.set(NAMES)
    for address in ("198.51.100.10", "198.51.100.20", "198.51.100.66"):
        world.origin(at=f"{address}:80", speaks="http")
        world.origin(at=f"{address}:443", speaks="https")


@pytest.fixture(scope="module")
def lanes(module_gateway: Gateway) -> Iterator[list[Lane]]:
    """By the proxy's port and by a tunnel to nginx, Python's and Node's server."""
    world = module_gateway.world
    try:
        backends = [world.backend(kind, at=f"127.0.0.1:{port}") for kind, port in PORTS.items()]
        yield lay_lanes(module_gateway, backends)
    finally:
        world.end_backends()
