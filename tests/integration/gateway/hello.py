"""ClientHello messages as bytes (RFC 8446), for what Python's TLS doesn't send, and the answers."""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass, field

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from tests.cases.probe.http import FAILURES, Conversation

TLS_1_0, TLS_1_1, TLS_1_2, TLS_1_3 = 0x0301, 0x0302, 0x0303, 0x0304
GREASE = 0x5A5A
"""One of the values that clients send so that servers stay tolerant (RFC 8701)."""

SERVER_NAME, GROUPS, SIGNATURES, ALPN, PADDING = 0, 10, 13, 16, 21
EARLY_DATA, VERSIONS, PSK_MODES, KEY_SHARE = 42, 43, 45, 51
ENCRYPTED_HELLO = 0xFE0D

_SUITES = (0x1301, 0x1302, 0x1303, 0xC02B, 0xC02C, 0xCCA9, 0xC009, 0xC00A)
_ALERT, _HANDSHAKE = 21, 22
_SERVER_HELLO = 2


def _short(data: bytes) -> bytes:
    return struct.pack("!H", len(data)) + data


def _numbers(values: tuple[int, ...]) -> bytes:
    return b"".join(struct.pack("!H", value) for value in values)


def server_name(*names: bytes) -> bytes:
    """The body of the extension for one name, or for several, which nobody may send."""
    return _short(b"".join(b"\0" + _short(name) for name in names))


@dataclass
class Hello:
    """A ClientHello; what isn't said is as common clients have it."""

    name: bytes | None = b"allowed.test"
    newest: int = TLS_1_3
    grease: bool = False
    replaced: dict[int, bytes] = field(default_factory=dict)
    """Extensions by type; they take the place of the usual ones or follow them."""
    repeated: tuple[int, ...] = ()
    """Extensions that stand there twice."""

    def message(self) -> bytes:
        """The handshake message in one record."""
        body = struct.pack("!H", min(self.newest, TLS_1_2)) + os.urandom(32)
        body += b"\x20" + os.urandom(32)
        suites = ((GREASE,) if self.grease else ()) + _SUITES
        body += _short(_numbers(suites)) + b"\x01\x00" + _short(self._extensions())
        handshake = b"\x01" + len(body).to_bytes(3) + body
        return struct.pack("!BHH", _HANDSHAKE, TLS_1_0, len(handshake)) + handshake

    def _extensions(self) -> bytes:
        wanted = dict(self._usual())
        wanted.update(self.replaced)
        pairs = [*wanted.items(), *((kind, wanted[kind]) for kind in self.repeated)]
        return b"".join(struct.pack("!H", kind) + _short(data) for kind, data in pairs)

    def _usual(self) -> list[tuple[int, bytes]]:
        grease = (GREASE,) if self.grease else ()
        share = X25519PrivateKey.generate().public_key().public_bytes_raw()
        found = [(GREASE, b"")] if self.grease else []
        if self.name is not None:
            found.append((SERVER_NAME, server_name(self.name)))
        found.append((GROUPS, _short(_numbers((*grease, 0x001D, 0x0017)))))
        found.append((11, b"\x01\x00"))
        found.append((SIGNATURES, _short(_numbers((0x0403, 0x0804, 0x0401, 0x0203, 0x0201)))))
        if self.newest == TLS_1_3:
            versions = _numbers((*grease, TLS_1_3, TLS_1_2))
            shares = (_numbers(grease) + _short(b"\0") if grease else b"") + b"\x00\x1d"
            found.append((VERSIONS, bytes([len(versions)]) + versions))
            found.append((PSK_MODES, b"\x01\x01"))
            found.append((KEY_SHARE, _short(shares + _short(share))))
        return found


@dataclass
class Answer:
    """What the server said first."""

    accepted: bool = False
    """A ServerHello came."""
    alert: int | None = None
    extensions: set[int] = field(default_factory=set)


def answer_to(opened: Conversation, data: bytes, *, timeout_s: float = 20) -> Answer:
    """Send bytes in a tunnel; the first message that comes back in time."""
    answer = Answer()
    try:
        opened.stream.send(data)
        while not _whole(opened.buffer.data):
            if not opened.buffer.fill(timeout_s):
                return answer
        kind, body = opened.buffer.data[0], opened.buffer.data[5:]
    except FAILURES:
        return answer
    finally:
        opened.stream.close()
    if kind == _ALERT:
        answer.alert = body[1]
    elif kind == _HANDSHAKE and body[0] == _SERVER_HELLO:
        answer.accepted = True
        answer.extensions = _extensions_of(body)
    return answer


def _whole(data: bytes) -> bool:
    """Whether the bytes hold one record, or more."""
    return len(data) > 5 and len(data) >= 5 + int.from_bytes(data[3:5])


def _extensions_of(hello: bytes) -> set[int]:
    at = 4 + 2 + 32
    at += 1 + hello[at] + 2 + 1
    end = at + 2 + int.from_bytes(hello[at : at + 2])
    at += 2
    found = set()
    while at < end:
        kind, length = struct.unpack("!HH", hello[at : at + 4])
        found.add(kind)
        at += 4 + length
    return found
