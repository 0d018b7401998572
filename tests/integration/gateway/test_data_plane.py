"""What the pod's own filters refuse and let pass, with the egress table out of the way."""

from __future__ import annotations

import json
import time

import pytest

from tests import host
from tests.integration.gateway.conftest import ALLOW, NAMES, Gateway

pytestmark = pytest.mark.integration

REFUSED_CONNECTION = "closed"


def reason(answer) -> str:
    """Reason code of a refusal."""
    named = dict(answer["headers"])
    assert named["content-type"] == "application/json", answer
    return str(json.loads(answer["body"])["reason"])


def test_http_1_what_is_not_allowed_gets_403_with_its_reason_and_no_lookup(gateway: Gateway):
    assert gateway.get("http://allowed.test/")["status"] == 200
    assert gateway.get("https://allowed.test/")["status"] == 200
    gateway.world.clear_records()
    for url in ("http://secret.evil.test/", "https://secret.evil.test/"):
        answer = gateway.get(url)
        assert (answer["status"], reason(answer)) == (403, "not_allowed")
    answer = gateway.get("http://allowed.test:81/")
    assert (answer["status"], reason(answer)) == (403, "port_not_allowed")
    assert gateway.world.dns.queries("evil.test") == 0
    assert gateway.world.connections() == []


def test_http_2_fields_for_the_proxy_end_at_the_proxy(gateway: Gateway):
    fields = {
        "Proxy-Authorization": "Basic eA==", "Connection": "close, X-Hop", "X-Hop": "1",
        "x-envoy-original-dst-host": "198.51.100.66:80", "x-envoy-retry-on": "5xx",
        "x-abox-judged": "http", "x-abox-port": "443", "X-Kept": "1",
    }  # fmt: skip
    assert gateway.get("http://allowed.test/", headers=fields)["status"] == 200
    (seen,) = gateway.world.requests()
    names = {name.lower() for name, _ in seen["headers"]}
    assert "x-kept" in names
    assert not names & {"proxy-authorization", "x-hop", "x-forwarded-for", "x-forwarded-proto"}
    assert [name for name in names if name.startswith(("x-envoy-", "x-abox-"))] == []
    assert not gateway.reached("198.51.100.66")


def test_http_3_the_target_reaches_the_origin_unchanged(gateway: Gateway):
    for target in ("/o/a%2Fb", "/a//b/../c;x=%41", "/q?a=b&c=%2F..%2F&x=[1]"):
        assert gateway.get(f"http://allowed.test{target}")["status"] == 200
        assert gateway.world.requests()[-1]["target"] == target


def test_http_5_an_origin_can_not_switch_protocols_unasked(gateway: Gateway):
    gateway.world.origin(at="198.51.100.30:80", speaks="websocket-echo")
    switch = "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\nhello"
    gateway.world.origin(at="198.51.100.31:80", speaks="http", answer={"raw": switch})
    gateway.world.dns.set({"ws.wild.test": ["198.51.100.30"], "sw.wild.test": ["198.51.100.31"]})
    asked = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
             "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA=="}  # fmt: skip
    answer = gateway.get("http://ws.wild.test/ws", headers=asked)
    assert (answer["status"], answer["echo"]) == (101, True)
    answer = gateway.get("http://sw.wild.test/")
    assert answer["status"] == 502
    assert "hello" not in answer["body"]


def test_http_6_the_name_that_was_judged_is_the_name_that_is_asked(gateway: Gateway):
    answer = gateway.raw("GET http://allowed.test/ HTTP/1.1\r\nHost: evil.test\r\n\r\n")
    assert answer["status"] == 200
    assert [r["host"] for r in gateway.world.requests()] == ["allowed.test"]
    answer = gateway.raw("GET / HTTP/1.1\r\nHost: allowed.test\r\nHost: evil.test\r\n\r\n")
    assert answer["status"] in (400, 403)
    assert not gateway.reached("198.51.100.66")


@pytest.mark.parametrize("mode", ["active", "passive"])
def test_http_7_the_health_name_answers_from_the_gateway_in_every_mode(gateway: Gateway, mode):
    gateway.apply([], mode=mode)
    gateway.world.clear_records()
    for url in ("http://healthcheck.abox.local/", "https://healthcheck.abox.local/"):
        assert gateway.get(url)["status"] == 200
        assert gateway.get(url.replace("health", "x.health"))["status"] == 403
    assert gateway.foreign_queries() == []


def test_http_8_http_1_0_is_judged_like_http_1_1(gateway: Gateway):
    assert gateway.raw("GET http://allowed.test/ HTTP/1.0\r\n\r\n")["status"] == 200
    assert gateway.raw("GET http://evil.test/ HTTP/1.0\r\n\r\n")["status"] == 403
    assert gateway.raw("CONNECT evil.test:443 HTTP/1.0\r\n\r\n")["status"] == 403
    assert gateway.raw("GET / HTTP/1.0\r\n\r\n")["status"] in (400, 403, 404, 426)
    assert not gateway.reached("198.51.100.66")


def test_http_9_a_tunnel_carries_tls_or_http_that_is_judged_and_nothing_else(gateway: Gateway):
    def tunnel(authority: str, text: str) -> str:
        return str(gateway.raw(text, after_connect=authority)["body"])

    get = "GET / HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n"
    assert " 200 " in tunnel("allowed.test:80", get.format("allowed.test"))
    gateway.world.clear_records()
    assert "name_mismatch" in tunnel("allowed.test:80", get.format("evil.test"))
    assert "not_tls" in tunnel("allowed.test:443", get.format("allowed.test:443"))
    assert tunnel("allowed.test:443", "SSH-2.0-test\r\n") == ""
    assert gateway.world.connections() == []


@pytest.mark.parametrize("version", ["1.1", "2"])
def test_tls_1_minted_certificates_please_strict_clients(gateway: Gateway, version):
    from tests.cases.leaf import leaf_faults

    answer = gateway.get("https://allowed.test/", http_version=version)
    assert (answer["status"], answer["version"]) == (200, f"HTTP/{version}")
    wanted = {"san": ["allowed.test"], "eku": ["serverAuth"], "max_validity_days": 90,
              "has_authority_key_id": True, "chain_min": 1}  # fmt: skip
    authority = gateway.pod.authority[0]
    assert list(leaf_faults(answer["chain"], wanted, authority, gateway.world.ca_pem)) == []


@pytest.mark.parametrize("version", ["1.1", "2"])
@pytest.mark.parametrize(
    "change", [{"inner_host": "evil.test"}, {"inner_host": "other.test"}, {"sni": "evil.test"},
               {"sni": "other.test"}, {"sni": None}], ids=str)  # fmt: skip
def test_tls_2_connect_server_name_and_host_must_be_one_name(gateway: Gateway, change, version):
    assert gateway.get("https://allowed.test/", http_version=version)["status"] == 200
    gateway.world.clear_records()
    answer = gateway.get("https://allowed.test/", http_version=version, **change)
    assert answer["status"] in (403, 421, REFUSED_CONNECTION)
    if answer["status"] == 403:
        assert reason(answer) == "name_mismatch"
    assert gateway.world.requests() == []


CERTIFICATES: dict[str, dict[str, object]] = {
    "upstream_certificate_self_signed": {"issuer": "self"},
    "upstream_certificate": {"issuer": "unknown"},
    "upstream_certificate_expired": {"expired": True},
    "upstream_certificate_name": {"names": ["evil.test"]},
}


@pytest.mark.parametrize("code", CERTIFICATES)
def test_tls_3_an_origin_that_can_not_prove_its_name_gets_no_request(gateway: Gateway, code: str):
    """The answer and the log say what is wrong with its certificate."""
    # A name that nobody asked for: Envoy keeps looking up those that it knows.
    name = f"bad{time.monotonic_ns()}.wild.test"
    gateway.world.origin(
        at="198.51.100.40:443", speaks="https", cert={"names": [name], **CERTIFICATES[code]}
    )
    gateway.world.dns.set({name: ["198.51.100.40"]})
    answer = gateway.get(f"https://{name}/")
    assert (answer["status"], reason(answer)) == (502, code), answer["body"]
    assert gateway.world.requests() == []
    host.wait_until(
        lambda: code in [line.reason for line in gateway.pod.requests_logged()],
        timeout_s=30,
        describe=lambda: str(gateway.pod.requests_logged()[-3:]),
    )


def test_tls_4_tunnels_at_once_for_many_names_are_never_mixed_up(gateway: Gateway):
    certificate = {"names": ["*.many.wild.test"]}
    gateway.world.origin(at="198.51.100.50:443", speaks="https", cert=certificate)
    gateway.world.dns.set({"*.many.wild.test": ["198.51.100.50"]})
    asked = {"url": "https://n{n}.many.wild.test/", "method": "GET", "via": "connect", "times": 200}
    answers = gateway.client.ask("http", asked)
    refused = [answer for answer in answers if answer["status"] != 200]
    assert refused == []
    assert len({request["host"] for request in gateway.world.requests()}) == 200


def test_tls_5_without_interception_the_tunnel_is_judged_by_its_names(gateway: Gateway):
    gateway.apply(tls_interception=False)
    answer = gateway.get("https://allowed.test/")
    assert answer["status"] == 200
    assert answer["chain"]
    gateway.world.clear_records()
    for name in ("evil.test", "other.test", None):
        assert gateway.get("https://allowed.test/", sni=name)["status"] == REFUSED_CONNECTION
    assert gateway.get("https://evil.test/")["status"] == 403
    assert gateway.world.server_names() == []
    gateway.world.dns.set({"in.wild.test": ["10.0.0.5"]})
    assert gateway.get("https://in.wild.test/")["status"] == 403
    assert not gateway.reached("10.0.0.5")


ANSWERS = {
    "private": ["10.0.0.5"], "metadata": ["169.254.169.254"], "loopback": ["127.0.0.1"],
    "shared": ["100.64.0.7"], "documentation": ["203.0.113.9"], "unique-local": ["fd00::5"],
    "mapped": ["::ffff:10.0.0.5"], "mixed": ["198.51.100.10", "10.0.0.5"],
    "mixed-first": ["10.0.0.5", "198.51.100.10"],
}  # fmt: skip


@pytest.mark.parametrize("addresses", ANSWERS.values(), ids=ANSWERS)
def test_addr_1_a_name_never_leads_to_a_special_address(gateway: Gateway, addresses):
    assert gateway.get("http://allowed.test/")["status"] == 200
    name = f"a{time.monotonic_ns()}.wild.test"
    gateway.world.dns.set({name: addresses})
    gateway.world.clear_records()
    for scheme in ("http", "https"):
        answer = gateway.get(f"{scheme}://{name}/")
        assert (answer["status"], reason(answer)) == (403, "special_purpose_address")
    assert gateway.world.connections() == []
    for address in addresses:
        if not address.startswith(("198.", "127.")):
            assert not gateway.reached(address)


def test_addr_3_a_listed_address_is_reached_where_a_cidr_covers_it(gateway: Gateway):
    gateway.apply(["198.51.100.10"])
    assert gateway.get("http://198.51.100.10/")["status"] == 200
    assert gateway.get("http://198.51.100.20/")["status"] == 403


ODD_LABELS = [["x.wild", "test"], ["*", "test"], ["a", "*", "test"], ["!"], ["a", "\x00"],
              ["ALLOWED", "evil"], ["allowed", "test", "evil", "test"], [], ["*", "*"]]  # fmt: skip


@pytest.mark.parametrize("labels", ODD_LABELS, ids=str)
def test_dns_1_a_name_off_the_list_leaves_no_query(gateway: Gateway, labels):
    assert gateway.resolve("allowed.test")["rcode"] == "NOERROR"
    gateway.world.clear_records()
    for kind in ("A", "AAAA", "TXT", "HTTPS"):
        (answer,) = gateway.client.ask("dns", {"labels": labels, "type": kind})
        assert answer["rcode"] in ("NXDOMAIN", "REFUSED", "FORMERR"), (kind, answer)
    assert gateway.foreign_queries() == []


def test_dns_3_the_agent_gets_no_special_address(gateway: Gateway):
    gateway.world.dns.set(
        {"mixed.wild.test": ["198.51.100.10", "10.0.0.5"]},
        records=[{"name": "mixed.wild.test", "type": "HTTPS", "data": "1 . ipv4hint=10.0.0.5"}],
    )
    answer = gateway.resolve("mixed.wild.test")
    assert bytes([198, 51, 100, 10]).hex() in answer["wire"]
    assert bytes([10, 0, 0, 5]).hex() not in answer["wire"]
    for kind in ("HTTPS", "SVCB"):
        answer = gateway.resolve("mixed.wild.test", kind)
        assert bytes([10, 0, 0, 5]).hex() not in answer["wire"]


def test_dns_4_a_long_answer_is_cut_and_says_so(gateway: Gateway):
    record = {"name": "long.wild.test", "type": "TXT", "bytes": 3000}
    gateway.world.dns.set({}, records=[record])
    answer = gateway.resolve("long.wild.test", "TXT", edns=1232)
    assert (answer["rcode"], answer["truncated"]) == ("NOERROR", True)


def test_dns_5_an_alias_is_followed_though_its_target_is_not_listed(gateway: Gateway):
    record = {"name": "alias.wild.test", "type": "CNAME", "data": "cdn.evil.test."}
    gateway.world.dns.set({"cdn.evil.test": ["198.51.100.10"]}, records=[record])
    assert gateway.resolve("alias.wild.test")["rcode"] == "NOERROR"
    assert gateway.get("http://alias.wild.test/")["status"] == 200
    assert gateway.resolve("cdn.evil.test")["rcode"] == "NXDOMAIN"


def test_live_3_a_policy_that_is_refused_leaves_the_one_before_it(gateway: Gateway):
    document = {"mode": "active", "allow": [{"host": "*.test", "ports": [80]}], "deny": []}
    answer = gateway.pod.apply_document(document)
    assert answer["ok"] is False
    assert set(answer["error"]) == {"what", "why", "remedy"}
    assert gateway.get("http://allowed.test/")["status"] == 200
    assert gateway.pod.status()["policy_hash"]


def test_live_4_a_filter_that_was_opened_by_hand_is_noticed(gateway: Gateway):
    assert gateway.pod.status()["findings"] == []
    opened = (
        "import socket; s = socket.socket(socket.AF_UNIX); s.connect('/run/abox/dns/agent.sock');"
        "s.sendall(b'UBCT1 forward_add evil.test. 198.51.100.53\\n'); s.recv(99)"
    )
    gateway.pod.exec("control", "python3", "-c", opened)
    status = gateway.pod.status()
    assert (status["policy_hash"], status["dns"]) == ("", False)
    closed = opened.replace("forward_add evil.test. 198.51.100.53", "forward_remove evil.test.")
    gateway.pod.exec("control", "python3", "-c", closed)
    rewritten = (
        "import json, os; p = '/var/lib/abox/policy/routes-outer.json'; d = json.load(open(p));"
        "d['resources'][0]['virtual_hosts'].pop(0); open(p + '.x', 'w').write(json.dumps(d));"
        "os.rename(p + '.x', p)"
    )
    gateway.pod.exec("control", "python3", "-c", rewritten)
    wait_for(lambda: gateway.pod.status()["proxy"] is False)
    gateway.apply()
    assert gateway.pod.status()["findings"] == []


@pytest.mark.parametrize("role", ["dns", "proxy", "control"])
def test_live_5_a_killed_container_comes_back_with_the_policy(gateway: Gateway, role):
    host.run(["docker", "restart", "-t", "0", gateway.pod.containers[role]])
    gateway.pod.wait_until_ready()
    assert gateway.get("https://allowed.test/")["status"] == 200
    assert gateway.get("http://evil.test/")["status"] == 403
    assert gateway.resolve("evil.test")["rcode"] == "NXDOMAIN"
    wait_for(lambda: gateway.pod.status()["findings"] == [])


@pytest.mark.timeout(240)
def test_live_15_a_list_of_100_000_names_goes_live_within_the_pods_memory(gateway: Gateway):
    """LIVE-15: it is judged name by name, one of it is taken away, and nothing of the pod dies."""
    gateway.world.dns.set({**NAMES, "*.long.test": ["198.51.100.10"]})
    before = started(gateway)
    names = [f"n{number}.long.test" for number in range(100_000)]
    for listed in (names, names[:-1]):
        gateway.apply([*ALLOW, *listed])
        for name in ("allowed.test", names[0], names[-1], "n100000.long.test"):
            allowed = name in (*ALLOW, *listed)
            assert gateway.get(f"http://{name}/")["status"] == (200 if allowed else 403)
            assert gateway.resolve(name)["rcode"] == ("NOERROR" if allowed else "NXDOMAIN")
    assert gateway.pod.status()["findings"] == []
    assert started(gateway) == before


def started(gateway: Gateway) -> str:
    """When each container of the pod started, and how often the engine had to start it again."""
    form = "{{.State.StartedAt}} {{.RestartCount}} {{.State.OOMKilled}}"
    return host.run(["docker", "inspect", "-f", form, *gateway.pod.containers.values()]).stdout


def test_secret_1_only_control_holds_the_authority_and_the_admin_sockets(gateway: Gateway):
    assert "PRIVATE KEY" in gateway.pod.exec("control", "cat", "/var/lib/abox/ca/ca.key").stdout
    for role in ("dns", "proxy"):
        script = "cat /var/lib/abox/ca/ca.key; ls /run/abox/control"
        done = gateway.pod.exec(role, "sh", "-c", script, check=False)
        assert done.stdout == ""
    done = gateway.pod.exec("dns", "ls", "/run/abox/envoy", "/run/abox/sds", check=False)
    assert done.stdout == ""


def test_secret_2_queries_and_control_characters_stay_out_of_the_log(gateway: Gateway):
    assert gateway.get("http://allowed.test/a?token=s3cr3t-4711")["status"] == 200
    gateway.raw("GET http://allowed.test/b#s3cr3t-4711 HTTP/1.1\r\nHost: allowed.test\r\n\r\n")
    gateway.raw("GET http://evil.test/a\x1b]0;x\x07 HTTP/1.1\r\nHost: evil.test\r\n\r\n")
    wait_for(lambda: {"allow", "deny"} <= {v.outcome for v in gateway.pod.requests_logged()})
    wait_for(lambda: "/b" in {v.path for v in gateway.pod.requests_logged()})
    text = "".join(path.read_text() for path in gateway.pod.log_folder.iterdir())
    assert "s3cr3t-4711" not in text
    assert "\x1b" not in text


def wait_for(condition, seconds: float = 15) -> None:
    """Wait until a condition holds."""
    host.wait_until(condition, timeout_s=seconds, describe=lambda: "it never held")
