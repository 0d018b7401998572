"""Packets of every kind: what the filters between agent and world have to stop.

Run as the agent, and as root in the agent's network namespace: the filters must hold either way.
"""

from __future__ import annotations

import socket
import struct
from typing import Any

NUMBERS = {"icmp": 1, "tcp": 6, "udp": 17, "gre": 47, "icmpv6": 58, "sctp": 132, "udplite": 136}
TIMEOUT_S = 2.0
ETH_P_IP = 0x0800
ETH_P_IPV6 = 0x86DD
MORE_FRAGMENTS = 0x2000


def _checksum(data: bytes) -> int:
    if len(data) % 2:
        data += b"\0"
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def _l4(action: dict[str, Any], source: bytes, destination: bytes) -> bytes:
    """A TCP SYN, a datagram or other payload with its checksum."""
    number = NUMBERS[action["proto"]]
    port, source_port = int(action.get("port") or 0), int(action.get("src_port") or 40000)
    payload = b"x" * int(action.get("payload_bytes") or 8)
    pseudo = source + destination + struct.pack("!BBH", 0, number, 0)[:2]
    if number == 6:
        body = struct.pack("!HHIIBBHHH", source_port, port, 1, 0, 0x50, 2, 1024, 0, 0)
        value = _checksum(pseudo + struct.pack("!H", len(body)) + body)
        return body[:16] + struct.pack("!H", value) + body[18:]
    if number in (17, 136):
        size = 8 + len(payload)
        body = struct.pack("!HHHH", source_port, port, size, 0) + payload
        value = _checksum(pseudo + struct.pack("!H", size) + body)
        return body[:6] + struct.pack("!H", value) + body[8:]
    if number == 1:
        body = struct.pack("!BBHHH", 8, 0, 0, 0x1234, 1) + payload
        return body[:2] + struct.pack("!H", _checksum(body)) + body[4:]
    if number == 132:
        return struct.pack("!HHII", source_port, port, 0, 0) + payload
    return struct.pack("!HH", 0, 0x0800) + payload


def send_frame(action: dict[str, Any]) -> str:
    """Send one Ethernet frame that says what the action says, true or not."""
    device = action["device"]
    payload_of = _ipv6 if ":" in action["to"] else _ipv4
    frame = (
        bytes.fromhex(action["next_mac"].replace(":", ""))
        + bytes.fromhex(action["src_mac"].replace(":", ""))
        + payload_of(action)
    )
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as sock:
        sock.bind((device, 0))
        sock.send(frame)
    return "sent"


def _ipv4(action: dict[str, Any]) -> bytes:
    source, destination = socket.inet_aton(action["src_ip"]), socket.inet_aton(action["to"])
    body = _l4(action, source, destination)
    number = NUMBERS[action["proto"]]
    ttl = int(action.get("ttl") or 64)
    more = MORE_FRAGMENTS if action.get("fragment") else 0
    head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(body), 1, more, ttl, number, 0)
    head += source + destination
    head = head[:10] + struct.pack("!H", _checksum(head)) + head[12:]
    return struct.pack("!H", ETH_P_IP) + head + body


def _ipv6(action: dict[str, Any]) -> bytes:
    source = socket.inet_pton(socket.AF_INET6, action["src_ip"])
    destination = socket.inet_pton(socket.AF_INET6, action["to"].partition("%")[0])
    body = _l4(action, source, destination)
    number = NUMBERS[action["proto"]]
    head = struct.pack("!IHBB", 6 << 28, len(body), number, 64) + source + destination
    return struct.pack("!H", ETH_P_IPV6) + head + body


def attempt(action: dict[str, Any]) -> dict[str, Any]:
    """Try to reach somebody.

    Returns: ``outcome`` is connected, answered, refused (with an error), silent or impossible.
    """
    tries = {"tcp": _tcp, "udp": _udp, "icmp": _ping}
    try:
        outcome = tries.get(action["proto"], _raw)(action)
    except TimeoutError:
        return {"outcome": "silent", "detail": f"nothing within {TIMEOUT_S} s"}
    except PermissionError as error:
        return {"outcome": "impossible", "detail": str(error)}
    except OSError as error:
        return {"outcome": "refused", "detail": str(error)}
    return {"outcome": outcome, "detail": ""}


def _family(address: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def _bind(sock: socket.socket, action: dict[str, Any]) -> None:
    if action.get("src_port") or action.get("src_ip"):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((action.get("src_ip") or "", int(action.get("src_port") or 0)))


def _target(action: dict[str, Any]) -> Any:
    address, port = action["to"], int(action.get("port") or 0)
    return socket.getaddrinfo(address, port, family=_family(address))[0][4]


def _tcp(action: dict[str, Any]) -> str:
    with socket.socket(_family(action["to"]), socket.SOCK_STREAM) as sock:
        sock.settimeout(TIMEOUT_S)
        _bind(sock, action)
        sock.connect(_target(action))
        if action.get("payload_bytes"):
            sock.sendall(b"x" * int(action["payload_bytes"]))
    return "connected"


def _udp(action: dict[str, Any]) -> str:
    with socket.socket(_family(action["to"]), socket.SOCK_DGRAM) as sock:
        sock.settimeout(TIMEOUT_S)
        _bind(sock, action)
        sock.connect(_target(action))
        sock.send(b"x" * int(action.get("payload_bytes") or 8))
        sock.recv(65535)
    return "answered"


def _ping(action: dict[str, Any]) -> str:
    """An echo request, by the socket kind that needs no privilege."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP) as sock:
        sock.settimeout(TIMEOUT_S)
        head = struct.pack("!BBHHH", 8, 0, 0, 0, 1)
        sock.sendto(head + b"x" * int(action.get("payload_bytes") or 16), (action["to"], 0))
        answer = sock.recv(65535)
    if answer[0] != 0:
        raise OSError(f"ICMP type {answer[0]}")
    return "connected"


def _raw(action: dict[str, Any]) -> str:
    number = NUMBERS[action["proto"]]
    destination = socket.inet_aton(action["to"])
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, number) as sock:
        sock.settimeout(TIMEOUT_S)
        sock.sendto(_l4(action, bytes(4), destination), (action["to"], 0))
        sock.recv(65535)
    return "answered"
