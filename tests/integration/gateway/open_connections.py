"""Connections through the proxy that stay open: does one still work, and when does it end."""

from __future__ import annotations

import os
import time
from abc import ABC, abstractmethod

import h2.config
import h2.connection
import h2.events

from tests.cases.probe.streams import PlainStream, Stream, TlsStream

ANSWER_S = 20
"""How long an answer may take on a busy machine."""
QUIET_S = 0.3
"""So long nothing may come from a connection that is taken for open."""
FAILURES = (OSError, EOFError)


class Open(ABC):
    """A connection that was opened for one name."""

    stream: Stream

    @abstractmethod
    def works(self) -> bool:
        """Whether bytes still pass."""

    def ends_within(self, seconds: float) -> bool:
        """Whether the connection ends in time; what it still had to say is thrown away."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            try:
                if not self.stream.recv(left):
                    return True
            except TimeoutError:
                return False
            except FAILURES:
                return True
        return False

    def close(self) -> None:
        """End it."""
        self.stream.close()


def head_of(stream: Stream) -> bytes:
    """The head of the next answer, and what came with it."""
    data = b""
    while b"\r\n\r\n" not in data:
        more = stream.recv(ANSWER_S)
        if not more:
            raise EOFError(f"ended after {data!r}")
        data += more
    return data


def tunnel(proxy: tuple[str, int], name: str, port: int = 443, alpn: str = "http/1.1") -> TlsStream:
    """TLS inside a CONNECT."""
    plain = PlainStream(*proxy)
    plain.send(f"CONNECT {name}:{port} HTTP/1.1\r\nHost: {name}:{port}\r\n\r\n".encode())
    head = head_of(plain)
    if b" 200 " not in head.splitlines()[0]:
        raise EOFError(head.decode("latin-1"))
    tls = TlsStream(plain, sni=name, alpn=[alpn])
    tls.handshake(ANSWER_S)
    return tls


class Tunnel(Open):
    """A tunnel with one request after the other inside."""

    def __init__(self, proxy: tuple[str, int], name: str, port: int = 443) -> None:
        self.stream = tunnel(proxy, name, port)
        self._host = name if port == 443 else f"{name}:{port}"

    def works(self) -> bool:
        """Ask once more."""
        try:
            self.stream.send(f"GET / HTTP/1.1\r\nHost: {self._host}\r\n\r\n".encode())
            data = head_of(self.stream)
            while not data.endswith(b"abxt origin\n"):
                data += self.stream.recv(ANSWER_S)
        except FAILURES:
            return False
        return b" 200 " in data.splitlines()[0]


_KEY = "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"


class WebSocket(Open):
    """A WebSocket, in a tunnel or by a plain request."""

    def __init__(self, proxy: tuple[str, int], name: str, *, plain: bool) -> None:
        self.stream = PlainStream(*proxy) if plain else tunnel(proxy, name)
        target = f"http://{name}/" if plain else "/"
        fields = f"Host: {name}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n{_KEY}\r\n"
        self.stream.send(f"GET {target} HTTP/1.1\r\n{fields}".encode())
        head = head_of(self.stream)
        if b" 101 " not in head.splitlines()[0]:
            raise EOFError(head.decode("latin-1"))

    def works(self) -> bool:
        """Have a frame echoed."""
        payload = os.urandom(8)
        masked = bytes([0x82, 0x80 | len(payload)]) + bytes(4) + payload
        wanted = bytes([0x82, len(payload)]) + payload
        try:
            self.stream.send(masked)
            data = b""
            while len(data) < len(wanted):
                more = self.stream.recv(ANSWER_S)
                if not more:
                    return False
                data += more
        except FAILURES:
            return False
        return data == wanted


class Download(Open):
    """A plain answer that takes minutes; a byte comes every now and then."""

    def __init__(self, proxy: tuple[str, int], name: str) -> None:
        self.stream = PlainStream(*proxy)
        self.stream.send(f"GET http://{name}/ HTTP/1.1\r\nHost: {name}\r\n\r\n".encode())
        head_of(self.stream)

    def works(self) -> bool:
        """Wait for another byte."""
        try:
            return bool(self.stream.recv(ANSWER_S))
        except FAILURES:
            return False


class Upload(Open):
    """A plain request whose body has no end."""

    def __init__(self, proxy: tuple[str, int], name: str) -> None:
        self.stream = PlainStream(*proxy)
        self.stream.send(
            f"POST http://{name}/ HTTP/1.1\r\nHost: {name}\r\n"
            "Transfer-Encoding: chunked\r\n\r\n".encode()
        )

    def works(self) -> bool:
        """Send a piece; nothing comes back, not even an end."""
        try:
            self.stream.send(b"4\r\nmore\r\n")
            self.stream.recv(QUIET_S)
        except TimeoutError:
            return True
        except FAILURES:
            return False
        return False

    def finish(self) -> bytes:
        """End the body; the answer's head."""
        self.stream.send(b"0\r\n\r\n")
        return head_of(self.stream)


class Http2Stream(Open):
    """An HTTP/2 stream in a tunnel whose answer takes minutes."""

    def __init__(self, proxy: tuple[str, int], name: str) -> None:
        self.stream = tunnel(proxy, name, alpn="h2")
        config = h2.config.H2Configuration(client_side=True, header_encoding="latin-1")
        self._http2 = h2.connection.H2Connection(config)
        self._http2.initiate_connection()
        pseudo = {":method": "GET", ":scheme": "https", ":authority": name, ":path": "/"}
        self._http2.send_headers(1, list(pseudo.items()), end_stream=True)
        self.stream.send(self._http2.data_to_send())

    def works(self) -> bool:
        """Wait for another piece of the body."""
        deadline = time.monotonic() + ANSWER_S
        while time.monotonic() < deadline:
            try:
                data = self.stream.recv(ANSWER_S)
                events = self._http2.receive_data(data) if data else []
                self.stream.send(self._http2.data_to_send())
            except FAILURES:
                return False
            if any(isinstance(event, h2.events.DataReceived) for event in events):
                return True
            if not data or any(isinstance(event, _ENDS) for event in events):
                return False
        return False


_ENDS = (h2.events.StreamReset, h2.events.ConnectionTerminated, h2.events.StreamEnded)
