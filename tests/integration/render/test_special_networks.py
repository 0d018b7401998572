"""The table alone, with the proxy out of the way: which addresses a process in the pod reaches."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Iterator
from ipaddress import IPv4Address

import pytest

from abox.addresses import CLASSES, judged_allowed
from tests.integration.render.firewall_lab import SPEC, Lab, laboratory

pytestmark = pytest.mark.integration

ARRIVED = """table inet arrived {
  set to { type ipv4_addr; flags dynamic; size 65535; }
  chain pre {
    type filter hook prerouting priority -290
    iifname "leg" tcp flags syn / syn,ack add @to { ip daddr }
  }
}
"""
KNOCK = """
import socket, sys, time
knocking = []
for address in sys.stdin.read().split():
    one = socket.socket()
    one.setblocking(False)
    try:
        one.connect_ex((address, 443))
    except OSError:
        pass
    knocking.append(one)
time.sleep(1)
"""
"""One first packet towards each address, all from one process of the pod."""

SENDABLE = IPv4Address("224.0.0.0")
"""From here on, and on loopback and 0/8, the kernel itself has no way for TCP."""
ROUTELESS = (0, 127)
OWN = ("10.10.1.", "10.11.1.", "10.10.2.", "10.11.2.", "198.51.100.")
"""Networks of the lab's own cables, where only the addresses that somebody has are found."""
NAMED = IPv4Address("198.51.100.10")
"""The world's, in a special-purpose network that the sandbox's settings name."""


def candidates() -> list[IPv4Address]:
    """Edges of every IPv4 block with their neighbours, and a few hundred addresses by chance."""
    edges = {
        int(edge) + step
        for entry in CLASSES
        if entry.network.version == 4
        for edge in (entry.network.network_address, entry.network.broadcast_address)
        for step in (-1, 0, 1)
    }
    chance = random.Random(4)  # noqa: S311  # the same sample every time
    values = edges | {chance.randrange(2**32) for _ in range(400)}
    found = [IPv4Address(value) for value in sorted(values) if 0 <= value < int(SENDABLE)]
    return [NAMED] + [
        address
        for address in found
        if address.packed[0] not in ROUTELESS and not str(address).startswith(OWN)
    ]


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with laboratory() as made:
        made.inside("world", "nft", "-f", "-", text=ARRIVED)
        yield made


def arrived(lab: Lab, addresses: list[IPv4Address]) -> set[IPv4Address]:
    """Those of the addresses for which a first packet got to the world."""
    lab.inside("world", "nft", "flush", "set", "inet", "arrived", "to")
    text = "\n".join(map(str, addresses))
    lab.inside("pod", sys.executable, "-c", KNOCK, text=text)
    listed = lab.inside("world", "nft", "-j", "list", "set", "inet", "arrived", "to").stdout
    elements = next(e["set"] for e in json.loads(listed)["nftables"] if "set" in e).get("elem", [])
    return {IPv4Address(element) for element in elements} & set(addresses)


def test_past_the_proxy_only_public_and_named_addresses_are_reached(lab: Lab) -> None:
    """Each address is judged as the proxy judges it; without the table all of them are reached."""
    addresses = candidates()
    lab.unload()
    assert arrived(lab, addresses) == set(addresses)  # control: it is the table that refuses
    lab.load(SPEC)
    assert judged_allowed(NAMED, SPEC.allow_private_cidrs)
    wanted = {a for a in addresses if judged_allowed(a, SPEC.allow_private_cidrs)}
    assert 100 < len(wanted) < len(addresses) - 40
    assert arrived(lab, addresses) == wanted
