"""Sorts the frames that a device carries: shapes that a VM may send to others, and all the rest.

It runs as a program, so that it can look inside a namespace: where the frames come to that have
passed the filters of a VM's tap, or on the tap itself, where all of them still are.
"""

from __future__ import annotations

import json
import socket
import struct
import sys
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from tests import host

ETH_P_ALL = 0x0003
KEPT = 200
"""So many frames of no allowed shape are kept, each different."""
BUFFER = 8 << 20
IPV4, ARP = b"\x08\x00", b"\x08\x06"
ROUTERS = socket.inet_aton("224.0.0.22")
SOL_PACKET, PACKET_AUXDATA, VLAN_VALID = 263, 8, 1 << 4
AUXDATA = struct.Struct("IIIHHHH")
"""What the kernel tells beside a frame (struct tpacket_auxdata)."""
FRAGMENT = 0x3FFF
"""Bits of the IPv4 header that only pieces of a packet have."""


@dataclass(frozen=True, kw_only=True)
class Members:
    """Who is on the host-only bridge."""

    mac: str
    """The VM's."""
    host_mac: str
    """The bridge's own."""
    pod_mac: str
    agent: str
    gateway: str
    host: str
    proxy_port: int


@dataclass(frozen=True)
class Seen:
    """Frames since the last look."""

    allowed: dict[str, int]
    """How many of each allowed shape."""
    others: tuple[bytes, ...]
    """The rest, each different one once."""

    def has(self, mark: bytes) -> bool:
        """Whether one of the rest holds this."""
        return any(mark in frame for frame in self.others)


def _mac(text: str) -> bytes:
    return bytes.fromhex(text.replace(":", ""))


def shape_of(frame: bytes, members: Members) -> str:
    """Name of the allowed shape that a frame has; empty if it has none.

    Args:
        frame: from its hardware addresses on.
        members: of the bridge.
    """
    addresses = {_mac(members.mac): members.agent, _mac(members.host_mac): members.host,
                 _mac(members.pod_mac): members.gateway}  # fmt: skip
    sender, body = frame[6:12], frame[14:]
    address = addresses.get(sender)
    if address is None:
        return ""
    if frame[12:14] == ARP:
        true = body[8:18] == sender + socket.inet_aton(address)
        known = body[24:28] in map(socket.inet_aton, addresses.values())
        whole = body[:6] == b"\0\1\x08\0\6\4" and body[6:8] in (b"\0\1", b"\0\2")
        own = "arp" if address == members.agent else "arp of others"
        return own if true and known and whole else ""
    if frame[12:14] != IPV4:
        return ""
    if address == members.host:
        return _host_shape(body, members)
    return _ip_shape(body, members) if address == members.agent else ""


def _host_shape(body: bytes, members: Members) -> str:
    """What the host sends: to the VM it goes by every port while the bridge doesn't know which."""
    if (body[9:10], body[16:20]) == (b"\2", ROUTERS):
        return "snooping"  # of the bridge itself (RFC 4286)
    to_login = body[9:10] == b"\6" and body[16:20] == socket.inet_aton(members.agent)
    return "login" if to_login and body[22:24] == b"\0\x16" else ""


def _ip_shape(body: bytes, members: Members) -> str:
    if len(body) < 20 or body[12:16] != socket.inet_aton(members.agent):
        return ""
    if int.from_bytes(body[6:8], "big") & FRAGMENT:
        return ""
    to, protocol, segment = body[16:20], body[9], body[(body[0] & 15) * 4 :]
    source, port = (int.from_bytes(segment[at : at + 2], "big") for at in (0, 2))
    if to == socket.inet_aton(members.gateway):
        known = {(17, 53): "dns", (6, members.proxy_port): "proxy"}
        return "icmp" if protocol == 1 else known.get((protocol, port), "")
    return "ssh" if to == socket.inet_aton(members.host) and (protocol, source) == (6, 22) else ""


class Watcher:
    """Looks at a device all the time; a context manager."""

    def __init__(self, device: str, members: Members, enter: list[str]) -> None:
        """Begin.

        Args:
            device: its name.
            members: of the bridge.
            enter: words that run a program in the device's namespace.
        """
        program = ["env", f"PYTHONPATH={host.ROOT}", sys.executable, "-m", __name__, device]
        self._process = host.spawn([*enter, *program, json.dumps(asdict(members))])
        self.look()  # it answers once it watches

    def look(self) -> Seen:
        """What was seen since the last look."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(b"\n")
        self._process.stdin.flush()
        told = json.loads(self._process.stdout.readline())
        return Seen(told["allowed"], tuple(map(bytes.fromhex, told["others"])))

    def __enter__(self) -> Watcher:
        """It watches."""
        return self

    def __exit__(self, *_: object) -> None:
        """End it."""
        host.end(self._process)


def device_of(mac: str, enter: list[str]) -> str:
    """Name of the device with a hardware address, in a namespace."""
    links = json.loads(host.run([*enter, "ip", "-j", "link", "show"]).stdout)
    return next(str(link["ifname"]) for link in links if link.get("address") == mac.lower())


class _Record:
    """What a watcher's reading thread hands to the one that answers."""

    def __init__(self, members: Members) -> None:
        self._members = members
        self._lock = threading.Lock()
        self._allowed: Counter[str] = Counter()
        self._others: dict[bytes, None] = {}

    def note(self, frame: bytes) -> None:
        shape = shape_of(frame, self._members)
        with self._lock:
            if shape:
                self._allowed[shape] += 1
            elif len(self._others) < KEPT:
                self._others[frame] = None

    def take(self) -> Mapping[str, Any]:
        with self._lock:
            allowed, self._allowed = self._allowed, Counter()
            others, self._others = self._others, {}
        return {"allowed": dict(allowed), "others": [frame.hex() for frame in others]}


def _with_tag(frame: bytes, beside: list[tuple[int, int, bytes]]) -> bytes:
    """The frame as it was on the wire: the kernel takes a VLAN tag off and tells it beside."""
    for level, kind, data in beside:
        if (level, kind) == (SOL_PACKET, PACKET_AUXDATA):
            status, _, _, _, _, tag, protocol = AUXDATA.unpack(data)
            if status & VLAN_VALID:
                return frame[:12] + struct.pack("!HH", protocol, tag) + frame[12:]
    return frame


def main() -> None:
    """Watch until the input closes; each line of it asks what was seen."""
    device, text = sys.argv[1:]
    members = Members(**json.loads(text))
    sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER)
    sock.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
    sock.bind((device, 0))
    record = _Record(members)

    def read() -> None:
        while True:
            frame, beside, _, (_, _, kind, _, _) = sock.recvmsg(
                2048, socket.CMSG_SPACE(AUXDATA.size)
            )
            if kind != socket.PACKET_OUTGOING:
                record.note(_with_tag(frame, beside))

    threading.Thread(target=read, daemon=True).start()
    for _ in iter(sys.stdin.readline, ""):
        sys.stdout.write(json.dumps(record.take()) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
