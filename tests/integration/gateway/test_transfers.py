"""What honest clients rely on: nothing is cut, held back, reordered or kept in memory."""

from __future__ import annotations

import itertools
import re
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import grpc
import pytest
from websockets.sync.client import connect

from abox.render.envoy import HEADERS_TIMEOUT_S
from tests import host
from tests.cases.probe.http import Buffer, Conversation, open_tls, open_tunnel, read_response
from tests.cases.probe.streams import PlainStream
from tests.integration.gateway.conftest import Gateway
from tests.integration.gateway.h2_wire import Frames
from tests.integration.gateway.wire import exchange
from tests.world.backends.backend import BULK, BULK_BYTES, Backend
from tests.world.backends.grpc_origin import SERVICE

pytestmark = pytest.mark.integration

MEBIBYTE = 1 << 20
FLAT = 64 * MEBIBYTE
"""How much the proxy may grow while a gibibyte passes: connections, buffers, allocator."""
BULK_S = 280
SLOW_S = HEADERS_TIMEOUT_S + 3
"""Longer than the gateway waits for a head, so a limit of that kind on bodies would show."""


def conversation(gateway: Gateway, name: str, *, secure: bool) -> Conversation:
    """A connection by which requests in one form go to a name."""
    proxy = (gateway.pod.gateway, 8080)
    if secure:
        return open_tls(proxy, f"{name}:443", sni=name, alpn=["http/1.1"])
    stream = PlainStream(*proxy)
    return Conversation(stream, Buffer(stream), [])


def base(name: str, *, secure: bool) -> str:
    """What stands before the path in the request line."""
    return "" if secure else f"http://{name}"


def envoy(gateway: Gateway) -> int:
    """Envoy's process id, as the host counts."""
    listed = host.run(["docker", "top", gateway.pod.containers["proxy"], "-eo", "pid,comm"]).stdout
    return int(next(line.split()[0] for line in listed.splitlines() if "envoy" in line))


@contextmanager
def flat_memory(gateway: Gateway) -> Iterator[None]:
    """What happens meanwhile doesn't make the proxy's memory grow."""
    process = Path(f"/proc/{envoy(gateway)}")

    def memory(kind: str) -> int:
        found = re.search(rf"{kind}:\s+([0-9]+) kB", (process / "status").read_text())
        assert found is not None
        return int(found[1]) * 1024

    (process / "clear_refs").write_text("5")  # the high-water mark begins again
    before = memory("VmRSS")
    yield
    assert memory("VmHWM") - before < FLAT


@pytest.fixture
def authority(gateway: Gateway, tmp_path: Path) -> Path:
    """File with the sandbox's authority."""
    path = tmp_path / "authority.pem"
    path.write_text(gateway.pod.authority[0])
    return path


@pytest.fixture
def curl(gateway: Gateway, authority: Path):
    """curl on the sandbox's bridge; what it wrote about the transfer."""

    def run(*args: str, timeout_s: float = 60) -> str:
        proxy = f"http://{gateway.pod.gateway}:8080"
        command = ["curl", "-sS", "-x", proxy, "--cacert", str(authority), *args]
        return host.run(command, timeout_s=timeout_s).stdout

    return run


@pytest.fixture
def serve(gateway: Gateway) -> Iterator[Callable[..., tuple[str, Backend]]]:
    """Starts servers that others wrote, each under a name of its own; they end with the test."""
    lasts = itertools.count(70)

    def start(kind: str, *, secure: bool) -> tuple[str, Backend]:
        address = f"198.51.100.{next(lasts)}"
        name = gateway.name_for(address)
        at, names = f"{address}:{443 if secure else 80}", [name] if secure else []
        return name, gateway.world.backend(kind, at=at, names=names)

    yield start
    gateway.world.end_backends()


@pytest.mark.timeout(BULK_S + 60)
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_http_10_a_gibibyte_down_leaves_the_memory_flat(gateway: Gateway, curl, serve, scheme: str):
    name, _ = serve("nginx", secure=scheme == "https")
    with flat_memory(gateway):
        told = curl("-o", "/dev/null", "-w", "%{http_code} %{size_download}",
                    f"{scheme}://{name}/{BULK}", timeout_s=BULK_S)  # fmt: skip
    assert told == f"200 {BULK_BYTES}"


@pytest.mark.timeout(BULK_S + 60)
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_http_10_a_gibibyte_up_leaves_the_memory_flat(
    gateway: Gateway, curl, serve, scheme: str, tmp_path: Path
):
    name, node = serve("node", secure=scheme == "https")
    sparse = tmp_path / BULK
    with sparse.open("wb") as file:
        file.truncate(BULK_BYTES)
    with flat_memory(gateway):
        told = curl("-T", str(sparse), "-o", "/dev/null", "-w", "%{http_code}",
                    f"{scheme}://{name}/{BULK}", timeout_s=BULK_S)  # fmt: skip
    assert told == "200"
    assert [entry["length"] for entry in node.seen()] == [BULK_BYTES]


def test_http_10_a_reader_that_stops_does_not_fill_the_memory(gateway: Gateway, serve):
    """A slow agent and a fast origin: the origin waits, over HTTP/2 as well."""
    name, _ = serve("nginx", secure=True)
    proxy = (gateway.pod.gateway, 8080)
    kept = []
    with flat_memory(gateway):
        for _ in range(8):
            stopped = open_tls(proxy, f"{name}:443", sni=name, alpn=["http/1.1"])
            stopped.stream.send(f"GET /{BULK} HTTP/1.1\r\nHost: {name}\r\n\r\n".encode())
            assert stopped.stream.recv(20)
            kept.append(stopped)
        time.sleep(5)  # as much as the origin may send into whoever takes it
    for stopped in kept:
        stopped.stream.close()


EVENTS = "data: 1\n\n" * 8


def watch_events(gateway: Gateway, name: str, *, secure: bool) -> None:
    """Take an answer that drips; its first byte is there long before its last."""
    opened = conversation(gateway, name, secure=secure)
    line = f"GET {base(name, secure=secure)}/events HTTP/1.1\r\n"
    start = time.monotonic()
    opened.stream.send(f"{line}Host: {name}\r\n\r\n".encode())
    opened.buffer.until(b"\r\n\r\n")
    opened.buffer.exactly(1)
    first = time.monotonic() - start
    assert opened.buffer.exactly(len(EVENTS) - 1) == EVENTS[1:].encode()
    assert first < SLOW_S / 2 < SLOW_S - 2 < time.monotonic() - start
    opened.stream.close()


def test_http_11_the_first_byte_of_a_slow_answer_comes_at_once(gateway: Gateway):
    """Server-sent events, and an answer that takes longer than any head may."""
    fields = {"content-type": "text/event-stream"}
    answer = {"headers": fields, "drip_s": SLOW_S, "body": EVENTS}
    name = gateway.name_for("198.51.100.70")
    gateway.world.origin(at="198.51.100.70:80", answer=answer)
    gateway.world.origin(at="198.51.100.70:443", speaks="https", answer=answer)
    with ThreadPoolExecutor(2) as pool:
        watched = [pool.submit(watch_events, gateway, name, secure=way) for way in (False, True)]
        for one in watched:
            one.result()


@pytest.mark.parametrize("secure", [False, True], ids=["plain", "intercepted"])
def test_http_12_an_origin_is_asked_whether_a_body_may_come(gateway: Gateway, serve, secure: bool):
    """Expect: 100-continue is the origin's to answer; a denied request is refused instead."""
    name, _ = serve("node", secure=secure)
    opened = conversation(gateway, name, secure=secure)
    line = f"PUT {base(name, secure=secure)}/x HTTP/1.1\r\n"
    fields = f"Host: {name}\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n"
    opened.stream.send((line + fields).encode())
    assert opened.buffer.until(b"\r\n\r\n").startswith(b"HTTP/1.1 100 ")
    opened.stream.send(b"abcd")
    answer = read_response(opened.buffer, "PUT")
    assert (answer.status, b'"length":4' in answer.body) == (200, True)
    opened.stream.close()
    denied = conversation(gateway, name, secure=secure)
    line = f"PUT {base('evil.test', secure=secure)}/x HTTP/1.1\r\n"
    heard = exchange(denied, (line + fields.replace(name, "evil.test")).encode())
    assert heard.data.startswith(b"HTTP/1.1 403 ")


def test_http_13_ranges_heads_and_trailers_pass(gateway: Gateway, serve):
    """What a client asks of a part of a resource, or of none, is answered as the origin does."""
    files, _ = serve("nginx", secure=True)
    echo, _ = serve("node", secure=True)
    for version in ("1.1", "2"):
        url = f"https://{files}/{BULK}"
        part = gateway.get(url, headers={"Range": "bytes=100-149"}, http_version=version)
        fields = dict(part["headers"])
        assert (part["status"], len(part["body"])) == (206, 50)
        assert fields["content-range"] == f"bytes 100-149/{BULK_BYTES}"
        whole = gateway.get(url, method="HEAD", http_version=version)
        assert (whole["status"], whole["body"]) == (200, "")
        assert dict(whole["headers"])["content-length"] == str(BULK_BYTES)
    opened = conversation(gateway, echo, secure=True)
    chunked = (f"POST /x HTTP/1.1\r\nHost: {echo}\r\nTransfer-Encoding: chunked\r\n\r\n"
               "3\r\nabc\r\n2;ext\r\nde\r\n0\r\nX-Sum: 7\r\n\r\n")  # fmt: skip
    heard = exchange(opened, chunked.encode())
    assert b'{"length":5,"trailers":{"x-sum":"7"}}' in heard.data
    assert heard.data.endswith(b"0\r\nx-sum: 5\r\n\r\n")


TARGETS = [
    "/a%2Fb", "/a%2fb", "/a%252Fb", "//a///b", "/a/../b", "/a/./b", "/a%2e%2e/b", "/a;b=c/d;e",
    "/a+b", "/%41", "/a%00b", "/a\\b", "/?", "/??", "/?a", "/?a=b&a=c&&", "/?a=%26%3D+%2B",
    "/?q={x}|^`", "/?a=b?c", "/?a=/../", "/?a=[1]&b=(2)", "/~a", "/a%zz", "/?%zz", "/*",
    "/!$&'()*+,;=:@", "/" + "a" * 8000, "/?" + "b" * 8000,
]  # fmt: skip


@pytest.mark.parametrize("version", ["1.1", "2"])
def test_http_3_odd_targets_reach_the_origin_unchanged(gateway: Gateway, version: str):
    for scheme in ("http", "https"):
        gateway.world.clear_records()
        for target in TARGETS:
            answer = gateway.get(f"{scheme}://allowed.test{target}", http_version=version)
            assert answer["status"] == 200, (target, answer)
        assert [request["target"] for request in gateway.world.requests()] == TARGETS


def test_http_14_pipelined_requests_are_answered_in_their_order(gateway: Gateway):
    count = 200
    for secure in (False, True):
        gateway.world.clear_records()
        opened = conversation(gateway, "allowed.test", secure=secure)
        one = f"GET {base('allowed.test', secure=secure)}/p@ HTTP/1.1\r\nHost: allowed.test\r\n\r\n"
        opened.stream.send("".join(one.replace("@", str(n)) for n in range(count)).encode())
        statuses = [read_response(opened.buffer, "GET").status for _ in range(count)]
        assert statuses == [200] * count
        seen = [request["target"] for request in gateway.world.requests()]
        assert seen == [f"/p{n}" for n in range(count)]
        opened.stream.close()


def test_http_14_many_streams_of_one_connection_pass(gateway: Gateway):
    count = 100
    proxy = (gateway.pod.gateway, 8080)
    frames = Frames(open_tls(proxy, "allowed.test:443", sni="allowed.test", alpn=["h2"]))
    usual = [(":method", "GET"), (":scheme", "https"), (":authority", "allowed.test")]
    numbers = range(1, 2 * count, 2)
    for number in numbers:
        fields = [*usual, (":path", f"/s{number}")]
        frames.request(number, [(k.encode(), v.encode()) for k, v in fields])
    frames.listen(*numbers, timeout_s=60)
    assert [frames.streams[number].status for number in numbers] == [200] * count
    seen = gateway.world.requests()
    assert sorted(r["target"] for r in seen) == sorted(f"/s{number}" for number in numbers)
    assert {request["version"] for request in seen} == {"HTTP/2"}
    frames.conversation.stream.close()


@pytest.mark.parametrize("secure", [False, True], ids=["plain", "intercepted"])
def test_http_15_a_head_that_is_too_large_is_refused_clearly(gateway: Gateway, secure: bool):
    line = f"GET {base('allowed.test', secure=secure)}/x HTTP/1.1\r\nHost: allowed.test\r\n"
    heads = {
        200: f"X-A: {'a' * 50_000}\r\n",
        431: f"X-A: {'a' * 110_000}\r\n",
    }
    many = "".join(f"X-{n}: b\r\n" for n in range(90))
    for status, fields in ((200, heads[200]), (200, many), (431, heads[431]), (431, many * 3)):
        opened = conversation(gateway, "allowed.test", secure=secure)
        heard = exchange(opened, (line + fields + "\r\n").encode(), first_byte_s=20)
        assert heard.statuses == [status], heard.data[:300]
        assert (b'"reason":"head_too_large"' in heard.data) is (status == 431)


def test_http_16_who_says_nothing_is_let_go_and_who_pauses_is_not(gateway: Gateway):
    """Half a head, half a handshake and a silent tunnel end soon; an idle connection stays."""
    proxy = (gateway.pod.gateway, 8080)
    stream = PlainStream(*proxy)
    half_head = Conversation(stream, Buffer(stream), [])
    half_head.stream.send(b"GET http://allowed.test/ HTTP/1.1\r\nHost: allo")
    silent_tunnel = open_tunnel(proxy, "allowed.test:443")
    half_hello = open_tunnel(proxy, "allowed.test:443")
    half_hello.stream.send(b"\x16\x03\x01\x02\x00\x01")
    idle = conversation(gateway, "allowed.test", secure=True)
    start = time.monotonic()
    for opened in (half_head, silent_tunnel, half_hello):
        while opened.stream.recv(40):
            pass
        opened.stream.close()
    waited = time.monotonic() - start
    assert 10 < waited < 35
    assert exchange(idle, b"GET / HTTP/1.1\r\nHost: allowed.test\r\n\r\n").statuses == [200]


@pytest.mark.parametrize("scheme", ["ws", "wss"])
def test_http_5_a_websocket_carries_messages_of_any_size_both_ways(gateway: Gateway, scheme: str):
    name = gateway.name_for("198.51.100.70")
    names = {"names": [name]} if scheme == "wss" else None
    at = f"198.51.100.70:{443 if names else 80}"
    gateway.world.origin(at=at, speaks="websocket-echo", cert=names)
    trusted = ssl.create_default_context(cadata=gateway.pod.authority[0])
    with connect(
        f"{scheme}://{name}/socket",
        proxy=f"http://{gateway.pod.gateway}:8080",
        ssl=trusted if names else None,
        compression=None,
    ) as socket:
        for message in ("short", "x" * 70_000, b"\0" * 125, "last"):
            socket.send(message)
            assert socket.recv(timeout=30) == message


@pytest.mark.parametrize("protocol", ["h2c", "abxt", "TLS/1.0", "websocket, h2c"])
@pytest.mark.parametrize("secure", [False, True], ids=["plain", "intercepted"])
def test_http_5_no_other_protocol_takes_a_connection_over(
    gateway: Gateway, protocol: str, secure: bool
):
    opened = conversation(gateway, "allowed.test", secure=secure)
    line = f"GET {base('allowed.test', secure=secure)}/x HTTP/1.1\r\nHost: allowed.test\r\n"
    fields = f"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: {protocol}\r\nHTTP2-Settings: AA\r\n"
    heard = exchange(opened, (line + fields + "\r\n").encode())
    assert heard.statuses in ([200], [403])
    if heard.statuses == [403]:
        assert b'"reason":"switch_not_allowed"' in heard.data
    for request in gateway.world.requests():
        assert {name.lower() for name, _ in request["headers"]} & {
            "upgrade",
            "http2-settings",
        } == set()


def test_http_17_grpc_calls_of_every_kind_pass(gateway: Gateway, serve):
    name, origin = serve("grpc", secure=True)
    channel = grpc.secure_channel(
        f"{name}:443",
        grpc.ssl_channel_credentials(gateway.pod.authority[0].encode()),
        options=[("grpc.http_proxy", f"http://{gateway.pod.gateway}:8080")],
    )
    with channel:
        answer, call = channel.unary_unary(f"/{SERVICE}/Unary", bytes, bytes).with_call(
            b"hello", timeout=60, metadata=(("abxt-a", "b"),)
        )
        assert answer == b"hello"
        assert ("abxt-trailer", "kept") in [(k, v) for k, v in call.trailing_metadata()]
        download = channel.unary_stream(f"/{SERVICE}/Download", bytes, bytes)
        assert list(download(b"1000", timeout=60)) == [str(n).encode() for n in range(1000)]
        upload = channel.stream_unary(f"/{SERVICE}/Upload", bytes, bytes)
        pieces = (b"x" * 10_000 for _ in range(100))
        assert upload(pieces, timeout=60) == b"1000000"
        assert talk(channel) == [b"eno", b"owt", b"eerht"]
        with pytest.raises(grpc.RpcError) as failed:
            channel.unary_unary(f"/{SERVICE}/Unary", bytes, bytes)(b"fail", timeout=60)
        assert failed.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    assert origin.seen()[0]["fields"]["abxt-a"] == "b"


def talk(channel: grpc.Channel) -> list[bytes]:
    """A conversation in which each message waits for the answer to the one before it."""
    heard: list[bytes] = []
    answered = threading.Semaphore(1)

    def say() -> Iterator[bytes]:
        for word in (b"one", b"two", b"three"):
            assert answered.acquire(timeout=30)
            yield word

    for answer in channel.stream_stream(f"/{SERVICE}/Both", bytes, bytes)(say(), timeout=60):
        heard.append(answer)
        answered.release()
    return heard
