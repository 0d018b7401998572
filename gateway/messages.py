"""The few messages of Envoy's secret discovery service, in protobuf's wire format.

Two messages are read and one is written, so the encoding stands here in full instead of generated
classes that would take tens of megabytes of memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

SECRET_TYPE = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret"  # noqa: S105

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


@dataclass(frozen=True, kw_only=True)
class SecretRequest:
    """What Envoy asks for: a ``DeltaDiscoveryRequest``."""

    subscribe: tuple[str, ...] = ()
    unsubscribe: tuple[str, ...] = ()
    rejected: str = ""
    """Why Envoy refused the last answer; empty if it didn't."""


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """A leaf certificate with its chain and key, both PEM."""

    chain: bytes
    key: bytes


def parse_request(data: bytes) -> SecretRequest:
    """The parts of a ``DeltaDiscoveryRequest`` that matter.

    Raises: ValueError if the bytes are no message.
    """
    subscribe: list[str] = []
    unsubscribe: list[str] = []
    rejected = ""
    for number, value in _fields(data):
        if number == 3:
            subscribe.append(value.decode())
        elif number == 4:
            unsubscribe.append(value.decode())
        elif number == 7:
            rejected = next((text.decode() for n, text in _fields(value) if n == 2), "unknown")
    return SecretRequest(
        subscribe=tuple(subscribe), unsubscribe=tuple(unsubscribe), rejected=rejected
    )


@dataclass(frozen=True, repr=False)
class Value:
    """A value that is no certificate."""

    text: bytes


def render_response(
    secrets: Iterable[tuple[str, str, Certificate | Value]], refused: Sequence[str], nonce: str
) -> bytes:
    """A ``DeltaDiscoveryResponse``.

    Args:
        secrets: name, version and content of every secret that is handed over.
        refused: names for which there is none.
        nonce: number of the answer on its stream.
    """
    parts = [_field(2, _resource(*item)) for item in secrets]
    parts.append(_field(4, SECRET_TYPE.encode()))
    parts.append(_field(5, nonce.encode()))
    parts += [_field(6, name.encode()) for name in refused]
    return b"".join(parts)


def _resource(name: str, version: str, content: Certificate | Value) -> bytes:
    secret = _field(1, name.encode()) + _content(content)
    wrapped = _field(1, SECRET_TYPE.encode()) + _field(2, secret)
    return _field(1, version.encode()) + _field(2, wrapped) + _field(3, name.encode())


def _content(content: Certificate | Value) -> bytes:
    if isinstance(content, Value):
        return _field(5, _field(1, _inline(content.text)))
    return _field(2, _field(1, _inline(content.chain)) + _field(2, _inline(content.key)))


def _inline(data: bytes) -> bytes:
    return _field(2, data)


def _field(number: int, value: bytes) -> bytes:
    return _varint(number << 3 | _BYTES) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _fields(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Number and value of every length-delimited field; the others are skipped."""
    at = 0
    while at < len(data):
        tag, at = _read_varint(data, at)
        kind = tag & 7
        if kind == _VARINT:
            _, at = _read_varint(data, at)
        elif kind == _BYTES:
            length, at = _read_varint(data, at)
            if at + length > len(data):
                raise ValueError("a field is longer than its message")
            yield tag >> 3, data[at : at + length]
            at += length
        elif kind in (_FIXED64, _FIXED32):
            at += 8 if kind == _FIXED64 else 4
        else:
            raise ValueError(f"unknown wire type {kind}")


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise ValueError("a number has no end")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at
