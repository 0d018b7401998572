"""HTTP/1.1 as bytes: a client that sends what it is told, and a reader that accepts one reading."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field

from tests.cases.probe.http import FAILURES, Conversation

FIRST_BYTE_S = 1.5
"""So long without any answer: the message has no end, for one of the readers at least."""
QUIET_S = 0.25
"""So long without a further byte after an answer: there is no second one."""

_TOKEN = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_LINE = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+) ([!-~]+) (HTTP/1\.1)")
_VALUE = re.compile(rb"(?:[!-~\x80-\xff](?:[ \t!-~\x80-\xff]*[!-~\x80-\xff])?)?")
_SIZE = re.compile(rb"[0-9a-fA-F]{1,8}")
_LENGTH = re.compile(rb"[0-9]{1,12}")


@dataclass
class Heard:
    """What came back on a connection."""

    data: bytes = b""
    closed: bool = False

    @property
    def statuses(self) -> list[int]:
        """Codes of the final answers, in their order."""
        found = re.findall(rb"HTTP/1\.[01] ([0-9]{3}) ", self.data)
        return [int(code) for code in found if not code.startswith(b"1") or code == b"101"]


def exchange(
    conversation: Conversation, data: bytes, *, first_byte_s: float = FIRST_BYTE_S
) -> Heard:
    """Send bytes, listen until it is quiet, close."""
    heard = Heard(conversation.buffer.data)
    try:
        conversation.stream.send(data)
        deadline = time.monotonic() + first_byte_s
        while not heard.closed and time.monotonic() < deadline:
            piece = conversation.stream.recv(deadline - time.monotonic())
            heard.closed = not piece
            heard.data += piece
            deadline = time.monotonic() + QUIET_S
    except TimeoutError:
        pass
    except FAILURES:
        heard.closed = True
    finally:
        conversation.stream.close()
    return heard


@dataclass
class Message:
    """One request as bytes that have one reading only."""

    method: str
    target: str
    host: str
    length: int = 0
    complete: bool = True
    fields: dict[str, str] = field(default_factory=dict)
    trailers: list[str] = field(default_factory=list)


class AmbiguousError(Exception):
    """Bytes that two readers could understand differently."""


def read_strictly(data: bytes) -> list[Message]:
    """All requests of a connection; the last may be cut.

    Raises: AmbiguousError if anything in it has more than one reading (RFC 9112).
    """
    messages = []
    while data:
        head, end, rest = data.partition(b"\r\n\r\n")
        if not end:
            if b"\n" in data.replace(b"\r\n", b""):
                raise AmbiguousError(f"a line without its return: {data!r}")
            messages.append(Message("", "", "", complete=False))
            break
        message = _read_head(head)
        data = _read_body(message, rest)
        messages.append(message)
    return messages


def _read_head(head: bytes) -> Message:
    first, *lines = head.split(b"\r\n")
    line = _LINE.fullmatch(first)
    if line is None:
        raise AmbiguousError(f"request line {first!r}")
    named = _read_fields(lines)
    hosts = named.pop("host", [])
    if len(hosts) != 1:
        raise AmbiguousError(f"{len(hosts)} Host fields")
    fields = {name: ", ".join(values) for name, values in named.items()}
    for name in ("content-length", "transfer-encoding"):
        if len(named.get(name, [])) > 1:
            raise AmbiguousError(f"{name} twice")
    if {"content-length", "transfer-encoding"} <= set(fields):
        raise AmbiguousError("a length and a transfer coding")
    method, target = line[1].decode(), line[2].decode()
    return Message(method, target, hosts[0], fields=fields)


def _read_fields(lines: list[bytes]) -> dict[str, list[str]]:
    named: dict[str, list[str]] = {}
    for line in lines:
        name, colon, value = line.partition(b":")
        value = value.strip(b" \t")
        if not colon or not _TOKEN.fullmatch(name) or not _VALUE.fullmatch(value):
            raise AmbiguousError(f"field {line!r}")
        named.setdefault(name.decode().lower(), []).append(value.decode("latin-1"))
    return named


def _read_body(message: Message, data: bytes) -> bytes:
    """Take the message's body off the bytes; what is left."""
    coding = message.fields.get("transfer-encoding")
    if coding is not None:
        if coding.lower() != "chunked":
            raise AmbiguousError(f"transfer coding {coding!r}")
        return _read_chunks(message, data)
    length = message.fields.get("content-length", "0").encode()
    if not _LENGTH.fullmatch(length):
        raise AmbiguousError(f"length {length!r}")
    message.length = int(length)
    message.complete = len(data) >= message.length
    return data[message.length :]


def _read_chunks(message: Message, data: bytes) -> bytes:
    while True:
        size, end, data = data.partition(b"\r\n")
        if not end:
            message.complete = False
            return b""
        if not _SIZE.fullmatch(size):
            raise AmbiguousError(f"size of a chunk {size!r}")
        length = int(size, 16)
        if length == 0:
            return _read_trailers(message, data)
        if len(data) < length + 2:
            message.complete = False
            return b""
        if data[length : length + 2] != b"\r\n":
            raise AmbiguousError("a chunk without its end")
        message.length += length
        data = data[length + 2 :]


def _read_trailers(message: Message, data: bytes) -> bytes:
    lines: list[bytes] = []
    while True:
        line, end, data = data.partition(b"\r\n")
        if not end:
            message.complete = False
            return b""
        if not line:
            message.trailers = sorted(_read_fields(lines))
            return data
        lines.append(line)
