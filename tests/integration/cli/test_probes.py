"""What the probes report about servers on loopback and about containers of known posture."""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from abox.render.seccomp import render_seccomp
from cli import probes
from cli.check import parse_answers, script_text
from cli.probe_plan import Probe, Row, Surroundings, judge, plan_probes
from tests.host import ROOT, run

pytestmark = pytest.mark.integration

AROUND = Surroundings(gateway="192.0.2.1", proxy_port=8080, bridge_host="192.0.2.2")


@contextmanager
def server(answer: Callable[[socket.socket], None]) -> Iterator[int]:
    """Answer each TCP connection to a port of loopback."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    one, _ = listener.accept()
                except OSError:
                    return
                with one:
                    answer(one)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
    thread.join(5)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def outcome(kind: str, **arguments) -> str:
    return str(probes.attempt(kind, arguments)[0])


def test_tcp_tells_open_from_refused():
    with server(lambda _: None) as port:
        assert outcome("tcp", host="127.0.0.1", port=port) == "connected"
    assert outcome("tcp", host="127.0.0.1", port=free_port()) == "refused"


def test_a_scan_finds_the_open_port_among_closed_ones():
    closed = [free_port() for _ in range(20)]
    with server(lambda _: None) as port:
        found = probes.attempt("tcp_scan", {"host": "127.0.0.1", "ports": [*closed, port]})
    assert found[:2] == ["open", f"ports {port}"]
    assert outcome("tcp_scan", host="127.0.0.1", ports=closed) == "closed"


def test_udp_tells_answered_from_silent_and_refused():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
        assert outcome("udp", host="127.0.0.1", port=port) == "silent"
        assert one.recv(64) == b"abox"

        def answer() -> None:
            one.recv(64)  # the second of the two datagrams above
            one.sendto(b"yes", one.recvfrom(64)[1])

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        assert outcome("udp", host="127.0.0.1", port=port) == "answered"
        thread.join(5)
    assert outcome("udp", host="127.0.0.1", port=port) == "refused"


def dns_answer(query: bytes, flags: int, address: str = "") -> bytes:
    count = 1 if address else 0
    head = query[:2] + struct.pack("!HHHHH", flags, 1, count, 0, 0)
    record = (
        b"\xc0\x0c" + struct.pack("!HHIH", 1, 1, 60, 4) + socket.inet_aton(address or "0.0.0.0")
    )
    return head + query[12:] + (record if address else b"")


@pytest.mark.parametrize(
    ("flags", "address", "wanted"),
    [
        (0x8183, "", "NXDOMAIN"),
        (0x8180, "198.51.100.7", "NOERROR 198.51.100.7"),
        (0x8180, "", "NOERROR empty"),
        (0x8182, "", "SERVFAIL"),
    ],
)
def test_dns_tells_the_response_code_and_the_address(monkeypatch, flags, address, wanted):
    monkeypatch.setattr(probes, "_dns_datagram", lambda _, query: dns_answer(query, flags, address))
    assert outcome("dns", server="127.0.0.1", name="a.test") == wanted


def test_an_answer_to_another_question_is_none(monkeypatch):
    monkeypatch.setattr(probes, "_dns_datagram", lambda *_: b"\0" * 40)
    assert outcome("dns", server="127.0.0.1", name="a.test") == "silent"


def answers(text: bytes) -> Callable[[socket.socket], None]:
    def answer(one: socket.socket) -> None:
        one.recv(4096)
        one.sendall(text)

    return answer


BODY = json.dumps({"reason": "not_allowed"}).encode()


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "200"),
        (b"HTTP/1.1 403 F\r\nContent-Length: %d\r\n\r\n" % len(BODY) + BODY, "denied not_allowed"),
        (b"HTTP/1.1 403 F\r\nContent-Length: 2\r\n\r\nno", "403"),
        (b"HTTP/1.1 403 F\r\n\r\n", "403"),
        (b"", "closed"),
        (b"SSH-2.0\r\n\r\n", "garbled"),
    ],
)
def test_a_refusal_of_the_proxy_is_told_from_any_other_403(text, wanted):
    with server(answers(text)) as port:
        assert (
            outcome("http", proxy=["127.0.0.1", port], request="GET / HTTP/1.1\r\n\r\n") == wanted
        )


def test_a_tunnel_that_is_not_tls_inside_is_closed():
    with server(answers(b"HTTP/1.1 200 OK\r\n\r\nplain text, no TLS")) as port:
        found = outcome("tunnel", proxy=["127.0.0.1", port], authority="a.test:443", sni="a.test")
    assert found == "closed"


def test_a_refused_connect_is_the_outcome_of_a_tunnel():
    with server(answers(b"HTTP/1.1 503 no\r\n\r\n")) as port:
        found = outcome("tunnel", proxy=["127.0.0.1", port], authority="a.test:443", sni="a.test")
    assert found == "503"


def test_a_dead_proxy_is_waited_for_once():
    port = free_port()
    for _ in range(3):
        assert outcome("http", proxy=["127.0.0.1", port], request="") == "refused"
    assert str(["127.0.0.1", port]) in probes._dead


def test_an_attempt_that_breaks_is_told_and_stops_nothing():
    assert outcome("tcp", host="127.0.0.1", port=-1) == "error"
    assert outcome("tcp", nonsense=1) == "broken"


# --- containers ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def image() -> str:
    lock = json.loads((ROOT / ".abox" / "images.lock.json").read_text())
    return str(lock["agent"]["id"])


@pytest.fixture(scope="module")
def container_probes() -> list[Probe]:
    return [one for one in plan_probes(AROUND) if one.group == "container"]


def rows(image: str, planned: list[Probe], *flags: str) -> dict[str, Row]:
    done = run(
        ["docker", "run", "--rm", "--interactive", "--name", "abxt-probes", *flags,
         image, "python3", "-I", "-B", "-"],
        text=script_text(planned),
    )  # fmt: skip
    answers = parse_answers(done.stdout)
    return {one.id: judge(one, answers.get(one.id, {})) for one in planned}


@pytest.fixture(scope="module")
def network() -> Iterator[str]:
    name = "abxt-probes"
    run(["docker", "network", "create", "--internal", name])
    yield name
    run(["docker", "network", "rm", name])


def test_a_hardened_container_passes(image, container_probes, network, tmp_path: Path):
    profile = tmp_path / "seccomp.json"
    profile.write_text(render_seccomp())
    found = rows(
        image, container_probes, "--cap-drop", "ALL", "--read-only", "--tmpfs", "/run",
        "--security-opt", "no-new-privileges", "--security-opt", f"seccomp={profile}",
        "--network", network,
    )  # fmt: skip
    assert [row for row in found.values() if not row.ok] == []


WEAKENED = {
    "capabilities": ("--user", "0"),
    "no-new-privileges": (),
    "read-only-root": ("--user", "0"),
    "seccomp": ("--security-opt", "seccomp=unconfined"),
    "raw-sockets": ("--user", "0"),
    "system-calls": ("--security-opt", "seccomp=unconfined"),
    "kernel-settings": ("--user", "0", "--security-opt", "systempaths=unconfined"),
    "engine-sockets": ("--user", "0", "--volume", "/var/run/docker.sock:/var/run/docker.sock"),
    "devices": ("--device", "/dev/zero:/dev/abxt"),
    "one-interface": ("--network", "host"),
}
"""For each probe of the container, options that take its protection away."""


def test_every_container_probe_has_a_weakness_that_it_finds(container_probes):
    assert {one.id for one in container_probes} == set(WEAKENED)


@pytest.mark.parametrize("name", sorted(WEAKENED))
def test_a_container_probe_finds_what_is_open(image, container_probes, name):
    row = rows(image, container_probes, *WEAKENED[name])[name]
    assert row.state == "open", row.result
