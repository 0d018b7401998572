"""Handshakes at the edges of TLS, inside tunnels that are intercepted."""

from __future__ import annotations

import itertools
import ssl
from typing import Any

import pytest

from tests import host
from tests.cases.probe.http import Conversation, open_tls, open_tunnel
from tests.integration.gateway.conftest import ALLOW, CIDRS, Gateway
from tests.integration.gateway.h2_wire import Frames
from tests.integration.gateway.hello import (
    ALPN,
    EARLY_DATA,
    ENCRYPTED_HELLO,
    PADDING,
    SERVER_NAME,
    TLS_1_0,
    TLS_1_1,
    TLS_1_2,
    TLS_1_3,
    Hello,
    answer_to,
    server_name,
)
from tests.integration.gateway.wire import exchange

pytestmark = pytest.mark.integration

PROTOCOL_VERSION = 70
"""The alert of a server that speaks no such version (RFC 8446, 6.2)."""
ECH_SHAPED = bytes([0]) + b"\0\x01\0\x01" + b"\x07" + b"\0\x20" + b"k" * 32 + b"\0\x90" + b"p" * 144
"""An encrypted hello, or what clients send to make it ordinary: nobody can tell them apart."""


def tunnel(gateway: Gateway, authority: str = "allowed.test:443") -> Conversation:
    """A tunnel without a handshake yet."""
    return open_tunnel((gateway.pod.gateway, 8080), authority)


@pytest.mark.parametrize(
    ("newest", "accepted"), [(TLS_1_0, False), (TLS_1_1, False), (TLS_1_2, True), (TLS_1_3, True)]
)
def test_tls_14_old_versions_of_tls_are_refused(gateway: Gateway, newest: int, accepted: bool):
    answer = answer_to(tunnel(gateway), Hello(newest=newest).message())
    assert answer.accepted is accepted
    assert (answer.alert == PROTOCOL_VERSION) is not accepted


@pytest.mark.parametrize("version", ["TLSv1", "TLSv1.1", "TLSv1.2", "TLSv1.3"])
def test_tls_14_an_origin_that_speaks_old_tls_gets_no_request(gateway: Gateway, version: str):
    name = gateway.name_for("198.51.100.61")
    try:
        at = "198.51.100.61:443"
        origin = gateway.world.backend("nginx", at=at, names=[name], tls=version)
        answer = gateway.get(f"https://{name}/")
        modern = version in ("TLSv1.2", "TLSv1.3")
        assert answer["status"] == (200 if modern else 502)
        assert bool(origin.seen()) is modern
    finally:
        gateway.world.end_backends()


TOLERATED = {
    "grease": Hello(grease=True),
    "encrypted-hello": Hello(replaced={ENCRYPTED_HELLO: ECH_SHAPED}),
    "grease-and-encrypted-hello": Hello(grease=True, replaced={ENCRYPTED_HELLO: ECH_SHAPED}),
    "unknown-extension": Hello(replaced={0xABCD: b"x" * 40}),
    "long-padding": Hello(replaced={PADDING: bytes(12_000)}),
    "no-alpn": Hello(),
    "alpn-of-others-too": Hello(replaced={ALPN: b"\0\x0e\x04abxt\x08http/1.1"}),
    "upper-case-name": Hello(name=b"ALLOWED.TEST"),
}


@pytest.mark.parametrize("hello", TOLERATED.values(), ids=TOLERATED)
def test_tls_7_hellos_of_modern_clients_are_understood(gateway: Gateway, hello: Hello):
    assert answer_to(tunnel(gateway), hello.message()).accepted


REFUSED = {
    "two-names": Hello(
        name=None, replaced={SERVER_NAME: server_name(b"allowed.test", b"evil.test")}
    ),
    "name-twice": Hello(repeated=(SERVER_NAME,)),
    "empty-name": Hello(name=b""),
    "zero-in-name": Hello(name=b"allowed.test\0.evil.test"),
    "root-dot": Hello(name=b"allowed.test."),
    "address": Hello(name=b"198.51.100.10"),
    "long-name": Hello(name=b"a" * 300 + b".wild.test"),
    "other-name": Hello(name=b"evil.test"),
    "name-with-port": Hello(name=b"allowed.test:443"),
    "name-in-high-bytes": Hello(name="\u0430llowed.test".encode()),
    "no-name": Hello(name=None),
    "empty-hello": Hello(name=None, replaced={SERVER_NAME: b""}),
}


@pytest.mark.parametrize("hello", REFUSED.values(), ids=REFUSED)
def test_tls_8_a_hello_with_no_or_another_name_leads_nowhere(gateway: Gateway, hello: Hello):
    """Whatever the handshake comes to, no request can follow: a whole client gets no answer."""
    assert answer_to(tunnel(gateway), Hello().message()).accepted  # control
    gateway.world.clear_records()
    answer_to(tunnel(gateway), hello.message(), timeout_s=5)
    assert gateway.world.connections() == []
    assert gateway.foreign_queries() == []


def test_tls_9_no_session_is_resumed_and_no_early_data_is_read(gateway: Gateway):
    """A session would skip the certificate, and early data the verdict on its name."""
    context = ssl.create_default_context(cadata=gateway.pod.authority[0])

    def connect(name: str, session: ssl.SSLSession | None) -> ssl.SSLObject:
        opened = tunnel(gateway, f"{name}:443")
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = context.wrap_bio(incoming, outgoing, server_hostname=name, session=session)
        while True:
            try:
                tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                opened.stream.send(outgoing.read())
                incoming.write(opened.stream.recv(20))
        opened.stream.send(outgoing.read() or b"")
        tls.write(f"GET / HTTP/1.1\r\nHost: {name}\r\n\r\n".encode())
        opened.stream.send(outgoing.read())
        incoming.write(opened.stream.recv(20))
        assert b" 200 " in tls.read(1 << 14)
        opened.stream.close()
        return tls

    for newest in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        context.maximum_version = newest
        first = connect("allowed.test", None)
        assert first.session is None or not first.session.has_ticket
        for name in ("allowed.test", "other.test"):
            again = connect(name, first.session)
            assert not again.session_reused
            shown = again.getpeercert() or {}
            assert shown["subjectAltName"] == (("DNS", name),)
    gateway.world.clear_records()
    early = b"\x17\x03\x03\x00\x20" + b"e" * 32
    hello = Hello(replaced={EARLY_DATA: b""})
    answer = answer_to(tunnel(gateway), hello.message() + early)
    assert EARLY_DATA not in answer.extensions
    assert gateway.world.connections() == []


def test_tls_10_a_session_can_not_be_renegotiated(gateway: Gateway, tmp_path):
    """The name that was judged stays the name of the connection."""
    authority = tmp_path / "authority.pem"
    authority.write_text(gateway.pod.authority[0])
    command = ["openssl", "s_client", "-proxy", f"{gateway.pod.gateway}:8080", "-tls1_2",
               "-connect", "allowed.test:443", "-CAfile", str(authority)]  # fmt: skip
    get = "GET /{} HTTP/1.1\nHost: allowed.test\nConnection: close\n\n"
    plain = host.run([*command, "-quiet", "-crlf"], text=get.format("first"), check=False)
    assert " 200 " in plain.stdout  # control
    again = host.run(command, text="R\n" + get.format("second"), check=False)
    assert "RENEGOTIATING" in again.stdout + again.stderr
    assert again.code != 0
    assert [request["target"] for request in gateway.world.requests()] == ["/first"]


@pytest.mark.parametrize("alpn", [[], ["http/1.1"], ["h2"], ["h2", "http/1.1"], ["http/1.0"],
                                  ["abxt"]], ids=str)  # fmt: skip
@pytest.mark.parametrize("speaks", ["1.1", "2"])
def test_tls_11_whatever_was_agreed_on_what_is_said_is_judged(
    gateway: Gateway, alpn: list[str], speaks: str
):
    """HTTP/1.1 after h2 was agreed on, h2 after HTTP/1.1, either after nothing."""

    def ask(host_name: str) -> int:
        proxy = (gateway.pod.gateway, 8080)
        opened = open_tls(proxy, "allowed.test:443", sni="allowed.test", alpn=alpn or ["x"])
        if speaks == "1.1":
            text = f"GET /{host_name} HTTP/1.1\r\nHost: {host_name}\r\n\r\n"
            return next(iter(exchange(opened, text.encode()).statuses), 0)
        frames = Frames(opened)
        fields = {":method": "GET", ":scheme": "https", ":authority": host_name, ":path": "/"}
        frames.request(1, [(k.encode(), v.encode()) for k, v in fields.items()])
        frames.listen(1)
        opened.stream.close()
        return frames.streams[1].status

    allowed, fronted = ask("allowed.test"), ask("evil.test")
    assert allowed in (200, 400, 0)
    assert fronted in (403, 400, 0)
    assert fronted == 403 or allowed != 200
    if speaks == "1.1" and alpn in ([], ["http/1.1"]):
        assert allowed == 200
    assert {request["host"] for request in gateway.world.requests()} <= {"allowed.test"}


PORTS = ["allowed.test:8443", "allowed.test:80", "allowed.test:0443", "allowed.test:44300",
         "allowed.test:", "allowed.test:443:443"]  # fmt: skip


def test_tls_2_the_port_inside_is_the_port_of_the_tunnel(gateway: Gateway):
    gateway.apply([{"host": "allowed.test", "ports": [443, 80, 8443]}])
    for version in ("1.1", "2"):

        def ask(inner: str, version: str = version) -> dict[str, Any]:
            return gateway.get("https://allowed.test/", http_version=version, inner_host=inner)

        assert ask("allowed.test:443")["status"] == 200
        gateway.world.clear_records()
        for inner in PORTS:
            assert ask(inner)["status"] in (400, 403, "closed"), inner
        assert gateway.world.requests() == []


def test_tls_2_one_connection_serves_one_name_though_the_origin_serves_more(gateway: Gateway):
    """Requests for another allowed name on the same HTTP/2 connection go nowhere."""
    certificate = {"names": ["*.wild.test"]}
    one, other = gateway.name_for("198.51.100.62"), gateway.name_for("198.51.100.62")
    gateway.world.origin(at="198.51.100.62:443", speaks="https", cert=certificate)
    proxy = (gateway.pod.gateway, 8080)
    frames = Frames(open_tls(proxy, f"{one}:443", sni=one, alpn=["h2"]))
    statuses = []
    for number, name in ((1, one), (3, other), (5, one)):
        fields = {":method": "GET", ":scheme": "https", ":authority": name, ":path": "/"}
        frames.request(number, [(k.encode(), v.encode()) for k, v in fields.items()])
        frames.listen(number)
        statuses.append(frames.streams[number].status)
    frames.conversation.stream.close()
    assert statuses == [200, 403, 200]
    assert gateway.get(f"https://{other}/")["status"] == 200
    seen = [(request["host"], request["sni"]) for request in gateway.world.requests()]
    assert sorted(seen) == sorted([(one, one), (one, one), (other, other)])


def test_tls_2_a_tunnel_to_an_address_carries_no_name(gateway: Gateway):
    """Not even if both the address and the name are allowed."""
    gateway.apply(["allowed.test", "198.51.100.10", "2001:db8::10"])
    assert gateway.get("https://allowed.test/")["status"] == 200
    gateway.world.clear_records()
    for authority in ("198.51.100.10:443", "[2001:db8::10]:443"):
        for sni in ("allowed.test", None):
            answer = gateway.get(f"https://{authority}/", sni=sni, inner_host="allowed.test")
            assert answer["status"] in (403, 421, "closed"), (authority, sni)
    assert gateway.world.requests() == []


def test_tls_12_the_stacks_own_authorities_are_trusted_and_no_others(gateway: Gateway):
    """trusted_cas is live at once for every origin that is dialled, in both directions."""
    certificate = {"names": ["*.wild.test"]}
    gateway.world.origin(at="198.51.100.64:443", speaks="https", cert=certificate)

    def status(trusted: list[str]) -> object:
        name = gateway.name_for("198.51.100.64")
        applied = gateway.pod.apply(ALLOW, trusted_cas=trusted, allow_private_cidrs=CIDRS)
        assert applied.get("ok"), applied
        return gateway.get(f"https://{name}/")["status"]

    stranger = gateway.pod.authority[0]
    assert status([gateway.world.ca_pem]) == 200
    assert status([]) == 502
    assert status([stranger]) == 502
    assert status([stranger, gateway.world.ca_pem]) == 200


def test_tls_12_an_authority_that_is_taken_away_ends_with_its_open_connections(gateway: Gateway):
    """A request isn't sent over a connection that was made while another list was in force."""
    name = gateway.name_for("198.51.100.64")
    certificate = {"names": ["*.wild.test"]}
    gateway.world.origin(at="198.51.100.64:443", speaks="https", cert=certificate)
    proxy = (gateway.pod.gateway, 8080)
    frames = Frames(open_tls(proxy, f"{name}:443", sni=name, alpn=["h2"]))
    numbers = itertools.count(1, 2)

    def status() -> int:
        number = next(numbers)
        fields = {":method": "GET", ":scheme": "https", ":authority": name, ":path": "/"}
        frames.request(number, [(k.encode(), v.encode()) for k, v in fields.items()])
        frames.listen(number)
        return frames.streams[number].status

    gateway.world.clear_records()
    assert [status(), status()] == [200, 200]
    assert len(gateway.world.connections()) == 1  # both over the same
    for trusted, then in (([], 502), ([gateway.world.ca_pem], 200)):
        applied = gateway.pod.apply(ALLOW, trusted_cas=trusted, allow_private_cidrs=CIDRS)
        assert applied.get("ok"), applied
        assert status() == then
    frames.conversation.stream.close()


def test_tls_12_authorities_that_were_changed_by_hand_are_noticed(gateway: Gateway):
    """The proxy would read them when it starts again."""
    assert gateway.pod.status()["findings"] == []
    changed = (
        "cat /etc/ssl/certs/ca-certificates.crt > $(ls /var/lib/abox/policy/authorities-*.pem)"
    )
    gateway.pod.exec("control", "sh", "-c", changed)
    status = gateway.pod.status()
    assert status["proxy"] is False
    assert any("authorities-" in finding for finding in status["findings"])
    gateway.apply()
    assert gateway.pod.status()["findings"] == []


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_tls_13_an_origin_that_wants_a_client_certificate_says_so(gateway: Gateway, version: str):
    name = gateway.name_for("198.51.100.63")
    try:
        gateway.world.backend("openssl", at="198.51.100.63:443", names=[name], tls=version)
        answer = gateway.get(f"https://{name}/")
        assert answer["status"] == 502
        assert "a client's certificate" in answer["body"]
        assert ("client_certificate" in answer["body"]) is (version == "TLSv1.2")
    finally:
        gateway.world.end_backends()
