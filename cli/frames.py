"""Ethernet frames as the root of a VM can make them: true ones, and every kind of false one.

Pure: addresses in, bytes out. `abox check` sends them from inside and looks who sees them outside.
Every frame carries a mark by which a watcher knows it.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Mapping
from ipaddress import IPv4Address

NOBODY = str(IPv4Address(0))
BROADCAST = "ff:ff:ff:ff:ff:ff"
STRANGER, STRANGER_ADDRESS = "52:54:00:99:99:99", "10.10.1.77"
MARK = 12
"""Bytes of a mark."""


def _mac(text: str) -> bytes:
    return bytes.fromhex(text.replace(":", ""))


def checksum(data: bytes) -> int:
    """The checksum of the Internet (RFC 1071) of an even number of bytes."""
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def ethernet(source: str, to: str, kind: int, body: bytes) -> bytes:
    """A frame, padded to the least length that a cable carries."""
    return (_mac(to) + _mac(source) + struct.pack("!H", kind) + body).ljust(60, b"\0")


def ipv4(source: str, to: str, protocol: int, body: bytes, fragment: int = 0) -> bytes:
    """An IPv4 packet; `fragment` is the field of flags and offset."""
    head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(body), 7, fragment, 64, protocol, 0)
    head += socket.inet_aton(source) + socket.inet_aton(to)
    return head[:10] + struct.pack("!H", checksum(head)) + head[12:] + body


def udp(source_port: int, port: int, body: bytes) -> bytes:
    """A UDP datagram without a checksum, as IPv4 allows."""
    return struct.pack("!HHHH", source_port, port, 8 + len(body), 0) + body


def tcp(source: str, to: str, ports: tuple[int, int], flags: int, body: bytes = b"") -> bytes:
    """A TCP segment."""
    head = struct.pack("!HHIIBBHHH", *ports, 1, 1, 0x50, flags, 1024, 0, 0)
    pseudo = socket.inet_aton(source) + socket.inet_aton(to) + struct.pack("!HH", 6, 20 + len(body))
    whole = pseudo + head + body + b"\0" * (len(body) % 2)
    return head[:16] + struct.pack("!H", checksum(whole)) + head[18:] + body


def arp(operation: int, mac: str, address: str, to: str) -> bytes:
    """An ARP message of a sender about itself."""
    head = struct.pack("!HHBBH", 1, 0x0800, 6, 4, operation)
    return head + _mac(mac) + socket.inet_aton(address) + b"\0" * 6 + socket.inet_aton(to)


class Maker:
    """Makes frames for one sandbox."""

    def __init__(self, mac: str, agent: str, gateway: str, host: str, gateway_mac: str) -> None:
        self.mac, self.agent, self.gateway, self.host = mac, agent, gateway, host
        self.gateway_mac = gateway_mac

    def names(self, mark: bytes, *, mac: str = "", source: str = "", to: str = "") -> bytes:
        """A question for the name service, with whatever addresses."""
        body = ipv4(source or self.agent, self.gateway, 17, udp(4000, 53, mark))
        return ethernet(mac or self.mac, to or self.gateway_mac, 0x0800, body)

    def says(
        self, mark: bytes, operation: int, mac: str, address: str, *, frame: str = ""
    ) -> bytes:
        """An ARP message."""
        body = arp(operation, mac, address, self.gateway) + mark
        return ethernet(frame or self.mac, BROADCAST, 0x0806, body)

    def packet(self, mark: bytes, protocol: int, to: str, body: bytes = b"") -> bytes:
        """An IPv4 packet to anywhere, broadcast so that everybody sees it."""
        return ethernet(self.mac, BROADCAST, 0x0800, ipv4(self.agent, to, protocol, body + mark))


Frame = Callable[[Maker, bytes], bytes]

HONEST: Mapping[str, Frame] = {
    "names": lambda m, mark: m.names(mark),
    "arp": lambda m, mark: m.says(mark, 1, m.mac, m.agent),
}
"""What must pass: the control."""

_DHCP = udp(68, 67, b"\x01\x01\x06\x00")

ATTACKS: Mapping[str, Frame] = {
    "another-mac": lambda m, mark: m.names(mark, mac=STRANGER),
    "mac-of-the-gateway": lambda m, mark: m.names(mark, mac=m.gateway_mac, to=BROADCAST),
    "another-address": lambda m, mark: m.names(mark, source=STRANGER_ADDRESS),
    "address-of-the-host": lambda m, mark: m.names(mark, source=m.host),
    "address-of-the-gateway": lambda m, mark: m.names(mark, source=m.gateway),
    "no-address": lambda m, mark: m.names(mark, source=NOBODY),
    "arp-claims-the-gateway": lambda m, mark: m.says(mark, 2, m.mac, m.gateway),
    "arp-claims-the-host": lambda m, mark: m.says(mark, 2, m.mac, m.host),
    "arp-asks-as-another": lambda m, mark: m.says(mark, 1, m.mac, STRANGER_ADDRESS),
    "arp-with-another-mac-inside": lambda m, mark: m.says(mark, 2, STRANGER, m.agent),
    "arp-in-a-frame-of-another": lambda m, mark: m.says(mark, 1, m.mac, m.agent, frame=STRANGER),
    "reverse-arp": lambda m, mark: ethernet(
        m.mac, BROADCAST, 0x8035, arp(3, m.mac, m.agent, m.gateway) + mark
    ),
    "dhcp-discover": lambda m, mark: ethernet(
        m.mac, BROADCAST, 0x0800, ipv4(NOBODY, "255.255.255.255", 17, _DHCP + mark)
    ),
    "dhcp-to-the-gateway": lambda m, mark: m.packet(mark, 17, m.gateway, _DHCP),
    "dhcp-to-the-host": lambda m, mark: m.packet(mark, 17, m.host, _DHCP),
    "ipv6-router-solicitation": lambda m, mark: ethernet(
        m.mac,
        "33:33:00:00:00:02",
        0x86DD,
        struct.pack("!IHBB", 6 << 28, 8 + MARK, 58, 255)
        + socket.inet_pton(socket.AF_INET6, "fe80::1")
        + socket.inet_pton(socket.AF_INET6, "ff02::2")
        + b"\x85\0\0\0\0\0\0\0"
        + mark,
    ),
    "vlan-tag": lambda m, mark: m.names(mark)[:12] + b"\x81\x00\x00\x07" + m.names(mark)[12:],
    "spanning-tree": lambda m, mark: ethernet(
        m.mac, "01:80:c2:00:00:00", 38, b"\x42\x42\x03" + mark
    ),
    "unknown-kind": lambda m, mark: ethernet(m.mac, BROADCAST, 0x88B5, mark),
    "multicast": lambda m, mark: m.packet(mark, 17, "224.0.0.251", udp(5353, 5353, b"")),
    "igmp": lambda m, mark: m.packet(mark, 2, "224.0.0.22", b"\x22\0\0\0"),
    "limited-broadcast": lambda m, mark: m.packet(mark, 17, "255.255.255.255", udp(9, 53, b"")),
    "ip-in-ip": lambda m, mark: m.packet(mark, 4, m.gateway, ipv4(m.agent, m.gateway, 17, b"")),
    "fragment-without-ports": lambda m, mark: ethernet(
        m.mac, m.gateway_mac, 0x0800, ipv4(m.agent, m.gateway, 17, mark, fragment=1)
    ),
    "middle-of-a-connection": lambda m, mark: ethernet(
        m.mac,
        m.gateway_mac,
        0x0800,
        ipv4(m.agent, m.gateway, 6, tcp(m.agent, m.gateway, (4000, 22), 0x10, mark)),
    ),
    "answer-of-no-conversation": lambda m, mark: ethernet(
        m.mac,
        m.gateway_mac,
        0x0800,
        ipv4(m.agent, m.gateway, 6, tcp(m.agent, m.gateway, (22, 4000), 0x12, mark)),
    ),
}
"""What must not: named by what is false about it."""


def mark_of(name: str) -> bytes:
    """A frame's mark, which no other frame holds."""
    return name.encode()[: MARK - 2].rjust(MARK - 1, b"#") + bytes(
        [checksum(name.encode().ljust(64)) & 255]
    )
