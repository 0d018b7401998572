"""An HTTP/1.1 server that records what arrived byte by byte and answers as it was told."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.world.folder import Response, answer_from_folder

WEBSOCKET_KEY = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
LONGEST_BODY = 1 << 30
PIECE = 1 << 16


@dataclass
class Request:
    """One request as the origin saw it."""

    at: str
    method: str
    target: str
    version: str
    headers: list[tuple[str, str]]
    body: bytes = b""
    sni: str | None = None
    tls: bool = False

    @property
    def host(self) -> str:
        """What Host or :authority said."""
        return next((v for k, v in self.headers if k.lower() in ("host", ":authority")), "")

    def to_document(self) -> dict[str, Any]:
        """The request as JSON can carry it: Latin-1 text, one character a byte."""
        return {
            "at": self.at,
            "method": self.method,
            "target": self.target,
            "version": self.version,
            "headers": [list(pair) for pair in self.headers],
            "host": self.host,
            "body": self.body.decode("latin-1"),
            "sni": self.sni,
            "tls": self.tls,
        }


@dataclass(frozen=True)
class Answer:
    """What an origin says to every request."""

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b"abxt origin\n"
    size: int | None = None
    """Length of a made-up body instead of `body`."""
    drip_s: float = 0
    """Seconds over which the body is spread."""
    raw: bytes | None = None
    """These bytes instead of an answer."""
    folder: str | None = None
    """What is below this folder instead of `body`: see `answer_from_folder`."""

    @classmethod
    def from_document(cls, document: Mapping[str, Any] | None) -> Answer:
        """An answer from the keys of `origins[].answer`."""
        given = dict(document or {})
        raw, body, size = given.pop("raw", None), given.pop("body", None), given.pop("bytes", None)
        answer = cls(
            status=int(given.pop("status", 200)),
            headers={str(k): str(v) for k, v in given.pop("headers", {}).items()},
            body=cls.body if body is None else str(body).encode("latin-1"),
            size=None if size is None else int(size),
            drip_s=float(given.pop("drip_s", 0)),
            raw=None if raw is None else str(raw).encode("latin-1"),
            folder=given.pop("folder", None),
        )
        if given:
            raise ValueError(f"unknown keys of an answer: {sorted(given)}")
        return answer

    def content(self, request: Request) -> Response:
        """Status, headers and body for a request whose target is in origin form."""
        if self.folder is not None:
            asked = {name.lower(): value for name, value in request.headers}
            status, fields, body = answer_from_folder(
                Path(self.folder), request.target, asked, request.body
            )
            return status, {**fields, **self.headers}, body
        body = self.body if self.size is None else b"x" * self.size
        return self.status, {"content-type": "text/plain", **self.headers}, body


class _BadRequestError(Exception):
    pass


async def _read_head(reader: asyncio.StreamReader) -> bytes | None:
    """The next head with its empty line; None at the end of the connection."""
    try:
        return await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as error:
        if error.partial.strip():
            raise _BadRequestError("head without end") from error
        return None
    except asyncio.LimitOverrunError as error:
        raise _BadRequestError("head too long") from error


def _parse_head(head: bytes, at: str) -> Request:
    lines = head.decode("latin-1").split("\r\n")
    parts = lines[0].split(" ", 2)
    if len(parts) != 3:
        raise _BadRequestError(f"request line {lines[0]!r}")
    headers = []
    for line in filter(None, lines[1:]):
        name, colon, value = line.partition(":")
        if not colon:
            raise _BadRequestError(f"field without a colon: {line!r}")
        headers.append((name, value.strip(" \t")))
    return Request(at, parts[0], parts[1], parts[2], headers)


async def _read_chunks(reader: asyncio.StreamReader) -> bytes:
    body = bytearray()
    while True:
        size = int((await reader.readuntil(b"\r\n")).split(b";")[0].strip(), 16)
        if size == 0:
            while (await reader.readuntil(b"\r\n")) != b"\r\n":
                pass
            return bytes(body)
        body += await reader.readexactly(size)
        await reader.readexactly(2)


async def _read_body(request: Request, reader: asyncio.StreamReader) -> bytes:
    values = {name.lower(): value for name, value in request.headers}
    if "chunked" in values.get("transfer-encoding", "").lower():
        return await _read_chunks(reader)
    size = int(values.get("content-length", "0"))
    if not 0 <= size <= LONGEST_BODY:
        raise _BadRequestError(f"Content-Length {size}")
    return await reader.readexactly(size)


async def _write_body(writer: asyncio.StreamWriter, body: bytes, drip_s: float) -> None:
    count = min(len(body), 200) if drip_s else 1
    step = max(1, -(-len(body) // max(count, 1)))
    for start in range(0, len(body), step):
        if drip_s:
            await asyncio.sleep(drip_s / count)
        for piece in range(start, min(start + step, len(body)), PIECE):
            writer.write(body[piece : min(piece + PIECE, start + step)])
            await writer.drain()


async def _say(writer: asyncio.StreamWriter, request: Request, answer: Answer) -> None:
    status, headers, body = answer.content(request)
    headers = {k.lower(): v for k, v in headers.items()}
    headers.setdefault("content-length", str(len(body)))
    lines = [f"HTTP/1.1 {status} Test", *(f"{k}: {v}" for k, v in headers.items()), "", ""]
    writer.write("\r\n".join(lines).encode("latin-1"))
    await writer.drain()
    if request.method != "HEAD":
        await _write_body(writer, body, answer.drip_s)


async def _say_raw(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, raw: bytes) -> bool:
    """Send the bytes; whether the connection can serve another request."""
    writer.write(raw)
    await writer.drain()
    if b"content-length" in raw.lower() or b"chunked" in raw.lower():
        return True
    if raw.startswith(b"HTTP/1.1 101"):
        while await reader.read(PIECE):
            pass  # whoever switched keeps talking; we listen until he goes
    return False


def _frame_length(size: int) -> bytes:
    if size < 126:
        return bytes([size])
    return (
        b"\x7e" + struct.pack("!H", size) if size < 1 << 16 else b"\x7f" + struct.pack("!Q", size)
    )


async def _frames(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Send every WebSocket frame back until the closing one (RFC 6455 section 5)."""
    while True:
        first, second = await reader.readexactly(2)
        size = second & 0x7F
        if size == 126:
            (size,) = struct.unpack("!H", await reader.readexactly(2))
        elif size == 127:
            (size,) = struct.unpack("!Q", await reader.readexactly(8))
        mask = await reader.readexactly(4) if second & 0x80 else bytes(4)
        data = bytes(b ^ mask[i % 4] for i, b in enumerate(await reader.readexactly(size)))
        opcode = first & 0x0F
        head = bytes([first & 0xF0 | (10 if opcode == 9 else opcode)])
        length = _frame_length(size)
        writer.write(head + length + data)
        await writer.drain()
        if opcode == 8:
            return


async def _echo_websocket(
    request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    key = next((v for k, v in request.headers if k.lower() == "sec-websocket-key"), "")
    accept = base64.b64encode(
        hashlib.sha1(key.encode() + WEBSOCKET_KEY, usedforsecurity=False).digest()
    ).decode()
    writer.write(
        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        f"Sec-WebSocket-Accept: {accept}\r\n\r\n".encode()
    )
    await _frames(reader, writer)


async def serve_http1(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    *,
    at: str,
    answer: Answer,
    websocket: bool,
    record: Callable[[Request], None],
) -> None:
    """Serve one connection until the peer leaves or says something that isn't HTTP."""
    try:
        while (head := await _read_head(reader)) is not None:
            request = _parse_head(head, at)
            record(request)
            request.body = await _read_body(request, reader)
            asks = {k.lower(): v.lower() for k, v in request.headers}
            if websocket and asks.get("upgrade") == "websocket":
                await _echo_websocket(request, reader, writer)
                return
            if answer.raw is not None:
                if not await _say_raw(reader, writer, answer.raw):
                    return
            else:
                await _say(writer, request, answer)
            if "close" in asks.get("connection", "") or request.version == "HTTP/1.0":
                return
    except (_BadRequestError, ValueError):
        writer.write(b"HTTP/1.1 400 Bad\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError):
        return
