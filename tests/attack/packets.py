"""Ethernet frames written by hand: spoofed, cut in fragments, of any protocol and family."""

from __future__ import annotations

import socket
import struct
from random import Random

from tests.attack.plan import Plan

PROTOCOLS = (1, 2, 4, 6, 6, 6, 17, 17, 17, 41, 47, 50, 58, 89, 103, 112, 132, 136, 255)
PORTS = (22, 53, 67, 68, 80, 123, 443, 500, 853, 1900, 4789, 5353, 8080, 9901, 15000)
BROADCAST = b"\xff" * 6
IPV4, ARP, IPV6, VLAN, QINQ, LLDP = 0x0800, 0x0806, 0x86DD, 0x8100, 0x88A8, 0x88CC


def _bytes(random: Random, size: int) -> bytes:
    return bytes(random.randrange(256) for _ in range(size))


def _checksum(data: bytes) -> int:
    padded = data + b"\0" * (len(data) % 2)
    total: int = sum(struct.unpack(f"!{len(padded) // 2}H", padded))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def _mac(text: str) -> bytes:
    return bytes.fromhex(text.replace(":", ""))


def _port(random: Random, plan: Plan) -> int:
    return random.choice((random.choice(PORTS), plan.proxy_port, random.randrange(65536)))


def _segment(random: Random, plan: Plan, protocol: int, ends: bytes) -> bytes:
    """What comes after the IP header, with a right checksum where there is one.

    Args:
        random: decides.
        plan: what is known.
        protocol: its number.
        ends: source and destination, for the checksum.
    """

    def checked(data: bytes, at: int) -> bytes:
        pseudo = ends + struct.pack("!BBH", 0, protocol, len(data))
        return data[:at] + struct.pack("!H", _checksum(pseudo + data)) + data[at + 2 :]

    source, port = random.randrange(65536), _port(random, plan)
    if protocol == 6:
        numbers = random.randrange(2**32), random.randrange(2**32)
        flags = random.choice((2, 2, 2, 0x10, 0x18, 4, 1, 0x12, 0, 0x29, 0xFF))
        head = struct.pack("!HHIIBB", source, port, *numbers, 0x50, flags)
        data = head + struct.pack("!HHH", 1024, 0, 0) + _bytes(random, random.choice((0, 0, 20)))
        return checked(data, 16)
    if protocol in (17, 136):
        payload = _bytes(random, random.choice((0, 8, 40, 600)))
        data = struct.pack("!HHHH", source, port, 8 + len(payload), 0) + payload
        return checked(data, 6)
    if protocol == 1:
        kind = random.choice((8, 0, 3, 4, 5, 9, 10, 11, 13, 17, random.randrange(256)))
        data = struct.pack("!BBHHH", kind, random.randrange(16), 0, 1, 1) + _bytes(random, 24)
        return data[:2] + struct.pack("!H", _checksum(data)) + data[4:]
    return _bytes(random, random.choice((4, 8, 40)))


def _source(random: Random, plan: Plan) -> bytes:
    """Its own address mostly, else somebody else's."""
    others = [a for a in plan.addresses if ":" not in a]
    if random.random() < 0.5:
        return socket.inet_aton(plan.agent)
    return socket.inet_aton(random.choice((*others, plan.gateway, "127.0.0.1", "0.0.0.0")))


def _destination(random: Random, plan: Plan) -> bytes:
    others = [a for a in plan.addresses if ":" not in a]
    kind = random.randrange(5)
    if kind == 0:
        return _bytes(random, 4)
    if kind == 1:
        return socket.inet_aton(random.choice((plan.gateway, "255.255.255.255", "224.0.0.251")))
    return socket.inet_aton(random.choice(others))


def _ipv4(random: Random, plan: Plan) -> bytes:
    source, destination = _source(random, plan), _destination(random, plan)
    protocol = random.choice(PROTOCOLS)
    body = _segment(random, plan, protocol, source + destination)
    options = random.choice((b"", b"", b"", b"\x83\x07\x04" + destination + b"\0", b"\x94\x04\0\0"))
    fragment = random.choice((0, 0, 0, 0x2000, 1, 0x2001, 0x4000, random.randrange(65536)))
    length = 20 + len(options) + len(body)
    first = 0x40 | (5 + len(options) // 4)
    head = struct.pack("!BBHHHBBH", first, random.randrange(256), length, random.randrange(65536),
                       fragment, random.choice((1, 64, 255)), protocol, 0)  # fmt: skip
    head += source + destination + options
    return head[:10] + struct.pack("!H", _checksum(head)) + head[12:] + body


def _ipv6(random: Random, plan: Plan) -> bytes:
    others = [a for a in plan.addresses if ":" in a] or ["ff02::1"]
    source = random.choice(("fe80::1", "::1", "2001:db8::1", *others))
    destination = random.choice(("ff02::1", "ff02::2", "ff02::1:2", *others))
    body = _bytes(random, random.choice((8, 24, 40)))
    head = struct.pack("!IHBB", 6 << 28, len(body), random.choice((0, 6, 17, 43, 44, 58, 60)), 255)
    return (
        head
        + socket.inet_pton(socket.AF_INET6, source)
        + socket.inet_pton(socket.AF_INET6, destination)
        + body
    )


def _arp(random: Random, plan: Plan) -> bytes:
    """About addresses of nobody on the bridge: lies about its members would only hurt the agent."""
    head = struct.pack("!HHBBH", 1, IPV4, 6, 4, random.choice((1, 2)))
    claimed = socket.inet_aton(random.choice([a for a in plan.addresses if ":" not in a]))
    return head + _bytes(random, 6) + claimed + _bytes(random, 6) + _bytes(random, 4)


def frame(random: Random, plan: Plan) -> bytes:
    """One frame, from a made-up hardware address half of the time."""
    makers = {IPV4: _ipv4, IPV6: _ipv6, ARP: _arp}
    kind = random.choice((*[IPV4] * 6, IPV6, ARP, LLDP, random.randrange(1536, 65536)))
    maker = makers.get(kind)
    payload = maker(random, plan) if maker else _bytes(random, 46)
    nobody = b"\x02" + _bytes(random, 5)
    to = random.choice((_mac(plan.next_mac), _mac(plan.next_mac), BROADCAST, nobody))
    sender = random.choice((_mac(plan.mac), b"\x02" + _bytes(random, 5)))
    return to + sender + _tags(random) + struct.pack("!H", kind) + payload


def _tags(random: Random) -> bytes:
    """None mostly; a tag of network 0 is taken off again by whoever gets the frame."""
    count = random.choice((0, 0, 0, 0, 0, 0, 0, 1, 1, 2))
    numbers = [random.choice((0, 0, random.randrange(4096))) for _ in range(count)]
    return b"".join(struct.pack("!HH", random.choice((VLAN, QINQ)), n) for n in numbers)
