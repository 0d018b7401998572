"""Every block of the registries, every spelling of an address, and a resolver that lies."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import Any

import pytest

from abox.addresses import CLASSES, Address, is_public
from tests import host
from tests.cases.probe.sockets import send_frame
from tests.integration.gateway.conftest import Gateway, in_usual_world
from tests.world import World
from tests.world.world import UPSTREAM_DNS, bare

pytestmark = pytest.mark.integration


def edges() -> list[Address]:
    """First, last and one address in the middle of every block, and their outer neighbours."""
    found: set[Address] = set()
    for entry in CLASSES:
        network = entry.network
        make = type(network.network_address)
        first, last = int(network.network_address), int(network.broadcast_address)
        values = (first - 1, first, (first + last) // 2, last, last + 1)
        found |= {make(value) for value in values if 0 <= value < 2**network.max_prefixlen}
    return sorted(found, key=lambda address: (address.version, int(address)))


SPECIAL = [address for address in edges() if not is_public(address)]
PUBLIC = [address for address in edges() if is_public(address)]


def resolve_each(gateway: Gateway, addresses: Sequence[Address], label: str) -> None:
    """Give each address a name of its own, numbered."""
    names = {f"{label}{n}.wild.test": [str(address)] for n, address in enumerate(addresses, 1)}
    gateway.world.dns.set(names)


def ask_each(gateway: Gateway, label: str, scheme: str, count: int) -> list[dict[str, Any]]:
    """Ask for each of these names, several at once."""
    url = f"{scheme}://{label}{{n}}.wild.test/"
    via = "connect" if scheme == "https" else "proxy"
    asked = {"method": "GET", "via": via, "url": url, "times": count}
    return list(gateway.client.ask("http", asked))


def destinations(gateway: Gateway) -> set[str]:
    """Everything but the resolver that the pod dialled and the world heard from, and not on lo."""
    packets = [*gateway.world.dialled(), *gateway.world.packets()]
    return {p["destination"] for p in packets if p["interface"] != "lo"} - {UPSTREAM_DNS}


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_addr_1_no_block_of_the_registries_is_dialled(gateway: Gateway, scheme: str):
    """Both families, both edges and the middle, none named by allow_private_cidrs."""
    gateway.apply(allow_private_cidrs=[], unless_live=True)
    label = f"{scheme}-special"
    resolve_each(gateway, SPECIAL, label)
    gateway.world.clear_records()
    answers = ask_each(gateway, label, scheme, len(SPECIAL))
    wrong = [
        (str(address), answer["status"], answer["body"][:200])
        for address, answer in zip(SPECIAL, answers, strict=True)
        if '"reason":"special_purpose_address"' not in answer["body"]
    ]
    assert wrong == []
    assert gateway.world.connections() == []
    assert destinations(gateway) & {form for a in SPECIAL for form in bare(str(a))} == set()


def test_addr_1_the_neighbours_of_the_blocks_are_dialled(gateway: Gateway):
    """The other side of each edge is ordinary; IPv6, which a pod hasn't, fails at the dial."""
    gateway.apply(allow_private_cidrs=[], unless_live=True)
    resolve_each(gateway, PUBLIC, "public")
    for address in PUBLIC:
        if address.version == 4:
            gateway.world.origin(at=f"{address}:80")
    answers = ask_each(gateway, "public", "http", len(PUBLIC))
    wanted = [200 if address.version == 4 else 502 for address in PUBLIC]
    assert [answer["status"] for answer in answers] == wanted
    for address, answer in zip(PUBLIC, answers, strict=True):
        assert address.version == 4 or '"upstream_unreachable"' in answer["body"], address


SPELLINGS = {
    "dotted": ["127.0.0.1", "10.0.0.5", "169.254.169.254", "198.51.100.10", "8.8.8.8", "0.0.0.0"],
    "short": ["0", "1", "127.1", "127.0.1", "10.5", "8.8"],
    "whole-number": ["2130706433", "3232235777", "4294967295", "4294967296", "017700000001"],
    "hexadecimal": ["0x7f000001", "0X7F.1", "0x7f.0.0.1", "0x7f.0x0.0x0.0x1", "0x", "0xA000005"],
    "octal": ["0177.0.0.1", "0177.0.0.01", "00000177.0.0.1", "012.0.0.5", "0251.0376.0251.0376"],
    "leading-zeros": ["127.000.000.001", "010.000.000.005"],
    "out-of-range": ["256.0.0.1", "127.0.0.256", "1.2.3.4.5", "127.0.0.0x100"],
    "dots": ["127.0.0.1.", "127.0.0.1..", ".127.0.0.1", "127..0.1", "127.1.", "2130706433."],
    "name-that-ends-in-a-number": ["a.127", "evil.test.1", "a.0x7f", "allowed.test.0", "test.09"],
    "wide-digits": ["\uff11\uff12\uff17.0.0.1", "127\u30020\u30020\u30021", "127\uff0e0\uff0e0.1"],
    "circled-digits": ["\u2460\u2461\u2466.0.0.1", "1\u00b227.0.0.1", "\u0661\u0662\u0667.0.0.1"],
    "invisible": ["127.0.0\u200b.1", "\u00ad127.0.0.1", "127.0.0.1\ufeff"],
    "percent": ["%31%32%37.0.0.1", "127%2e0%2e0%2e1", "127.0.0.1%00.wild.test", "127.0.0.1%20"],
    "brackets": ["[127.0.0.1]", "[10.0.0.5]", "[evil.test]", "[]", "[[::1]]", "[::1", "::1]",
                 "[0]"],
    "version-6": ["[::1]", "[::]", "[0:0:0:0:0:0:0:1]", "[2001:db8::10]", "[FE80::1]", "[fd00::5]",
                  "[2001:4860:4860::8888]", "[ff02::1]", "[100::1]"],
    "version-6-bare": ["::1", "2001:db8::10", "::ffff:127.0.0.1"],
    "mapped": ["[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::FFFF:a9fe:a9fe]", "[0::ffff:10.0.0.5]"],
    "compatible": ["[::127.0.0.1]", "[::7f00:1]", "[::a00:5]"],
    "translated": ["[64:ff9b::a9fe:a9fe]", "[64:ff9b::10.0.0.5]", "[64:ff9b:1::a00:5]",
                   "[::ffff:0:127.0.0.1]"],
    "tunnelled": ["[2002:7f00:1::1]", "[2002:a00:5::]", "[2001:0:c633:640a::f5ff:fffa]"],
    "zone": ["[::1%25lo]", "[::1%lo]", "[fe80::1%25eth0]", "[fe80::1%eth0]", "[127.0.0.1%25lo]"],
    "future": ["[v1.fe80::a]", "[v6.::1]"],
    "user": ["allowed.test@127.0.0.1", "allowed.test:80@10.0.0.5", "127.0.0.1@10.0.0.5"],
    "alias": ["localhost", "localhost.", "LOCALHOST", "ip6-localhost", "a.localhost", "local",
              "host.docker.internal", "gateway.docker.internal", "metadata"],
    "embedded": ["127.0.0.1\\@allowed.test", "127.0.0.1#@allowed.test", "127.0.0.1?allowed.test"],
}  # fmt: skip


@pytest.fixture
def passive_gateway(module_gateway: Gateway, world: World) -> Gateway:
    """The pod in the usual world, where every name is allowed."""
    in_usual_world(world)
    module_gateway.apply([], mode="passive", unless_live=True)
    return module_gateway


@pytest.mark.parametrize("kind", SPELLINGS)
def test_addr_2_an_address_is_no_name_in_any_spelling(passive_gateway: Gateway, kind: str):
    """In passive mode: by absolute form, by Host and by CONNECT."""
    gateway = passive_gateway
    assert gateway.get("http://allowed.test/")["status"] == 200
    gateway.world.clear_records()
    heads = (
        "GET http://{0}/ HTTP/1.1\r\nHost: {0}\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: {0}\r\n\r\n",
        "CONNECT {0}:80 HTTP/1.1\r\nHost: {0}:80\r\n\r\n",
        "CONNECT {0}:443 HTTP/1.1\r\nHost: allowed.test:443\r\n\r\n",
    )
    for literal in SPELLINGS[kind]:
        text = literal.encode().decode("latin-1")
        for head in heads:
            answer = gateway.raw(head.format(text))
            assert answer["status"] in (400, 403), (literal, head, answer)
    assert gateway.foreign_queries() == []
    assert gateway.world.connections() == []
    assert destinations(gateway) - {"198.51.100.10"} == set()


FLIPS_S = 8
"""How long a flipping name is asked for: the proxy looks it up anew about every second."""


def test_addr_4_a_resolver_that_flips_opens_no_window(gateway: Gateway):
    """The answer changes at every look-up while requests come without a pause."""
    good, bad = "198.51.100.64", ["10.0.0.5", "127.0.0.1", "169.254.169.254", "172.16.0.1"]
    for address in bad[:3]:
        gateway.world.origin(at=f"{address}:80")
    gateway.world.origin(at=f"{good}:80")
    name = f"flip{time.monotonic_ns()}.wild.test"
    gateway.world.origin(at=f"{good}:443", speaks="https", cert={"names": [name]})
    answers = [[address] for each in bad for address in (good, each)]
    mixed = [[good, each] for each in bad]
    gateway.world.dns.set({}, sequence={name: [*answers, *mixed] * 20})
    gateway.world.clear_records()
    statuses: set[object] = set()
    deadline = time.monotonic() + FLIPS_S
    while time.monotonic() < deadline:
        asked = [
            gateway.client.start(
                "http", {"method": "GET", "url": f"{scheme}://{name}/", "via": via}
            )
            for scheme, via in (("http", "proxy"), ("https", "connect")) * 8
        ]
        statuses |= {gateway.client.finish(number)[0]["status"] for number in asked}
    assert statuses == {200, 403}  # control: both kinds of answers were seen
    assert {connection["at"] for connection in gateway.world.connections()} <= {
        f"{good}:80",
        f"{good}:443",
    }
    assert destinations(gateway) == {good}


ANSWERS = """table inet answers {
  counter first { }
  counter second { }
  chain output {
    type filter hook output priority 0; policy accept;
    tcp dport 40001 counter name first
    tcp dport 40002 counter name second
  }
}
"""


def test_addr_5_a_false_source_is_not_answered_by_the_other_leg(gateway: Gateway):
    """A request in a stranger's name on the agent's bridge sends the stranger nothing."""
    stranger, pod = "198.51.100.10", gateway.pod
    bridge = pod.bridges[0]
    link = json.loads(host.run(["ip", "-j", "link", "show", bridge]).stdout)[0]
    listed = host.run(["docker", "inspect", pod.containers["pause"]]).stdout
    legs = json.loads(listed)[0]["NetworkSettings"]["Networks"].values()
    frame = {
        "device": bridge,
        "src_mac": link["address"],
        "next_mac": next(leg["MacAddress"] for leg in legs if leg["IPAddress"] == pod.gateway),
        "src_ip": stranger,
        "to": pod.gateway,
        "proto": "tcp",
        "port": pod.proxy_port,
    }

    enter = ["nsenter", f"--net=/proc/{pod.pid}/ns/net", "--"]
    host.run([*enter, "nft", "-f", "-"], text=ANSWERS)

    def answers() -> dict[str, int]:
        listed = host.run([*enter, "nft", "-j", "list", "counters"]).stdout
        found = [e["counter"] for e in json.loads(listed)["nftables"] if "counter" in e]
        return {counter["name"]: counter["packets"] for counter in found}

    try:
        send_frame(frame | {"src_port": 40001})
        host.run([*enter, "sysctl", "-qw", "net.ipv4.conf.all.rp_filter=0"])
        send_frame(frame | {"src_port": 40002})
        host.wait_until(
            lambda: answers()["second"] > 0,  # control: it is the setting that keeps it
            timeout_s=10,
            describe=lambda: str(answers()),
        )
        assert answers()["first"] == 0
    finally:
        host.run([*enter, "sysctl", "-qw", "net.ipv4.conf.all.rp_filter=1"])
        host.run([*enter, "nft", "delete", "table", "inet", "answers"])
