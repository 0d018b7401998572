"""Carries out ``socket`` actions: as the agent, and as root in the agent's network namespace."""

from __future__ import annotations

import contextlib
import ipaddress
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tests import host
from tests.cases.outcome import Outcome
from tests.cases.placeholders import link_local
from tests.cases.sandbox import Sandbox
from tests.world import World

FRAMED = frozenset(["src_ip", "src_mac"])
"""Keys that only a frame of our own making can have."""
GOOD = frozenset(["connected", "answered"])


def _attempt(sandbox: Sandbox, who: str, action: Mapping[str, Any]) -> dict[str, Any]:
    prober = sandbox.agent if who == "agent" else sandbox.root
    result: dict[str, Any] = prober.ask("socket", action)
    return {"as": who, **result}


@contextlib.contextmanager
def _route(sandbox: Sandbox, destination: str, via: str) -> Iterator[None]:
    """A route in the agent's namespace that no agent could lay."""
    args = [f"{destination}/32", "via", via]
    sandbox.in_agent_network("ip", "route", "replace", *args)
    try:
        yield
    finally:
        sandbox.in_agent_network("ip", "route", "del", *args, check=False)


def _device(sandbox: Sandbox) -> str:
    listed = sandbox.in_agent_network("ip", "-o", "-4", "address", "show").stdout
    for name, address in re.findall(r"^\d+: (\S+)\s+inet ([\d.]+)/", listed, re.MULTILINE):
        if address == sandbox.agent_address:
            return str(name)
    raise RuntimeError(f"no device of the agent has {sandbox.agent_address}: {listed}")


def _bridge_mac(sandbox: Sandbox) -> str:
    shown = host.run(["ip", "-o", "link", "show", sandbox.bridge]).stdout
    found = re.search(r"link/ether (\S+)", shown)
    assert found is not None
    return found.group(1)


def _next_macs(sandbox: Sandbox, destination: str) -> dict[str, str]:
    """Hardware addresses that a frame for the destination can be sent to."""
    pod = sandbox.gateway_mac()
    host_mac = _bridge_mac(sandbox)
    if destination in (sandbox.gateway, link_local(pod)):
        return {"to the gateway": pod}
    return {"by the host": host_mac, "by the gateway": pod}


def _frames(sandbox: Sandbox, action: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Send the packet as a frame of our own making, by every way that a neighbour offers."""
    own = sandbox.seat.mac()
    second = ":" in action["to"]
    source = action.get("src_ip") or (link_local(own) if second else sandbox.agent_address)
    attempts = []
    for way, mac in _next_macs(sandbox, action["to"]).items():
        frame = {
            **action,
            "device": _device(sandbox),
            "src_ip": source,
            "src_mac": action.get("src_mac") or own,
            "next_mac": mac,
        }
        sandbox.root.ask("frame", frame)
        attempts.append({"as": f"root, frame {way}", "outcome": "sent", "detail": ""})
    return attempts


def _from_host(action: Mapping[str, Any]) -> dict[str, Any]:
    from tests.cases.probe import sockets as probe  # the same code, here on the host

    return {"as": "host", **probe.attempt(dict(action))}


def attempt(sandbox: Sandbox, action: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Every way in which this packet can be sent, and what came of each."""
    if action.get("from") == "host":
        return [_from_host(action)]
    plain = {k: v for k, v in action.items() if k not in ("next_hop", "from")}
    attempts = []
    if not FRAMED & set(action):
        attempts += [_attempt(sandbox, "agent", plain), _attempt(sandbox, "root", plain)]
    if ipaddress.ip_address(action["to"].partition("%")[0]).version == 6:
        return attempts + _frames(sandbox, plain)
    if FRAMED & set(action):
        return attempts + _frames(sandbox, plain)
    if ipaddress.ip_address(action["to"]) not in sandbox.subnet:
        for via in {action.get("next_hop") or sandbox.host_address, sandbox.gateway}:
            with _route(sandbox, action["to"], via):
                tried = _attempt(sandbox, "root", plain)
                attempts.append({**tried, "as": f"root by {via}"})
    return attempts


def _is_this(packet: Mapping[str, Any], action: Mapping[str, Any]) -> bool:
    wanted = {"proto": action["proto"], "destination": action["to"].partition("%")[0]}
    if action.get("port"):
        wanted["port"] = action["port"]
    return all(packet[key] == value for key, value in wanted.items())


def perform(world: World, sandbox: Sandbox, action: Mapping[str, Any], outcome: Outcome) -> None:
    """Send, and count what arrived at the destination."""
    counter = _counter(world, sandbox, action)
    outcome.attempts = attempt(sandbox, action)
    outcome.packets_seen = counter()


def _counter(world: World, sandbox: Sandbox, action: Mapping[str, Any]) -> Callable[[], int]:
    """Who sees the packets: the pod, the host, another sandbox's agent or the world."""
    address = action["to"].partition("%")[0]
    if _on_host(address):
        port = int(action.get("port") or 0)
        world.watch_host(sandbox.bridge, address, action["proto"], port)
        return world.reached_host
    parsed = ipaddress.ip_address(address)
    if parsed in sandbox.subnet or parsed.is_link_local or parsed.is_multicast:
        sources = {sandbox.agent_address, action.get("src_ip"), _link_local_of_agent(sandbox)}
        return lambda: len(
            [p for p in world.arrived_in_pods() if _is_this(p, action) and p["source"] in sources]
        )
    return lambda: len(
        [p for p in (*world.arrived_in_pods(), *world.packets()) if _is_this(p, action)]
    )


def _link_local_of_agent(sandbox: Sandbox) -> str:
    return link_local(sandbox.seat.mac())


def _on_host(address: str) -> bool:
    shown = host.run(["ip", "-o", "address", "show"]).stdout
    return re.search(rf"inet6? {re.escape(address)}/", shown) is not None
