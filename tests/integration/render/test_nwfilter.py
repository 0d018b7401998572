"""The rendered nwfilters in a real libvirt: read back rule by rule, and tried with packets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from abox.render.nwfilter import normal_form, render_filter, render_link_filter
from cli.frames import ATTACKS, HONEST, Maker, mark_of
from tests import host
from tests.integration.render import frames
from tests.integration.render.firewall_lab import OTHER
from tests.integration.render.nwfilter_lab import SPEC, FilteredLab, filtered_laboratory

pytestmark = pytest.mark.integration

GATEWAY, AGENT, HOST = str(SPEC.gateway), str(SPEC.agent), str(SPEC.host)
NAMES, PROXY = 53, SPEC.proxy_port
POISON = "mac-of-the-gateway"


@pytest.fixture(scope="module")
def alone() -> Iterator[FilteredLab]:
    """Only libvirt's rules stand, no table of the sandbox."""
    with filtered_laboratory(tables=False) as lab:
        yield lab


def dumped(lab: FilteredLab, name: str) -> list[str]:
    return normal_form(lab.virsh("nwfilter-dumpxml", name).stdout)


def test_libvirt_reads_back_what_was_defined(alone: FilteredLab) -> None:
    assert dumped(alone, alone.spec.name) == normal_form(render_filter(alone.spec))
    assert dumped(alone, alone.spec.link) == normal_form(render_link_filter(alone.spec))


ALLOWED = [
    ("agent", "udp", GATEWAY, NAMES, "answered"),
    ("agent", "tcp", GATEWAY, PROXY, "connected"),
    ("agent", "icmp", GATEWAY, 0, "answered"),
    ("host", "tcp", AGENT, 22, "connected"),
]


@pytest.mark.parametrize(("role", "proto", "to", "port", "ends"), ALLOWED)
def test_the_conversations_of_the_list_pass(
    alone: FilteredLab, role: str, proto: str, to: str, port: int, ends: str
) -> None:
    assert alone.lab.probe(role, proto, to, port) == ends


REFUSED = [
    ("agent", "tcp", GATEWAY, NAMES, "pod"),
    ("agent", "udp", GATEWAY, PROXY, "pod"),
    ("agent", "tcp", GATEWAY, 22, "pod"),
    ("agent", "tcp", HOST, 22, None),
    ("agent", "tcp", HOST, PROXY, None),
    ("agent", "udp", HOST, NAMES, None),
    ("agent", "icmp", HOST, 0, None),
    ("agent", "tcp", "198.51.100.10", 80, "world"),
    ("agent", "udp", "198.51.100.53", 53, "world"),
    ("agent", "tcp", str(OTHER.agent), 22, "other-agent"),
    ("agent", "tcp", str(OTHER.gateway), PROXY, "other-pod"),
    ("agent", "sctp", GATEWAY, 0, "pod"),
    ("agent", "gre", GATEWAY, 0, "pod"),
    ("host", "tcp", AGENT, PROXY, "agent"),
    ("host", "udp", AGENT, 22, "agent"),
    ("host", "icmp", AGENT, 0, "agent"),
    ("pod", "tcp", AGENT, 22, "agent"),
    ("pod", "udp", AGENT, 53, "agent"),
    ("pod", "icmp", AGENT, 0, "agent"),
]


@pytest.mark.parametrize(("role", "proto", "to", "port", "arrival"), REFUSED)
def test_everything_else_is_dropped_without_an_answer(
    alone: FilteredLab, role: str, proto: str, to: str, port: int, arrival: str | None
) -> None:
    before = alone.lab.seen(arrival) if arrival else 0
    assert alone.lab.probe(role, proto, to, port) in ("silent", "sent")
    assert (alone.lab.seen(arrival) if arrival else 0) == before


@pytest.fixture(scope="module")
def arrived(alone: FilteredLab) -> set[str]:
    """Names of the frames that the pod or the host saw, of all that a VM's root can make."""
    return frames_behind_the_filter(alone)


@pytest.mark.parametrize("name", sorted(HONEST))
def test_true_frames_pass(arrived: set[str], name: str) -> None:
    assert name in arrived


@pytest.mark.parametrize("name", sorted(ATTACKS))
def test_no_frame_with_false_addresses_or_of_another_kind_passes(
    arrived: set[str], name: str
) -> None:
    assert name not in arrived


def test_without_the_filters_the_frames_do_arrive(alone: FilteredLab) -> None:
    """Control: what is refused above is refused by the filters."""
    alone.unfilter()
    try:
        arrived = frames_behind_the_filter(alone)
    finally:
        alone.bind()
        for role in ("agent", "pod", "host"):  # they believed the false ARP
            alone.lab.inside(role, "ip", "neigh", "flush", "all")
    # The bridge itself keeps the spanning tree's frames, and the kernel bad fragments.
    assert ATTACKS.keys() - arrived <= {"spanning-tree", POISON}


def frames_behind_the_filter(lab: FilteredLab) -> set[str]:
    maker = Maker(lab.spec.mac, AGENT, GATEWAY, HOST, lab.mac_of("pod", "eth0"))
    made = {**HONEST, **ATTACKS}
    # Unfiltered, it takes frames for the gateway away from it until the gateway sends one.
    made[POISON] = made.pop(POISON)
    watchers = [lab.program("pod", "watch", "eth0"), lab.program("host", "watch", lab.bridge)]
    for watcher in watchers:
        assert watcher.stdout is not None
        assert watcher.stdout.readline().strip() == b"watching"
    hexes = [make(maker, mark_of(name)).hex() for name, make in made.items()]
    lab.lab.inside("agent", *frames.PROGRAM, "send", "eth0", *hexes)
    lab.lab.probe("pod", "icmp", HOST)
    assert lab.lab.probe("agent", "udp", GATEWAY, NAMES) == "answered"  # all before it have passed
    seen = b""
    for watcher in watchers:
        assert watcher.stdin is not None
        watcher.stdin.close()
        assert watcher.stdout is not None
        seen += watcher.stdout.read()
        host.end(watcher)
    return {name for name in made if mark_of(name).hex().encode() in seen}


def test_frames_are_judged_without_bridge_filtering(alone: FilteredLab) -> None:
    """With the kernel switch off only the second filter sees bridged packets."""
    switch = "net.bridge.bridge-nf-call-iptables"
    alone.lab.inside("host", "sysctl", "-qw", f"{switch}=0")
    try:
        for role, proto, to, port, ends in ALLOWED:
            assert alone.lab.probe(role, proto, to, port) == ends, (role, proto, to, port)
        for role, proto, to, port, arrival in REFUSED:
            if (role, proto) == ("pod", "icmp"):
                continue  # echo is allowed, and a frame doesn't tell who began
            before = alone.lab.seen(arrival) if arrival else 0
            alone.lab.probe(role, proto, to, port)
            assert (alone.lab.seen(arrival) if arrival else 0) == before, (role, proto, to, port)
    finally:
        alone.lab.inside("host", "sysctl", "-qw", f"{switch}=1")


def test_a_changed_filter_is_live_at_once_and_never_open(alone: FilteredLab) -> None:
    """While the filters are replaced again and again, a flood to a closed port stays outside."""
    flood = alone.program("agent", "flood", "eth0", alone.spec.mac, AGENT, GATEWAY, "22")
    try:
        assert flood.stdout is not None
        assert flood.stdout.readline().strip() == b"sending"
        before = alone.lab.seen("pod")
        for port in (8081, 8082, PROXY):
            changed = replace(alone.spec, proxy_port=port)
            alone.define(render_link_filter(changed))
            alone.define(render_filter(changed))
        assert alone.lab.seen("pod") == before
    finally:
        host.end(flood)
    assert dumped(alone, alone.spec.name) == normal_form(render_filter(alone.spec))
    assert alone.lab.probe("agent", "tcp", GATEWAY, PROXY) == "connected"
