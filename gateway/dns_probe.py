"""One DNS question by hand: enough to probe the pod's own resolvers."""

from __future__ import annotations

import secrets
import socket
import struct
from dataclasses import dataclass
from ipaddress import IPv4Address

NOERROR, NXDOMAIN = 0, 3
TIMEOUT_S = 2

_AUTHORITATIVE = 0x0400
_RECURSION_DESIRED = 0x0100
_TYPE_A, _CLASS_IN = 1, 1


@dataclass(frozen=True)
class Answer:
    """What came back."""

    rcode: int
    authoritative: bool
    """Set where the resolver answered from its own rules, without asking anybody."""
    addresses: tuple[IPv4Address, ...]


def ask(server: IPv4Address, name: str, port: int = 53) -> Answer:
    """The answer to a question for the A records of a name.

    Raises: OSError if none comes, or none that can be read.
    """
    number = secrets.randbelow(65536)
    labels = b"".join(bytes([len(label)]) + label.encode() for label in name.split("."))
    question = labels + b"\0" + struct.pack("!HH", _TYPE_A, _CLASS_IN)
    head = struct.pack("!6H", number, _RECURSION_DESIRED, 1, 0, 0, 0)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.settimeout(TIMEOUT_S)
        client.connect((str(server), port))
        client.send(head + question)
        data = client.recv(4096)
    try:
        return _read(data, number)
    except (struct.error, IndexError) as error:
        raise OSError(f"{server}: an answer that can't be read") from error


def _read(data: bytes, number: int) -> Answer:
    echoed, flags, questions, answers = struct.unpack_from("!4H", data)
    if echoed != number:
        raise OSError("an answer to another question")
    at = 12
    for _ in range(questions):
        at = _skip_name(data, at) + 4
    addresses = []
    for _ in range(answers):
        at = _skip_name(data, at)
        kind, _, _, length = struct.unpack_from("!HHIH", data, at)
        at += 10
        if kind == _TYPE_A and length == 4:
            addresses.append(IPv4Address(data[at : at + 4]))
        at += length
    return Answer(flags & 15, bool(flags & _AUTHORITATIVE), tuple(addresses))


def _skip_name(data: bytes, at: int) -> int:
    while data[at]:
        if data[at] >= 0xC0:
            return at + 2
        at += 1 + data[at]
    return at + 1
