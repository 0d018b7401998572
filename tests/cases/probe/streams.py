"""Byte streams to the proxy: a plain socket, or TLS in memory over one."""

from __future__ import annotations

import contextlib
import functools
import socket
import ssl
import time
from typing import Any, Protocol

PIECE = 1 << 16


class Stream(Protocol):
    """What HTTP is spoken over."""

    def send(self, data: bytes) -> None:
        """Send everything."""

    def recv(self, timeout_s: float) -> bytes:
        """Some bytes; empty at the end. Raises TimeoutError."""

    def close(self) -> None:
        """End it."""


class PlainStream:
    """A TCP connection."""

    def __init__(self, host: str, port: int, timeout_s: float = 10) -> None:
        self.sock = socket.create_connection((host, port), timeout=timeout_s)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, data: bytes) -> None:
        """Send everything."""
        self.sock.settimeout(30)
        self.sock.sendall(data)

    def recv(self, timeout_s: float) -> bytes:
        """Some bytes; empty at the end."""
        self.sock.settimeout(max(0.01, timeout_s))
        return self.sock.recv(PIECE)

    def close(self) -> None:
        """End it."""
        self.sock.close()


@functools.cache
def _context(alpn: tuple[str, ...]) -> ssl.SSLContext:
    """Judges nothing; made once, since that costs as much as what is sent with it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(list(alpn))
    return context


class TlsStream:
    """TLS over a plain stream. Certificates are reported, not judged."""

    def __init__(
        self,
        under: PlainStream,
        *,
        sni: str | None,
        alpn: list[str],
        segment: int = 0,
        pending: bytes = b"",
    ) -> None:
        context = _context(tuple(alpn))
        self._under, self._segment = under, segment
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=sni)
        if pending:
            self._incoming.write(pending)

    def hello(self) -> bytes:
        """The ClientHello, for those who send it themselves."""
        with contextlib.suppress(ssl.SSLWantReadError):
            self._tls.do_handshake()
        return self._outgoing.read()

    def feed(self, data: bytes) -> None:
        """Bytes that somebody else has already read from the connection."""
        self._incoming.write(data)

    def handshake(self, timeout_s: float) -> None:
        """Finish the handshake.

        Raises: ssl.SSLError, EOFError if the peer leaves, TimeoutError.
        """
        deadline = time.monotonic() + timeout_s
        first = True
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                self._flush(self._segment if first else 0)
                first = False
                self._fill(deadline - time.monotonic())
            else:
                self._flush()
                return

    def _flush(self, segment: int = 0) -> None:
        data = self._outgoing.read()
        if not segment:
            if data:
                self._under.send(data)
            return
        for start in range(0, len(data), segment):
            self._under.send(data[start : start + segment])
            time.sleep(0.002)  # so that each piece travels alone

    def _fill(self, timeout_s: float) -> None:
        data = self._under.recv(timeout_s)
        if not data:
            raise EOFError("closed during TLS")
        self._incoming.write(data)

    def send(self, data: bytes) -> None:
        """Send everything."""
        for start in range(0, len(data), PIECE):
            self._tls.write(data[start : start + PIECE])
            self._flush()

    def recv(self, timeout_s: float) -> bytes:
        """Some bytes; empty at the end."""
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                return self._tls.read(PIECE)
            except ssl.SSLWantReadError:
                self._flush()
                try:
                    self._fill(deadline - time.monotonic())
                except EOFError:
                    return b""
            except ssl.SSLZeroReturnError:
                return b""

    def close(self) -> None:
        """End it."""
        self._under.close()

    @property
    def alpn(self) -> str | None:
        """The protocol that was agreed on."""
        return self._tls.selected_alpn_protocol()

    def chain(self) -> list[str]:
        """Certificates that the peer showed, DER in hex, its own first."""
        inner: Any = getattr(self._tls, "_sslobj", None)
        if hasattr(inner, "get_unverified_chain"):
            shown = inner.get_unverified_chain() or ()
            return [ssl.PEM_cert_to_DER_cert(c.public_bytes()).hex() for c in shown]
        own = self._tls.getpeercert(binary_form=True)
        return [own.hex()] if own else []
