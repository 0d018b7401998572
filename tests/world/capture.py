"""Packets that a network namespace saw: first packets of every flow, read from the wire."""

from __future__ import annotations

import ctypes
import ipaddress
import select
import socket
import struct
import threading
from dataclasses import asdict, dataclass
from typing import Any

ETH_P_ALL = 0x0003
SO_ATTACH_FILTER = 26
MOST_PACKETS = 200_000
"""More than this is not kept: a test is bounded, and so is its record."""

# Classic BPF: IPv6 entirely; of IPv4 everything but TCP segments that are not a first SYN.
_FILTER = (
    (0x28, 0, 0, 12),  # ldh [12]            EtherType
    (0x15, 7, 0, 0x86DD),  # IPv6            -> accept
    (0x15, 0, 7, 0x0800),  # not IPv4        -> drop
    (0x30, 0, 0, 23),  # ldb [23]            protocol
    (0x15, 0, 4, 6),  # not TCP              -> accept
    (0xB1, 0, 0, 14),  # ldxb 4*([14]&0xf)   length of the IPv4 header
    (0x50, 0, 0, 27),  # ldb [x + 27]        TCP flags
    (0x54, 0, 0, 0x12),  # SYN | ACK
    (0x15, 0, 1, 0x02),  # anything but SYN alone -> drop
    (0x06, 0, 0, 0xFFFF),  # accept
    (0x06, 0, 0, 0),  # drop
)

PROTOCOLS = {1: "icmp", 6: "tcp", 17: "udp", 47: "gre", 58: "icmpv6", 132: "sctp", 136: "udplite"}
NEIGHBOURHOOD = frozenset(bytes([kind]) for kind in (130, 131, 132, 133, 134, 135, 136, 137, 143))
"""ICMPv6 types by which neighbours find each other: nobody sent them on purpose."""
WITH_PORTS = frozenset({6, 17, 132, 136})


@dataclass(frozen=True)
class Packet:
    """One packet: where it was seen, and from where to where it went."""

    interface: str
    outgoing: bool
    proto: str
    source: str
    destination: str
    source_port: int
    port: int
    length: int
    question: str = ""
    """Payload of a DNS question in hex; empty for everything else."""

    def to_document(self) -> dict[str, Any]:
        """The packet as JSON can carry it."""
        return asdict(self)


def _ports(payload: bytes, number: int) -> tuple[int, int]:
    if number in WITH_PORTS and len(payload) >= 4:
        source, destination = struct.unpack("!HH", payload[:4])
        return source, destination
    return 0, 0


def parse_frame(frame: bytes, interface: str, *, outgoing: bool) -> Packet | None:
    """What an Ethernet frame carries, or None if that is neither IPv4 nor IPv6."""
    kind, body = frame[12:14], frame[14:]
    source: ipaddress.IPv4Address | ipaddress.IPv6Address
    destination: ipaddress.IPv4Address | ipaddress.IPv6Address
    if kind == b"\x08\x00" and len(body) >= 20:
        number, payload = body[9], body[(body[0] & 15) * 4 :]
        source = ipaddress.IPv4Address(body[12:16])
        destination = ipaddress.IPv4Address(body[16:20])
    elif kind == b"\x86\xdd" and len(body) >= 40:
        number, payload = body[6], body[40:]
        source = ipaddress.IPv6Address(body[8:24])
        destination = ipaddress.IPv6Address(body[24:40])
    else:
        return None
    if number == 0 or (number == 58 and payload[:1] in NEIGHBOURHOOD):
        return None
    if number == 6 and len(payload) >= 14 and payload[13] & 0x12 != 0x02:
        return None  # the filter leaves this to us for IPv6
    source_port, port = _ports(payload, number)
    question = payload[8:].hex() if number == 17 and port == 53 else ""
    return Packet(
        interface=interface,
        outgoing=outgoing,
        proto=PROTOCOLS.get(number, str(number)),
        source=str(source),
        destination=str(destination),
        source_port=source_port,
        port=port,
        length=len(frame),
        question=question,
    )


def _attach_filter(sock: socket.socket) -> None:
    program = b"".join(struct.pack("HBBI", *step) for step in _FILTER)
    buffer = ctypes.create_string_buffer(program)
    sock.setsockopt(
        socket.SOL_SOCKET,
        SO_ATTACH_FILTER,
        struct.pack("HL", len(_FILTER), ctypes.addressof(buffer)),
    )


class Capture:
    """Reads packets of the namespace that it was made in, in a thread of its own."""

    def __init__(self, interface: str = "") -> None:
        # Without an interface to bind to, the protocol given here stands for all of them.
        protocol = 0 if interface else socket.htons(ETH_P_ALL)
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, protocol)
        _attach_filter(self._socket)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
        if interface:
            self._socket.bind((interface, ETH_P_ALL))
        self._socket.setblocking(False)
        self._packets: list[Packet] = []
        self._lock = threading.Lock()
        threading.Thread(target=self._read, name="capture", daemon=True).start()

    def _read(self) -> None:
        while True:
            try:
                select.select([self._socket], [], [])
                with self._lock:
                    self._take()
            except (OSError, ValueError):
                return  # closed

    def _take(self) -> None:
        """Keep all that waits in the socket."""
        while True:
            try:
                frame, (interface, _, kind, _, _) = self._socket.recvfrom(256)
            except BlockingIOError:
                return
            packet = parse_frame(frame, interface, outgoing=kind == socket.PACKET_OUTGOING)
            if packet is not None and len(self._packets) < MOST_PACKETS:
                self._packets.append(packet)

    def packets(self) -> list[Packet]:
        """All packets since the last `clear` that had come when this was asked, in their order."""
        with self._lock:
            self._take()
            return list(self._packets)

    def clear(self) -> None:
        """Forget what was seen."""
        with self._lock:
            self._take()
            self._packets.clear()

    def close(self) -> None:
        """Stop reading."""
        self._socket.close()
