"""The shapes that a VM may send: true frames have one, and no false frame has."""

from __future__ import annotations

import pytest

from cli.frames import ATTACKS, HONEST, Maker, ethernet, ipv4, mark_of, tcp
from tests.attack.watching import Members, Seen, shape_of

MEMBERS = Members(
    mac="52:54:00:00:00:01",
    host_mac="02:42:00:00:00:01",
    pod_mac="02:42:0a:0a:01:02",
    agent="10.10.1.10",
    gateway="10.10.1.2",
    host="10.10.1.1",
    proxy_port=8080,
)
MAKER = Maker(MEMBERS.mac, MEMBERS.agent, MEMBERS.gateway, MEMBERS.host, MEMBERS.pod_mac)


def test_true_frames_have_a_shape():
    shapes = {name: shape_of(make(MAKER, mark_of(name)), MEMBERS) for name, make in HONEST.items()}
    assert shapes == {"names": "dns", "arp": "arp"}


@pytest.mark.parametrize("name", sorted(ATTACKS))
def test_a_false_frame_has_none(name):
    assert shape_of(ATTACKS[name](MAKER, mark_of(name)), MEMBERS) == ""


@pytest.mark.parametrize(
    ("to", "ports", "shape"),
    [
        (MEMBERS.gateway, (4000, 8080), "proxy"),
        (MEMBERS.gateway, (4000, 8081), ""),
        (MEMBERS.gateway, (22, 4000), ""),
        (MEMBERS.host, (22, 4000), "ssh"),
        (MEMBERS.host, (4000, 22), ""),
        ("198.51.100.10", (4000, 8080), ""),
    ],
)
def test_a_segment_goes_to_the_proxy_or_answers_a_login(to, ports, shape):
    body = ipv4(MEMBERS.agent, to, 6, tcp(MEMBERS.agent, to, ports, 2))
    assert shape_of(ethernet(MEMBERS.mac, MEMBERS.pod_mac, 0x0800, body), MEMBERS) == shape


@pytest.mark.parametrize(
    ("sender", "to", "port", "shape"),
    [
        (MEMBERS.host_mac, MEMBERS.agent, 22, "login"),
        (MEMBERS.host_mac, MEMBERS.agent, 80, ""),
        (MEMBERS.host_mac, MEMBERS.gateway, 22, ""),
        (MEMBERS.pod_mac, MEMBERS.agent, 22, ""),
    ],
)
def test_the_host_logs_in_and_sends_nothing_else(sender, to, port, shape):
    body = ipv4(MEMBERS.host, to, 6, tcp(MEMBERS.host, to, (4000, port), 2))
    assert shape_of(ethernet(sender, MEMBERS.mac, 0x0800, body), MEMBERS) == shape


@pytest.mark.parametrize("size", range(38))
def test_a_frame_that_ends_before_its_ports_has_none(size):
    assert shape_of(HONEST["names"](MAKER, b"")[:size], MEMBERS) == ""


def test_a_mark_is_found_in_what_has_no_shape():
    assert Seen({}, (b"abc",)).has(b"b")
    assert not Seen({"dns": 1}, ()).has(b"b")
