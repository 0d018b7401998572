"""The test world does what the tests of the sandbox rely on."""

from __future__ import annotations

import json
import os
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest

from tests import host
from tests.integration.world.conftest import Client, client_of
from tests.world import World, cables

pytestmark = pytest.mark.integration


def ask(client: Client, name: str, kind: str, **options: object) -> dict[str, Any]:
    """Ask the world's resolver from the client's namespace."""
    program = """
        import dns.message, dns.query, dns.rcode, json, sys
        options = json.loads(sys.argv[1])
        tcp = options.pop("tcp", False)
        question = dns.message.make_query(**options)
        answer = (dns.query.tcp if tcp else dns.query.udp)(question, "198.51.100.53", timeout=3)
        data = [str(item) for rrset in answer.answer for item in rrset]
        flags = dns.flags.to_text(answer.flags)
        print(json.dumps({"rcode": dns.rcode.to_text(answer.rcode()), "data": data,
                          "flags": flags, "ttl": [r.ttl for r in answer.answer]}))
    """
    options = {"qname": name, "rdtype": kind, **options}
    done = client.run(sys.executable, "-c", textwrap.dedent(program), json.dumps(options))
    assert done.code == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def test_a_world_stands_and_leaves_nothing() -> None:
    with World() as world:
        name = world.run.world
        assert name in host.run(["ip", "netns", "list"]).stdout
    for command in (
        ["ip", "netns", "list"],
        ["ip", "link"],
        ["ip", "rule"],
        ["nft", "list", "tables"],
    ):
        assert name not in host.run(command).stdout


def test_http_origin_records_the_raw_target_and_every_byte(world: World, client: Client) -> None:
    world.origin(at="198.51.100.10:80")
    done = client.curl("-d", "body", "-H", "X-A: b", "http://198.51.100.10/o/a%2Fb?q")
    assert done.stdout == "abxt origin\n"
    (request,) = world.requests()
    assert (request["method"], request["target"]) == ("POST", "/o/a%2Fb?q")
    assert ["X-A", "b"] in request["headers"]
    assert request["body"] == "body"
    assert not request["tls"]


@pytest.mark.parametrize(("option", "version"), [("--http1.1", "HTTP/1.1"), ("--http2", "HTTP/2")])
def test_https_origin_has_a_certificate_for_the_name_that_leads_to_it(
    world: World, client: Client, tmp_path, option: str, version: str
) -> None:
    world.dns.set({"allowed.test": ["198.51.100.10"]})
    world.origin(at="198.51.100.10:443", speaks="https", answer={"bytes": 300_000})
    authority = tmp_path / "ca.pem"
    authority.write_text(world.ca_pem)
    way = ["--cacert", str(authority), "--resolve", "allowed.test:443:198.51.100.10"]
    done = client.curl(option, *way, "https://allowed.test/x")
    assert done.code == 0, done.stderr
    assert len(done.stdout) == 300_000
    (request,) = world.requests()
    assert (request["version"], request["sni"], request["tls"]) == (version, "allowed.test", True)


@pytest.mark.parametrize("cert", [{"issuer": "self"}, {"issuer": "unknown"}, {"expired": True}])
def test_bad_certificates_are_bad(world: World, client: Client, tmp_path, cert) -> None:
    world.origin(at="198.51.100.10:443", speaks="https", cert={"names": ["allowed.test"], **cert})
    authority = tmp_path / "ca.pem"
    authority.write_text(world.ca_pem)
    way = ["--cacert", str(authority), "--resolve", "allowed.test:443:198.51.100.10"]
    assert client.curl(*way, "https://allowed.test/").code == 60
    assert world.requests() == []
    assert len(world.connections()) == 1


@pytest.mark.parametrize("address", ["10.0.0.5", "169.254.169.254", "172.32.0.1", "100.64.0.7"])
def test_any_address_can_be_an_origin(world: World, client: Client, address: str) -> None:
    world.origin(at=f"{address}:80")
    assert client.curl(f"http://{address}/").code == 0
    assert len(world.attempts(address, 80)) == 1
    assert world.escaped() == 0


def test_an_address_without_an_origin_is_silent_and_counted(world: World, client: Client) -> None:
    done = client.curl("-m", "1", "http://203.0.113.77/")
    assert done.code == 28  # no answer at all
    assert world.attempts("203.0.113.77")
    assert world.connections() == []
    assert world.escaped() == 0


def test_drip_spreads_the_body(world: World, client: Client) -> None:
    world.origin(at="198.51.100.10:80", answer={"bytes": 10, "drip_s": 1})
    start = time.monotonic()
    assert client.curl("http://198.51.100.10/").stdout == "x" * 10
    assert 0.9 < time.monotonic() - start < 3


def test_resolver_answers_from_its_tables_and_counts(world: World, client: Client) -> None:
    world.dns.set(
        {"allowed.test": ["198.51.100.10", "2001:db8::10"], "*.wild.test": ["198.51.100.20"]},
        records=[
            {"name": "alias.test", "type": "CNAME", "data": "allowed.test"},
            {"name": "hint.test", "type": "HTTPS", "data": "1 . ipv4hint=10.0.0.5"},
        ],
        fail={"broken.test": "SERVFAIL"},
        sequence={"turn.test": [["198.51.100.1"], ["127.0.0.1"]]},
    )
    assert ask(client, "allowed.test", "A")["data"] == ["198.51.100.10"]
    assert ask(client, "ALLOWED.test", "AAAA")["data"] == ["2001:db8::10"]
    assert ask(client, "a.b.wild.test", "A")["data"] == ["198.51.100.20"]
    assert ask(client, "alias.test", "A")["data"] == ["allowed.test.", "198.51.100.10"]
    assert "10.0.0.5" in ask(client, "hint.test", "HTTPS")["data"][0]
    assert ask(client, "broken.test", "A")["rcode"] == "SERVFAIL"
    assert ask(client, "other.test", "A")["rcode"] == "NXDOMAIN"
    turns = [ask(client, "turn.test", "A") for _ in range(3)]
    assert [t["data"] for t in turns] == [["198.51.100.1"], ["127.0.0.1"], ["127.0.0.1"]]
    assert turns[0]["ttl"] == [0]
    assert world.dns.queries("wild.test") == 1
    assert world.dns.queries() == 10


def test_a_big_answer_is_cut_over_udp_and_whole_over_tcp(world: World, client: Client) -> None:
    world.dns.set(records=[{"name": "big.test", "type": "TXT", "bytes": 3000}])
    cut = ask(client, "big.test", "TXT", use_edns=0, payload=1232)
    assert "TC" in cut["flags"]
    assert cut["data"] == []
    assert len(ask(client, "big.test", "TXT", tcp=True)["data"][0]) > 3000


def test_udp_and_tcp_origins_echo(world: World, client: Client) -> None:
    world.origin(at="198.51.100.10:7", speaks="tcp")
    world.origin(at="198.51.100.10:7", speaks="udp")
    program = """
        import socket
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
            s = socket.socket(socket.AF_INET, kind)
            s.settimeout(3)
            s.connect(("198.51.100.10", 7))
            s.send(b"abc")
            assert s.recv(10) == b"abc"
    """
    done = client.run(sys.executable, "-c", textwrap.dedent(program))
    assert done.code == 0, done.stderr
    assert [c["received"] for c in world.connections() if c["received"]] == [3, 3]


def namespace_of(pid: int) -> str:
    """Identity of a process's network namespace."""
    return str(Path(f"/proc/{pid}/ns/net").readlink())


def test_a_watched_namespace_shows_what_it_dials_and_has_loopback_origins(
    world: World, client: Client
) -> None:
    sleeper = host.spawn(["ip", "netns", "exec", client.netns, "cat"])
    try:
        host.wait_until(
            lambda: namespace_of(sleeper.pid) != namespace_of(os.getpid()),
            timeout_s=5,
            describe=lambda: "the sleeper in its namespace",
        )
        world.watch_pod(sleeper.pid)
        assert world.origin(at="127.0.0.1:81")
        assert client.curl("http://127.0.0.1:81/").stdout == "abxt origin\n"
        client.curl("-m", "1", "http://203.0.113.9/")
        assert [p["destination"] for p in world.dialled()] == ["127.0.0.1", "203.0.113.9"]
        assert world.attempts("::ffff:127.0.0.1", 81)
        assert [c["at"] for c in world.connections()] == ["127.0.0.1:81"]
    finally:
        world.forget_pods()
        host.end(sleeper)


def test_guard_counts_what_would_leave_the_machine() -> None:
    """Without its route into the world a test packet is dropped at the uplink and counted."""
    if not cables.uplinks():
        pytest.skip("this machine has no default route: nothing could leave it")
    with World() as world, client_of(world) as client:
        client.curl("-m", "1", "http://198.51.100.10/")
        assert world.escaped() == 0
        device = f"abx-abxt-{world.run.number}ze"
        host.run(["ip", "rule", "del", "iif", device, "lookup", str(world.run.table)])
        client.curl("-m", "1", "http://198.51.100.10/")
        assert world.escaped() > 0
        assert "198.51.100.10 . tcp" in world.escapees()


def test_sweep_removes_a_dead_run_and_spares_a_living_one(world: World) -> None:
    program = """
        import os
        from tests.world import World
        world = World().__enter__()
        print(world.run.number, flush=True)
        os._exit(1)
    """
    done = host.run([sys.executable, "-c", textwrap.dedent(program)], check=False, cwd=host.ROOT)
    dead = cables.Run(done.stdout.strip())
    assert dead.world in host.run(["ip", "netns", "list"]).stdout
    with World():
        listed = host.run(["ip", "netns", "list"]).stdout
        assert dead.world not in listed
        assert world.run.world in listed
    assert dead.guard not in host.run(["nft", "list", "tables"]).stdout
