"""Origins of the test world: listeners that record who came, and answer as they were told."""

from __future__ import annotations

import asyncio
import functools
import ipaddress
import socket
import ssl
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from tests.world.certificates import Authority, KeyPair
from tests.world.http1 import PIECE, Answer, Request, serve_http1
from tests.world.http2 import Http2Origin

DEVICE = "leg"
"""The world's end of the cable, as the namespace calls it."""
IP_FREEBIND = 15
IPV6_FREEBIND = 78
KINDS = frozenset({"http", "https", "tcp", "udp", "websocket-echo", "relay"})
"""What origins speak; a relay records the bytes and hands them to a server of the namespace."""
FIRST_BYTE_S = 120
"""How long an origin waits for the first byte of a connection."""
CLOSING_S = 10
"""How long the last bytes of a connection may take."""
KEPT_BYTES = 1 << 16
"""Of what arrives at a tcp origin, so much is kept for a look; all of it is counted."""


@dataclass
class Connection:
    """One connection, or one peer's datagrams, at an origin."""

    at: str
    peer: str
    received: int = 0
    data: str = ""
    tls: bool = False
    plaintext: bool = False
    sni: str | None = None
    alpn: str | None = None
    failure: str = ""
    era: int = 0
    """How often the book had been cleared when this was noted."""

    def to_document(self) -> dict[str, Any]:
        """The connection as JSON can carry it."""
        return asdict(self)

    def take(self, data: bytes) -> None:
        """Count bytes that arrived in the clear."""
        if len(self.data) < KEPT_BYTES:
            self.data += data.decode("latin-1")
        self.received += len(data)


@dataclass
class Book:
    """What the origins of one namespace saw."""

    connections: list[Connection] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)
    server_names: list[str | None] = field(default_factory=list)
    """SNI of every ClientHello, also of handshakes that failed."""
    cleared: int = 0
    """How often it was cleared."""

    def clear(self) -> None:
        """Forget it."""
        self.cleared += 1
        self.connections.clear()
        self.requests.clear()
        self.server_names.clear()


@dataclass(frozen=True)
class Spec:
    """An origin as a case or a test asks for it."""

    host: str
    port: int
    speaks: str
    cert_names: tuple[str, ...]
    issuer: str
    expired: bool
    secure: bool
    alpn: tuple[str, ...]
    answer: Answer
    to: tuple[str, int] | None = None
    """Where a relay leads."""

    @property
    def at(self) -> str:
        """Address and port as the records name them."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @classmethod
    def from_document(
        cls, document: Mapping[str, Any], names_of: Callable[[str], Sequence[str]]
    ) -> Spec:
        """Read the keys `at`, `speaks`, `cert`, `answer` (and `alpn`, and `to` of a relay).

        Args:
            document: the origin; unknown keys are errors.
            names_of: the names that resolve to an address, for a certificate that isn't named.
        """
        given = dict(document)
        host, _, port = str(given.pop("at")).rpartition(":")
        host = str(ipaddress.ip_address(host.strip("[]")))
        speaks, cert = str(given.pop("speaks")), given.pop("cert", None)
        answer = Answer.from_document(given.pop("answer", None))
        alpn = tuple(given.pop("alpn", ("h2", "http/1.1")))
        leads_to = str(given.pop("to", "")).rpartition(":")
        details = dict(cert or {})
        names = tuple(details.pop("names", ())) or tuple(names_of(host)) or (host,)
        spec = cls(
            host=host,
            port=int(port),
            speaks=speaks,
            cert_names=names,
            issuer=str(details.pop("issuer", "test")),
            expired=bool(details.pop("expired", False)),
            secure=speaks == "https" or cert is not None,
            alpn=("http/1.1",) if speaks == "websocket-echo" else alpn,
            answer=answer,
            to=(leads_to[0], int(leads_to[2])) if leads_to[2] else None,
        )
        if (
            given
            or details
            or speaks not in KINDS
            or (speaks == "relay") is (spec.to is None)
            or spec.issuer not in ("test", "self", "unknown")
        ):
            raise ValueError(f"an origin that nobody can build: {dict(document)}")
        return spec


class Origins:
    """All origins of the namespace that this process is in."""

    def __init__(self, authority: Authority) -> None:
        self.book = Book()
        self._authority = authority
        self._unknown = Authority("abxt unknown authority")
        self._listeners: list[socket.socket] = []
        self._tasks: list[asyncio.Task[None]] = []

    async def add(self, spec: Spec) -> None:
        """Listen.

        Raises: OSError if the namespace doesn't let us, for example without IPv6.
        """
        listener = _bind(spec)
        self._listeners.append(listener)
        context = self._context(spec) if spec.secure else None
        loop = asyncio.get_running_loop()
        work = (
            self._datagrams(listener, spec)
            if spec.speaks == "udp"
            else self._accept(listener, spec, context)
        )
        self._tasks.append(loop.create_task(work))

    async def clear(self) -> None:
        """Close every listener and connection, forget what was seen."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()
        for listener in self._listeners:
            listener.close()
        self._listeners.clear()
        self.book.clear()

    def _context(self, spec: Spec) -> ssl.SSLContext:
        signer = self._unknown if spec.issuer == "unknown" else self._authority
        context = _context_of(
            signer.leaf(spec.cert_names, expired=spec.expired, self_signed=spec.issuer == "self")
        )
        context.set_alpn_protocols(list(spec.alpn))

        def note(handshake: Any, name: str | None, _context: ssl.SSLContext) -> None:
            handshake.abxt_sni = name
            self.book.server_names.append(name)

        context.sni_callback = note
        return context

    async def _accept(
        self, listener: socket.socket, spec: Spec, context: ssl.SSLContext | None
    ) -> None:
        loop = asyncio.get_running_loop()
        async with asyncio.TaskGroup() as tasks:
            while True:
                sock, peer = await loop.sock_accept(listener)
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                connection = Connection(spec.at, str(peer[0]), era=self.book.cleared)
                self.book.connections.append(connection)
                tasks.create_task(self._serve(sock, spec, context, connection))

    async def _serve(
        self,
        sock: socket.socket,
        spec: Spec,
        context: ssl.SSLContext | None,
        connection: Connection,
    ) -> None:
        """Serve one connection; whatever goes wrong is noted with it and harms no other."""
        try:
            await self._converse(sock, spec, context, connection)
        except Exception as error:  # noqa: BLE001  peers are hostile, the origin must go on
            connection.failure = f"{type(error).__name__}: {error}"

    async def _converse(
        self,
        sock: socket.socket,
        spec: Spec,
        context: ssl.SSLContext | None,
        connection: Connection,
    ) -> None:
        try:
            first = await asyncio.wait_for(_peek(sock), FIRST_BYTE_S)
        except BaseException:
            sock.close()
            raise
        connection.plaintext = bool(first) and first[:1] != b"\x16"
        if context is not None and connection.plaintext:
            context = None  # somebody speaks in the clear at a TLS port: listen and note it
        reader, writer = await _streams(sock, context)
        try:
            if context is not None:
                handshake = writer.get_extra_info("ssl_object")
                connection.tls = True
                connection.sni = getattr(handshake, "abxt_sni", None)
                connection.alpn = handshake.selected_alpn_protocol()
            await self._speak(reader, writer, spec, connection)
            await writer.drain()
            writer.close()
            await asyncio.wait_for(writer.wait_closed(), CLOSING_S)
        finally:
            writer.transport.abort()

    async def _speak(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        spec: Spec,
        connection: Connection,
    ) -> None:
        if spec.speaks == "tcp":
            while data := await reader.read(PIECE):
                connection.take(data)
                writer.write(data)
                await writer.drain()
            return
        if spec.to is not None:
            await self._relay(reader, writer, spec.to, connection)
            return

        def record(request: Request) -> None:
            request.sni, request.tls = connection.sni, connection.tls
            self.book.requests.append(request)

        if connection.alpn == "h2":
            await Http2Origin(reader, writer, at=spec.at, answer=spec.answer, record=record).serve()
        else:
            await serve_http1(
                reader,
                writer,
                at=spec.at,
                answer=spec.answer,
                websocket=spec.speaks == "websocket-echo",
                record=record,
            )

    async def _relay(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        to: tuple[str, int],
        connection: Connection,
    ) -> None:
        """Carry bytes both ways and keep those that came from outside since the last clearing."""
        inner_reader, inner_writer = await asyncio.open_connection(*to)
        kept = connection

        async def inwards() -> None:
            nonlocal kept
            while data := await reader.read(PIECE):
                if kept.era != self.book.cleared:
                    kept = replace(connection, received=0, data="", era=self.book.cleared)
                    self.book.connections.append(kept)
                kept.take(data)
                inner_writer.write(data)
                await inner_writer.drain()
            inner_writer.write_eof()

        async def outwards() -> None:
            while data := await inner_reader.read(PIECE):
                writer.write(data)
                await writer.drain()
            if writer.can_write_eof():
                writer.write_eof()

        try:
            async with asyncio.TaskGroup() as tasks:
                listening = tasks.create_task(inwards())
                await outwards()
                listening.cancel()
        finally:
            inner_writer.close()

    async def _datagrams(self, sock: socket.socket, spec: Spec) -> None:
        loop = asyncio.get_running_loop()
        while True:
            data, peer = await loop.sock_recvfrom(sock, PIECE)
            connection = Connection(spec.at, str(peer[0]), plaintext=True)
            connection.take(data)
            self.book.connections.append(connection)
            await loop.sock_sendto(sock, data, peer)


def _socket_address(spec: Spec) -> Any:
    if spec.host.lower().startswith("fe8"):  # link-local: the world's only leg
        return spec.host, spec.port, 0, socket.if_nametoindex(DEVICE)
    return spec.host, spec.port


def _bind(spec: Spec) -> socket.socket:
    family = socket.AF_INET6 if ":" in spec.host else socket.AF_INET
    kind = socket.SOCK_DGRAM if spec.speaks == "udp" else socket.SOCK_STREAM
    sock = socket.socket(family, kind)
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET:
            sock.setsockopt(socket.IPPROTO_IP, IP_FREEBIND, 1)
        else:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            sock.setsockopt(socket.IPPROTO_IPV6, IPV6_FREEBIND, 1)
        sock.bind(_socket_address(spec))
        if kind == socket.SOCK_STREAM:
            sock.listen(1024)
    except OSError:
        sock.close()
        raise
    return sock


@functools.cache
def _context_of(pair: KeyPair) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.TemporaryDirectory(prefix="abxt-") as folder:
        chain, key = Path(folder, "chain.pem"), Path(folder, "key.pem")
        chain.write_text(pair.certificate)
        key.touch(mode=0o600)
        key.write_text(pair.key)
        context.load_cert_chain(chain, key)
    return context


async def _peek(sock: socket.socket) -> bytes:
    """The first byte of a connection, left in the socket; empty if the peer leaves silently."""
    loop = asyncio.get_running_loop()
    while True:
        try:
            return sock.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            readable = loop.create_future()
            loop.add_reader(sock, _wake, readable)
            try:
                await readable
            finally:
                loop.remove_reader(sock)


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


async def _streams(
    sock: socket.socket, context: ssl.SSLContext | None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=1 << 20)
    protocol = asyncio.StreamReaderProtocol(reader)
    transport, _ = await loop.connect_accepted_socket(
        lambda: protocol, sock, ssl=context, ssl_handshake_timeout=30 if context else None
    )
    return reader, asyncio.StreamWriter(transport, protocol, reader, loop)
