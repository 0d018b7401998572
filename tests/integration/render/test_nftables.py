"""The rendered table on a real kernel: who reaches whom, counted at the destination."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from ipaddress import IPv4Network

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from abox.addresses import judged_allowed
from abox.render.nftables import render_table
from tests.host import run
from tests.integration.render.firewall_lab import (
    HOST_UPLINK,
    HOST_UPLINK_V6,
    OTHER,
    SPEC,
    WORLD_V6,
    Lab,
    laboratory,
)

pytestmark = pytest.mark.integration

GATEWAY, AGENT, HOST = str(SPEC.gateway), str(SPEC.agent), str(SPEC.host)
POD = str(SPEC.pod_egress)
EGRESS_HOST = "10.11.1.1"


@pytest.fixture(scope="module")
def open_lab() -> Iterator[Lab]:
    with laboratory() as lab:
        yield lab


@pytest.fixture(scope="module")
def closed_lab() -> Iterator[Lab]:
    with laboratory() as lab:
        lab.load(SPEC, OTHER)
        yield lab


EITHER = ("reset", "silent")
"""Towards another sandbox two tables judge; which one comes first isn't defined."""

REFUSED = [
    ("agent", "tcp", GATEWAY, 22, "pod", ("reset",)),
    ("agent", "tcp", GATEWAY, 53, "pod", ("reset",)),
    ("agent", "tcp", GATEWAY, 9901, "pod", ("reset",)),
    ("agent", "udp", GATEWAY, 8080, "pod", ("prohibited",)),
    ("agent", "tcp", HOST, 22, None, ("reset",)),
    ("agent", "udp", HOST, 53, None, ("prohibited",)),
    ("agent", "icmp", HOST, 0, None, ("silent",)),
    ("agent", "tcp", HOST_UPLINK, 22, None, ("reset",)),
    ("agent", "tcp", EGRESS_HOST, 22, None, ("reset",)),
    ("agent", "tcp", POD, 8080, "pod", ("reset",)),
    ("agent", "tcp", "198.51.100.10", 80, "world", ("reset",)),
    ("agent", "udp", "198.51.100.53", 53, "world", ("prohibited",)),
    ("agent", "icmp", "198.51.100.10", 0, "world", ("silent",)),
    ("agent", "tcp", "11.0.0.10", 443, "world", ("reset",)),
    ("agent", "tcp", str(OTHER.agent), 22, "other-agent", EITHER),
    ("agent", "tcp", str(OTHER.gateway), 8080, "other-pod", EITHER),
    ("agent", "tcp", str(OTHER.pod_egress), 8080, "other-pod", EITHER),
    ("pod", "tcp", AGENT, 22, "agent", ("silent",)),
    ("pod", "udp", AGENT, 53, "agent", ("silent",)),
    ("pod", "icmp", AGENT, 0, "agent", ("silent",)),
    ("pod", "tcp", HOST, 22, None, ("reset",)),
    ("pod", "tcp", EGRESS_HOST, 22, None, ("reset",)),
    ("pod", "tcp", HOST_UPLINK, 22, None, ("reset",)),
    ("pod", "tcp", "198.51.100.10", 22, "world", ("reset",)),
    ("pod", "udp", "198.51.100.10", 443, "world", ("prohibited",)),
    ("pod", "udp", "198.51.100.54", 53, "world", ("prohibited",)),
    ("pod", "icmp", "198.51.100.10", 0, "world", ("silent",)),
    ("pod", "tcp", "10.99.0.5", 80, "world", ("reset",)),
    ("pod", "tcp", "169.254.169.254", 80, "world", ("reset",)),
    ("pod", "tcp", str(OTHER.pod_egress), 80, "other-pod", EITHER),
    ("pod", "tcp", str(OTHER.agent), 80, "other-agent", EITHER),
    ("world", "tcp", AGENT, 22, "agent", ("silent",)),
    ("world", "tcp", GATEWAY, 8080, "pod", ("silent",)),
    ("world", "tcp", POD, 8080, "pod", ("silent",)),
]
"""From, protocol, to, port, where the packets would arrive, how the attempt ends."""

ALLOWED = [
    ("agent", "udp", GATEWAY, 53, "answered"),
    ("agent", "tcp", GATEWAY, 8080, "connected"),
    ("agent", "icmp", GATEWAY, 0, "answered"),
    ("pod", "udp", "198.51.100.53", 53, "answered"),
    ("pod", "tcp", "198.51.100.53", 53, "connected"),
    ("pod", "tcp", "198.51.100.10", 80, "connected"),
    ("pod", "tcp", "198.51.100.10", 443, "connected"),
    ("pod", "tcp", "11.0.0.10", 443, "connected"),
    ("host", "tcp", GATEWAY, 8080, "connected"),
    ("host", "tcp", AGENT, 22, "connected"),
    ("host", "tcp", "198.51.100.10", 22, "connected"),
    ("world", "tcp", HOST_UPLINK, 22, "connected"),
    ("other-agent", "tcp", str(OTHER.gateway), 8080, "connected"),
]


@pytest.mark.parametrize(("role", "proto", "to", "port", "ends"), ALLOWED, ids=str)
def test_what_is_needed_passes(
    closed_lab: Lab, role: str, proto: str, to: str, port: int, ends: str
) -> None:
    assert closed_lab.probe(role, proto, to, port) == ends


@pytest.mark.parametrize(("role", "proto", "to", "port", "at", "ends"), REFUSED, ids=str)
def test_everything_else_is_refused_and_never_arrives(
    closed_lab: Lab,
    role: str,
    proto: str,
    to: str,
    port: int,
    at: str | None,
    ends: tuple[str, ...],
) -> None:
    before = closed_lab.seen(at) if at else 0
    assert closed_lab.probe(role, proto, to, port) in ends
    assert (closed_lab.seen(at) if at else 0) == before


CONTROLS = [row for row in REFUSED if row[0] != "world" and row[1] != "icmp"]


@pytest.mark.parametrize(("role", "proto", "to", "port", "at", "ends"), CONTROLS, ids=str)
def test_without_the_table_the_same_attempts_arrive(
    open_lab: Lab, role: str, proto: str, to: str, port: int, at: str | None, ends: tuple[str, ...]
) -> None:
    """The control: it is the table that refuses, not the lab's wiring."""
    before = open_lab.seen(at) if at else 0
    ended = open_lab.probe(role, proto, to, port)
    assert ended in ("connected", "answered")
    assert ended not in ends
    assert at is None or open_lab.seen(at) > before


@pytest.mark.parametrize("proto", ["sctp", "udplite", "gre", "esp"])
@pytest.mark.parametrize(
    ("role", "to", "at"),
    [("agent", GATEWAY, "pod"), ("pod", "198.51.100.10", "world"), ("agent", "11.0.0.10", "world")],
)
def test_odd_protocols_are_refused(
    closed_lab: Lab, open_lab: Lab, proto: str, role: str, to: str, at: str
) -> None:
    before = open_lab.seen(at)
    assert open_lab.probe(role, proto, to) == "sent"
    assert open_lab.seen(at) > before
    before = closed_lab.seen(at)
    assert closed_lab.probe(role, proto, to) == "sent"
    assert closed_lab.seen(at) == before


@pytest.mark.parametrize("source", ["10.10.1.77", HOST, GATEWAY, "198.51.100.10", "127.0.0.1"])
def test_the_agent_speaks_under_its_own_address_only(closed_lab: Lab, source: str) -> None:
    before = closed_lab.seen("pod")
    assert closed_lab.probe("agent", "udp", GATEWAY, 53, source=source) != "answered"
    assert closed_lab.seen("pod") == before


def test_the_pod_speaks_under_its_own_address_only(closed_lab: Lab) -> None:
    before = closed_lab.seen("world")
    assert closed_lab.probe("pod", "tcp", "198.51.100.10", 80, source="10.11.1.77") == "silent"
    assert closed_lab.seen("world") == before


@pytest.mark.parametrize(("role", "at"), [("pod", "pod"), ("host", None)])
def test_ipv6_is_dropped_link_local_too(
    closed_lab: Lab, open_lab: Lab, role: str, at: str | None
) -> None:
    device = SPEC.bridge if role == "host" else "eth0"
    for lab, reached in ((open_lab, True), (closed_lab, False)):
        to = lab.link_local(role, device)
        before = lab.seen(at) if at else 0
        ended = lab.probe("agent", "tcp", to, 8080, iface="eth0")
        assert (ended == "connected") is reached
        assert at is None or (lab.seen(at) > before) is reached


NAMED_V6 = ["fd66:0:1::5", "fd66:0:ffff:ffff:ffff:ffff:ffff:ffff"]
POD_V6 = str(SPEC.pod_egress_v6)
HOST_V6 = str(next(SPEC.egress_subnet_v6.hosts()))
REFUSED_V6 = [
    ("pod", "tcp", "fd66:1::", 80, "world", ("reset",)),
    ("pod", "tcp", "2600::5", 80, "world", ("reset",)),
    ("pod", "tcp", WORLD_V6, 80, "world", ("reset",)),
    ("pod", "tcp", NAMED_V6[0], 22, "world", ("reset",)),
    ("pod", "udp", NAMED_V6[0], 443, "world", ("silent",)),
    ("pod", "udp", NAMED_V6[0], 53, "world", ("silent",)),
    ("pod", "tcp", HOST_V6, 22, None, ("silent",)),
    ("pod", "tcp", HOST_UPLINK_V6, 22, None, ("silent",)),
    ("pod", "tcp", str(OTHER.pod_egress_v6), 80, "other-pod", ("silent",)),
    ("world", "tcp", POD_V6, 8080, "pod", ("silent",)),
]
"""With networks of IPv6 named: everything else of it stays shut."""


@pytest.mark.parametrize("to", NAMED_V6)
@pytest.mark.parametrize("port", [80, 443])
def test_a_named_network_of_ipv6_is_reached_to_its_end(closed_lab: Lab, to: str, port: int) -> None:
    assert closed_lab.probe("pod", "tcp", to, port) == "connected"


@pytest.mark.parametrize(("role", "proto", "to", "port", "at", "ends"), REFUSED_V6, ids=str)
def test_of_ipv6_nothing_but_the_named_networks_is_reached(
    closed_lab: Lab, role: str, proto: str, to: str, port: int, at: str | None,
    ends: tuple[str, ...],
) -> None:  # fmt: skip
    before = closed_lab.seen(at) if at else 0
    assert closed_lab.probe(role, proto, to, port) in ends
    assert (closed_lab.seen(at) if at else 0) == before


@pytest.mark.parametrize(
    ("role", "proto", "to", "port", "at", "ends"),
    [row for row in REFUSED_V6 if row[0] == "pod" and row[1] != "icmp"],
    ids=str,
)
def test_without_the_table_the_same_attempts_of_ipv6_arrive(
    open_lab: Lab, role: str, proto: str, to: str, port: int, at: str | None, ends: tuple[str, ...]
) -> None:
    """The control, as for IPv4; without the table nothing is masqueraded, so answers get lost."""
    before = open_lab.seen(at) if at else 0
    assert open_lab.probe(role, proto, to, port) not in ends or at == "world"
    assert at is None or open_lab.seen(at) > before


def test_a_published_port_does_not_lead_in(closed_lab: Lab) -> None:
    rules = f"""table ip published {{
        chain pre {{
            type nat hook prerouting priority dstnat
            tcp dport 4422 dnat to {AGENT}:22
        }}
    }}"""
    closed_lab.inside("host", "nft", "-f", "-", text=rules)
    before = closed_lab.seen("agent")
    assert closed_lab.probe("world", "tcp", HOST_UPLINK, 4422) == "silent"
    assert closed_lab.seen("agent") == before
    closed_lab.inside("host", "nft", "flush", "chain", "ip", "published", "pre")
    rules = rules.replace(AGENT, HOST_UPLINK)
    closed_lab.inside("host", "nft", "-f", "-", text=rules)
    assert closed_lab.probe("world", "tcp", HOST_UPLINK, 4422) == "connected"
    closed_lab.inside("host", "nft", "delete", "table", "ip", "published")


def test_an_accept_in_an_earlier_table_does_not_open(closed_lab: Lab) -> None:
    rules = """table inet other {
        chain early {
            type filter hook forward priority -300; policy accept
            accept
        }
    }"""
    closed_lab.inside("host", "nft", "-f", "-", text=rules)
    assert closed_lab.probe("agent", "tcp", GATEWAY, 22) == "reset"
    closed_lab.inside("host", "nft", "delete", "table", "inet", "other")


def test_the_world_sees_the_host_and_never_the_pod(closed_lab: Lab) -> None:
    rules = """table inet sources {
        chain pre {
            type filter hook prerouting priority -290
            ip saddr 10.0.0.0/8 counter
        }
    }"""
    closed_lab.inside("world", "nft", "-f", "-", text=rules)
    assert closed_lab.probe("pod", "tcp", "198.51.100.10", 80) == "connected"
    listed = closed_lab.inside("world", "nft", "list", "table", "inet", "sources").stdout
    assert "packets 0 " in listed
    closed_lab.inside("world", "nft", "delete", "table", "inet", "sources")


def test_passive_mode_opens_other_ports_of_public_and_named_networks_only(open_lab: Lab) -> None:
    try:
        open_lab.load(replace(SPEC, tcp_ports=None))
        assert open_lab.probe("pod", "tcp", "198.51.100.10", 2222) == "connected"
        assert open_lab.probe("pod", "tcp", "10.99.0.5", 2222) == "reset"
        assert open_lab.probe("pod", "udp", "198.51.100.10", 2222) == "prohibited"
    finally:
        open_lab.unload()


def test_a_replaced_table_holds_at_once_for_open_connections(open_lab: Lab) -> None:
    """A narrowed network closes what was open: every packet of the pod is judged, not the first."""
    try:
        open_lab.load(SPEC)
        assert open_lab.probe("pod", "tcp", "198.51.100.10", 80) == "connected"
        open_lab.load(replace(SPEC, allow_private_cidrs=()))
        assert open_lab.probe("pod", "tcp", "198.51.100.10", 80) == "reset"
        assert open_lab.probe("pod", "tcp", "11.0.0.10", 80) == "connected"
    finally:
        open_lab.unload()


def test_loading_twice_leaves_one_table_the_same(open_lab: Lab) -> None:
    try:
        open_lab.load(SPEC)
        first = open_lab.inside("host", "nft", "-s", "list", "ruleset").stdout
        open_lab.load(SPEC)
        assert open_lab.inside("host", "nft", "-s", "list", "ruleset").stdout == first
    finally:
        open_lab.unload()


NETWORKS = st.builds(
    lambda value, length: IPv4Network((value >> (32 - length) << (32 - length), length)),
    st.integers(0, 2**32 - 1),
    st.integers(8, 32),
)


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.lists(NETWORKS, max_size=4),
    st.none() | st.lists(st.integers(1, 65535), max_size=4).map(tuple),
    st.integers(1, 65535),
)
def test_the_real_parser_takes_every_table_and_reads_the_same_networks(
    cidrs: list[IPv4Network], ports: tuple[int, ...] | None, proxy_port: int
) -> None:
    spec = replace(SPEC, allow_private_cidrs=tuple(cidrs), tcp_ports=ports, proxy_port=proxy_port)
    script = "nft -f - && nft -j list set inet abox-one special_purpose"
    done = run(["unshare", "-n", "sh", "-c", script], text=render_table(spec))
    (elements,) = [e["set"]["elem"] for e in json.loads(done.stdout)["nftables"] if "set" in e]
    live = [IPv4Network(_cidr(element)) for element in elements]
    for cidr in [*cidrs, *live]:
        for address in (cidr.network_address, cidr.broadcast_address):
            refused = any(address in network for network in live)
            assert refused is not judged_allowed(address, cidrs)


def _cidr(element: object) -> str:
    if isinstance(element, dict):
        prefix = element["prefix"]
        return f"{prefix['addr']}/{prefix['len']}"
    return f"{element}/32"
