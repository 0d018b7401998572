"""An HTTP client that can misbehave: absolute form, CONNECT, odd handshakes, raw bytes."""

from __future__ import annotations

import base64
import os
import ssl
import time
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from tests.cases.probe.streams import PlainStream, Stream, TlsStream

ANSWER_S = 70.0
"""An answer may be dripped for a while; beyond this the probe gives up."""
IDLE_S = 20.0
"""So long without a byte counts as no answer."""
QUIET_S = 2.0
"""So long without a further byte ends a conversation whose end isn't known."""
FAILURES = (OSError, ssl.SSLError, EOFError, ValueError)


@dataclass
class Buffer:
    """Bytes read from a stream and not yet used."""

    stream: Stream
    data: bytes = b""
    ended: bool = False

    def fill(self, timeout_s: float) -> bool:
        """Read some more; whether there was more."""
        more = self.stream.recv(timeout_s)
        self.ended = not more
        self.data += more
        return bool(more)

    def until(self, mark: bytes) -> bytes:
        """Everything up to and with a mark. Raises EOFError if the stream ends before it."""
        while mark not in self.data:
            if not self.fill(IDLE_S):
                raise EOFError(f"closed after {len(self.data)} bytes")
        head, _, self.data = self.data.partition(mark)
        return head + mark

    def exactly(self, size: int) -> bytes:
        """That many bytes. Raises EOFError with what there was if the stream ends before."""
        while len(self.data) < size:
            if not self.fill(IDLE_S):
                raise EOFError(f"closed {size - len(self.data)} bytes early")
        taken, self.data = self.data[:size], self.data[size:]
        return taken

    def rest(self) -> bytes:
        """Everything until the stream ends."""
        while not self.ended:
            self.fill(IDLE_S)
        taken, self.data = self.data, b""
        return taken


@dataclass
class Response:
    """One answer, or what came instead of it."""

    status: int | str
    """The code; ``closed``: the connection ended without an answer; ``silent``: a time-out."""
    headers: list[tuple[str, str]] = field(default_factory=list)
    body: bytes = b""
    error: str = ""
    chain: list[str] = field(default_factory=list)
    echo: bool | None = None
    version: str = ""

    def to_document(self) -> dict[str, Any]:
        """The response as JSON can carry it."""
        return {
            "status": self.status,
            "headers": [list(pair) for pair in self.headers],
            "body": self.body.decode("latin-1"),
            "error": self.error,
            "chain": self.chain,
            "echo": self.echo,
            "version": self.version,
        }


def failed(error: BaseException) -> Response:
    """The response that stands for a failure of the connection."""
    silent = isinstance(error, TimeoutError)
    return Response("silent" if silent else "closed", error=f"{type(error).__name__}: {error}")


def _chunks(buffer: Buffer) -> bytes:
    body = b""
    while True:
        size = int(buffer.until(b"\r\n").split(b";")[0].strip(), 16)
        if size == 0:
            while buffer.until(b"\r\n") != b"\r\n":
                pass
            return body
        body += buffer.exactly(size)
        buffer.exactly(2)


def read_response(buffer: Buffer, method: str) -> Response:
    """The next HTTP/1.1 response; interim ones are passed over."""
    while True:
        head = buffer.until(b"\r\n\r\n").decode("latin-1").split("\r\n")
        status = int(head[0].split(" ")[1])
        if status == 101 or status >= 200:
            break
    headers = [(n.strip().lower(), v.strip()) for n, _, v in (h.partition(":") for h in head[1:-2])]
    response = Response(status, headers, version="HTTP/1.1")
    named = dict(headers)
    tunnel = method == "CONNECT" and status == 200
    if method == "HEAD" or status in (101, 204, 304) or tunnel:
        return response
    try:
        if "chunked" in named.get("transfer-encoding", "").lower():
            response.body = _chunks(buffer)
        elif "content-length" in named:
            response.body = buffer.exactly(int(named["content-length"]))
        else:
            response.body = buffer.rest()
    except FAILURES as error:
        response.body += buffer.data
        response.error = f"{type(error).__name__}: {error}"
    return response


def _frame(payload: bytes) -> bytes:
    mask = os.urandom(4)
    masked = bytes(b ^ mask[i % 4] for i, b in enumerate(payload))
    return bytes([0x81, 0x80 | len(payload)]) + mask + masked


def websocket_echo(stream: Stream, buffer: Buffer) -> bool:
    """Whether a text frame comes back."""
    word = base64.b64encode(os.urandom(9))
    stream.send(_frame(word))
    try:
        return buffer.exactly(2 + len(word)) == bytes([0x81, len(word)]) + word
    except FAILURES:
        return False


@dataclass
class Conversation:
    """A connection that is open: what a later request may use again."""

    stream: Stream
    buffer: Buffer
    chain: list[str]
    alpn: str | None = None
    http2: Any = None


class ConnectRefusedError(Exception):
    """The proxy answered a CONNECT with something other than 200."""

    def __init__(self, response: Response) -> None:
        super().__init__(f"CONNECT: {response.status}")
        self.response = response


def _connect_head(authority: str, headers: dict[str, str]) -> bytes:
    lines = [f"CONNECT {authority} HTTP/1.1", f"Host: {authority}"]
    lines += [f"{k}: {v}" for k, v in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def open_tunnel(proxy: tuple[str, int], authority: str, early: bytes = b"") -> Conversation:
    """A CONNECT tunnel; `early` bytes travel together with the CONNECT.

    Raises: ConnectRefusedError with the proxy's answer.
    """
    stream = PlainStream(*proxy)
    buffer = Buffer(stream)
    try:
        stream.send(_connect_head(authority, {}) + early)
        response = read_response(buffer, "CONNECT")
    except BaseException:
        stream.close()
        raise
    if response.status != 200:
        stream.close()
        raise ConnectRefusedError(response)
    return Conversation(stream, buffer, [])


def open_tls(
    proxy: tuple[str, int],
    authority: str,
    *,
    sni: str | None,
    alpn: list[str],
    segment: int = 0,
    hello_with_connect: bool = False,
) -> Conversation:
    """TLS in a CONNECT tunnel."""
    if hello_with_connect:
        under = PlainStream(*proxy)
        tls = TlsStream(under, sni=sni, alpn=alpn)
        under.send(_connect_head(authority, {}) + tls.hello())
        buffer = Buffer(under)
        response = read_response(buffer, "CONNECT")
        if response.status != 200:
            raise ConnectRefusedError(response)
        tls.feed(buffer.data)
    else:
        tunnel = open_tunnel(proxy, authority)
        assert isinstance(tunnel.stream, PlainStream)
        tls = TlsStream(
            tunnel.stream, sni=sni, alpn=alpn, segment=segment, pending=tunnel.buffer.data
        )
    try:
        tls.handshake(IDLE_S)
    except BaseException:
        tls.close()
        raise
    return Conversation(tls, Buffer(tls), tls.chain(), tls.alpn)


def _request_head(method: str, target: str, host: str, headers: dict[str, str], size: int) -> bytes:
    lines = [f"{method} {target} HTTP/1.1", f"Host: {host}"]
    lines += [f"{k}: {v}" for k, v in headers.items()]
    if size or method in ("POST", "PUT", "PATCH"):
        lines.append(f"Content-Length: {size}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def _ask(conversation: Conversation, action: dict[str, Any], target: str, host: str) -> Response:
    """One HTTP/1.1 request on an open connection."""
    method, body = action["method"], str(action.get("body") or "").encode("latin-1")
    headers = {str(k): str(v) for k, v in (action.get("headers") or {}).items()}
    head = _request_head(method, target, host, headers, len(body))
    try:
        conversation.stream.send(head + body)
        response = read_response(conversation.buffer, method)
    except FAILURES as error:
        response = failed(error)
    response.chain = conversation.chain
    wants = {k.lower(): v.lower() for k, v in headers.items()}
    if response.status == 101 and wants.get("upgrade") == "websocket":
        response.echo = websocket_echo(conversation.stream, conversation.buffer)
    elif response.status == 101:
        response.body = _listen(conversation.buffer)
    return response


def _listen(buffer: Buffer) -> bytes:
    """Whatever comes after a switch, for a moment."""
    deadline = time.monotonic() + QUIET_S
    try:
        while time.monotonic() < deadline and buffer.fill(deadline - time.monotonic()):
            pass
    except FAILURES:
        pass
    return buffer.data


def _parts(url: str) -> tuple[str, str, int, str]:
    """Scheme, host as written, port, target in origin form."""
    split = urlsplit(url)
    host = split.netloc.rpartition("@")[2]
    bare, _, port = host.rpartition(":") if not host.endswith("]") else (host, "", "")
    if not port.isdigit():
        bare, port = host, "443" if split.scheme == "https" else "80"
    target = url.split("//", 1)[1]
    path = "/" + target.partition("/")[2] if "/" in target else "/"
    return split.scheme, bare, int(port), path


def request(
    proxy: tuple[str, int], action: dict[str, Any], kept: Conversation | None = None
) -> tuple[Response, Conversation | None]:
    """Carry out an ``http`` action; also the connection, if it is open."""
    try:
        if action.get("via", "proxy") == "proxy":
            return _by_proxy(proxy, action, kept)
        return _by_connect(proxy, action, kept)
    except ConnectRefusedError as refused:
        return refused.response, None
    except FAILURES as error:
        return failed(error), None


def _by_proxy(
    proxy: tuple[str, int], action: dict[str, Any], kept: Conversation | None
) -> tuple[Response, Conversation | None]:
    url = action["url"]
    _, bare, port, _ = _parts(url)
    host = action.get("inner_host") or (bare if port == 80 else f"{bare}:{port}")
    if kept is None:
        stream = PlainStream(*proxy)
        kept = Conversation(stream, Buffer(stream), [])
    return _ask(kept, action, url, host), kept


def _by_connect(
    proxy: tuple[str, int], action: dict[str, Any], kept: Conversation | None
) -> tuple[Response, Conversation | None]:
    _, bare, port, target = _parts(action["url"])
    wanted = str(action.get("http_version") or "1.1")
    second = wanted.startswith("2")
    name = bare.strip("[]").rstrip(".")
    if kept is None:
        kept = open_tls(
            proxy,
            f"{bare}:{port}",
            sni=action.get("sni", name),
            alpn=["h2"] if second else ["http/1.1"],
            segment=int(action.get("hello_segment") or 0),
            hello_with_connect=bool(action.get("hello_with_connect")),
        )
    host = action.get("inner_host") or (bare if port == 443 else f"{bare}:{port}")
    if second and kept.alpn == "h2":
        from tests.cases.probe.http2 import ask  # needs the h2 library, which only this does

        return ask(kept, action, target, host), kept
    return _ask(kept, action, target, host), kept


def raw(proxy: tuple[str, int], action: dict[str, Any], answers: int) -> dict[str, Any]:
    """Send bytes to the proxy port, or in a tunnel; read up to `answers` responses.

    Returns: the responses, and whether the connection was closed by the other side.
    """
    data = action["raw"].encode("latin-1")
    try:
        conversation = _raw_way(proxy, action)
    except ConnectRefusedError as refused:
        return {"responses": [refused.response.to_document()], "closed": True}
    except FAILURES as error:
        return {"responses": [failed(error).to_document()], "closed": True}
    try:
        conversation.stream.send(data)
    except FAILURES as error:
        return {"responses": [failed(error).to_document()], "closed": True}
    tunnel = bool(action.get("after_connect"))
    responses = [] if tunnel else _read_answers(conversation, data, answers)
    closed = _closes(conversation.buffer) if tunnel or action.get("await_close") else False
    if tunnel:
        responses = [Response("closed" if closed else "silent", body=conversation.buffer.data)]
    conversation.stream.close()
    return {"responses": [r.to_document() for r in responses], "closed": closed}


def _raw_way(proxy: tuple[str, int], action: dict[str, Any]) -> Conversation:
    if action.get("after_connect"):
        return open_tunnel(proxy, action["after_connect"])
    if action.get("inside_tls"):
        authority = action["inside_tls"]
        name = authority.rpartition(":")[0].strip("[]")
        return open_tls(proxy, authority, sni=name, alpn=["http/1.1"])
    stream = PlainStream(*proxy)
    return Conversation(stream, Buffer(stream), [])


def _read_answers(conversation: Conversation, data: bytes, answers: int) -> list[Response]:
    responses = []
    method = data.partition(b" ")[0].decode("latin-1")
    for _ in range(answers):
        try:
            responses.append(read_response(conversation.buffer, method))
        except FAILURES as error:
            responses.append(failed(error))
            break
    return responses


def _closes(buffer: Buffer, timeout_s: float = 10) -> bool:
    """Whether the other side ends the connection, soon."""
    deadline = time.monotonic() + timeout_s
    try:
        while not buffer.ended and time.monotonic() < deadline:
            buffer.fill(deadline - time.monotonic())
    except TimeoutError:
        return False
    except FAILURES:
        return True
    return buffer.ended
