"""Secrets that the proxy puts on requests: where they go, and everywhere they must not show."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import h2.config
import h2.connection
import h2.events
import pytest

from tests import host
from tests.integration.gateway.conftest import ALLOW, NAMES, Gateway
from tests.integration.gateway.open_connections import ANSWER_S, tunnel
from tests.integration.gateway.test_data_plane import reason, wait_for

pytestmark = pytest.mark.integration

VALUE = "Bearer s3cr3t-4711"
OTHER_VALUE = "0ther-0815"
SECRETS = {"api_key": VALUE, "other": OTHER_VALUE}
AUTHORIZATION = {"header": "Authorization", "secret": "api_key"}
API_KEY = {"header": "X-Api-Key", "secret": "other"}
KEYED: dict[str, Any] = {"host": "allowed.test", "paths": ["/v1/*"], "inject": AUTHORIZATION}
SPELLINGS = {
    "Authorization": "Bearer agent-1", "AUTHORIZATION": "agent-2", "authorization": "agent-3",
}  # fmt: skip
LIVE_S = 10
"""Seconds in which a changed value must be live."""


@pytest.fixture
def keyed(gateway: Gateway) -> Gateway:
    """The pod with an entry that injects beside plain ones for the same and for other hosts."""
    gateway.apply([KEYED, *ALLOW], secrets=SECRETS_OF_KEYED)
    gateway.world.clear_records()
    return gateway


SECRETS_OF_KEYED = {"api_key": VALUE}


def seen(gateway: Gateway, header: str) -> list[list[str]]:
    """For each request that an origin got, the header's values, however it was spelled."""
    wanted = header.lower().replace("_", "-")
    found = [
        [value for name, value in request["headers"] if name.lower().replace("_", "-") == wanted]
        for request in gateway.world.requests()
    ]
    gateway.world.clear_records()
    return found


@pytest.mark.parametrize("version", ["1.1", "2"])
def test_secret_3_the_secret_takes_the_place_of_what_the_agent_sent(keyed: Gateway, version):
    for fields in ({}, {"Authorization": "agent"}, SPELLINGS if version == "1.1" else {}):
        answer = keyed.get("https://allowed.test/v1/x", headers=fields, http_version=version)
        assert answer["status"] == 200
        assert seen(keyed, "Authorization") == [[VALUE]]


def test_secret_3_no_spelling_place_or_nomination_leaves_the_agent_s_own(gateway: Gateway):
    gateway.apply([{"host": "allowed.test", "inject": [AUTHORIZATION, API_KEY]}], secrets=SECRETS)
    head = "POST /v1/x HTTP/1.1\r\nHost: allowed.test\r\n"
    shapes = [
        "X_Api_Key: agent\r\nX-Api_Key: agent\r\nx-api-key: agent\r\nX-API-KEY: agent\r\n",
        "X-Api-Key: agent,agent\r\nX-Api-Key:\r\n",
        "Connection: close, X-Api-Key, Authorization\r\nX-Api-Key: agent\r\n",
    ]
    for shape in shapes:
        gateway.world.clear_records()
        raw = f"{head}{shape}Content-Length: 0\r\n\r\n"
        assert gateway.raw(raw, inside_tls="allowed.test:443")["status"] == 200
        (request,) = gateway.world.requests()
        assert "agent" not in str(request["headers"])
        assert seen(gateway, "X-Api-Key") == [[OTHER_VALUE]]
    chunked = f"{head}Transfer-Encoding: chunked\r\nTrailer: X-Api-Key\r\n\r\n"
    raw = chunked + "2\r\nok\r\n0\r\nX-Api-Key: agent\r\nX_Api_Key: agent\r\nX-Kept: 1\r\n\r\n"
    assert gateway.raw(raw, inside_tls="allowed.test:443")["status"] == 200
    (request,) = gateway.world.requests()
    assert "agent" not in json.dumps(request)


def test_secret_3_no_field_of_http_2_leaves_the_agent_s_own(keyed: Gateway):
    proxy = (keyed.pod.gateway, keyed.pod.proxy_port)
    sent = [("authorization", "agent-1"), ("x-kept", "1"), ("authorization", "agent-2")]
    for trailers in ([], sent):
        status = http2_status(proxy, "allowed.test", "/v1/x", sent, trailers)
        (request,) = keyed.world.requests()
        assert status == "200"
        assert "agent-" not in json.dumps(request)
        assert seen(keyed, "Authorization") == [[VALUE]]


Fields = list[tuple[str, str]]


def http2_status(
    proxy: tuple[str, int], name: str, path: str, fields: Fields, trailers: Fields
) -> str:
    """Status of the answer to a POST in a tunnel."""
    stream = tunnel(proxy, name, alpn="h2")
    config = h2.config.H2Configuration(header_encoding="latin-1", validate_outbound_headers=False)
    http2 = h2.connection.H2Connection(config)
    http2.initiate_connection()
    pseudo = [(":method", "POST"), (":scheme", "https"), (":authority", name), (":path", path)]
    http2.send_headers(1, [*pseudo, *fields])
    http2.send_data(1, b"ok", end_stream=not trailers)
    if trailers:
        http2.send_headers(1, trailers, end_stream=True)
    stream.send(http2.data_to_send())
    try:
        while data := stream.recv(ANSWER_S):
            for event in http2.receive_data(data):
                if isinstance(event, h2.events.ResponseReceived):
                    return {str(name): str(value) for name, value in event.headers}[":status"]
            stream.send(http2.data_to_send())
    finally:
        stream.close()
    return "closed"


def test_secret_3_a_handshake_of_a_websocket_carries_it(keyed: Gateway):
    keyed.world.origin(
        at="198.51.100.30:443", speaks="websocket-echo", cert={"names": ["*.wild.test"]}
    )
    keyed.world.dns.set({"ws.wild.test": ["198.51.100.30"]})
    keyed.apply([{"host": "ws.wild.test", "inject": AUTHORIZATION}], secrets=SECRETS_OF_KEYED)
    asked = {"Connection": "Upgrade, Authorization", "Upgrade": "websocket",
             "Sec-WebSocket-Version": "13", "Authorization": "agent",
             "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA=="}  # fmt: skip
    answer = keyed.get("https://ws.wild.test/ws", headers=asked)
    assert (answer["status"], answer["echo"]) == (101, True)
    (request,) = keyed.world.requests()
    named = {name.lower(): value for name, value in request["headers"]}
    assert named["authorization"] == VALUE
    assert named["connection"].lower() == "upgrade"


@pytest.mark.parametrize("version", ["1.1", "2"])
def test_secret_4_no_other_request_carries_it(keyed: Gateway, version):
    asked = {"headers": {"Authorization": "agent"}, "http_version": version}
    assert keyed.get("https://allowed.test/v1/x", **asked)["status"] == 200
    assert seen(keyed, "Authorization") == [[VALUE]]
    for url in ("https://allowed.test/v2/x", "https://allowed.test/v1%2fx", "https://other.test/v1/x",
                "https://a.wild.test/v1/x"):  # fmt: skip
        assert keyed.get(url, **asked)["status"] == 200
        assert seen(keyed, "Authorization") == [["agent"]]
    fronted = keyed.get("https://other.test/v1/x", inner_host="allowed.test", **asked)
    assert fronted["status"] in (403, 421)
    assert keyed.world.requests() == []


def test_secret_4_a_connection_that_is_used_again_is_judged_for_each_request(keyed: Gateway):
    head = "Host: allowed.test\r\nAuthorization: agent\r\n\r\n"
    paths = ["/v1/a", "/v2/b", "/v1/c", "/d"]
    raw = "".join(f"GET {path} HTTP/1.1\r\n{head}" for path in paths)
    asked = {"raw": raw, "inside_tls": "allowed.test:443", "answers": 4}
    answers = keyed.client.ask("raw", asked)
    assert [answer["status"] for answer in answers["responses"]] == [200] * 4
    assert seen(keyed, "Authorization") == [[VALUE], ["agent"], [VALUE], ["agent"]]


def test_secret_4_a_redirect_takes_it_nowhere(keyed: Gateway):
    target = {"status": 302, "headers": {"location": "https://other.test/v1/x"}}
    keyed.world.dns.set({**NAMES, "from.wild.test": ["198.51.100.30"]})
    keyed.world.origin(at="198.51.100.30:443", speaks="https", answer=target)
    redirecting = {"host": "from.wild.test", "inject": AUTHORIZATION}
    keyed.apply([redirecting, "other.test"], secrets=SECRETS_OF_KEYED)
    answer = keyed.get("https://from.wild.test/")
    assert answer["status"] == 302
    assert seen(keyed, "Authorization") == [[VALUE]]
    assert keyed.get(dict(answer["headers"])["location"])["status"] == 200
    assert seen(keyed, "Authorization") == [[]]


def test_secret_4_a_request_that_the_origin_would_repeat_to_the_agent_carries_none(
    keyed: Gateway,
):
    raw = "TRACE /v1/x HTTP/1.1\r\nHost: allowed.test\r\nAuthorization: agent\r\n\r\n"
    assert keyed.raw(raw, inside_tls="allowed.test:443")["status"] != 403
    assert seen(keyed, "Authorization") in ([], [["agent"]])  # by the plain entry beside it
    keyed.apply([KEYED], secrets=SECRETS_OF_KEYED)
    answers = [keyed.raw(raw, inside_tls="allowed.test:443")]
    for method in ("TRACE", "TRACK"):
        asked = {"method": method, "http_version": "2"}
        answers.append(keyed.get("https://allowed.test/v1/x", **asked))
    told = [(answer["status"], reason(answer)) for answer in answers]
    assert told == [(403, "method_not_allowed")] * 3
    assert keyed.world.requests() == []
    assert injected(keyed) == VALUE


def test_secret_4_it_is_never_sent_in_the_clear(gateway: Gateway):
    ports = [443, 8443]
    entry = {"host": "allowed.test", "ports": ports, "inject": AUTHORIZATION}
    gateway.apply([entry], secrets=SECRETS_OF_KEYED)
    assert gateway.get("https://allowed.test/")["status"] == 200
    assert seen(gateway, "Authorization") == [[VALUE]]
    answers = [gateway.get(f"http://allowed.test:{port}/") for port in ports]
    inside = gateway.raw(
        "GET / HTTP/1.1\r\nHost: allowed.test:8443\r\n\r\n", after_connect="allowed.test:8443"
    )
    assert [(answer["status"], reason(answer)) for answer in answers] == [(403, "tls_required")] * 2
    assert "tls_required" in inside["body"]
    assert gateway.world.requests() == []
    assert VALUE not in str(answers) + str(inside)


def test_secret_4_an_origin_that_can_not_prove_its_name_gets_none(gateway: Gateway):
    gateway.world.origin(at="198.51.100.40:443", speaks="https", cert={"names": ["evil.test"]})
    gateway.world.dns.set({"bad.wild.test": ["198.51.100.40"]})
    gateway.apply([{"host": "*.wild.test", "inject": AUTHORIZATION}], secrets=SECRETS_OF_KEYED)
    answer = gateway.get("https://bad.wild.test/")
    assert answer["status"] == 502
    assert VALUE not in str(answer)
    assert all("s3cr3t" not in str(connection) for connection in gateway.world.connections())


def test_secret_5_the_value_stands_nowhere_but_in_its_file_and_on_its_requests(keyed: Gateway):
    answers = [
        keyed.get("https://allowed.test/v1/x"),
        keyed.get("https://allowed.test:444/v1/x"),
        keyed.get("http://allowed.test:443/v1/x"),
        keyed.get("https://evil.test/v1/x"),
        keyed.get("https://allowed.test/v1/x", inner_host="evil.test"),
        keyed.raw("GET / HTTP/1.1\r\nHost: a b\r\n\r\n", inside_tls="allowed.test:443"),
    ]
    assert {answer["status"] for answer in answers} >= {200, 403}
    assert seen(keyed, "Authorization")[0] == [VALUE]
    assert "s3cr3t-4711" not in json.dumps(answers)
    wait_for(lambda: any(line.path == "/v1/x" for line in keyed.pod.requests_logged()))
    logged = [path.read_text() for path in keyed.pod.log_folder.iterdir()]
    assert "/v1/x" in "".join(logged)
    assert "s3cr3t-4711" not in "".join(logged)
    pod = keyed.pod
    for container in pod.containers.values():
        told = host.run(["docker", "inspect", container]).stdout
        told += host.run(["docker", "logs", container]).stdout
        assert "s3cr3t-4711" not in told
    dump = "import gateway.live as l; print(l.ENVOY.get('/config_dump?include_eds'))"
    dump += "; print(l.ENVOY.get('/stats')); print(l.ENVOY.get('/clusters'))"
    dumped = pod.exec("control", "env", *CONTROL_PYTHON, "-c", dump).stdout
    assert "credential_injector" in dumped  # control: the cluster is there
    assert "s3cr3t-4711" not in dumped
    assert "s3cr3t-4711" not in json.dumps(pod.status())
    search = ["grep", "-rl", "s3cr3t-4711", "/var/lib/abox", "/run/abox", "/etc"]
    (found,) = pod.exec("control", *search, check=False).stdout.split()
    assert found.startswith("/var/lib/abox/ca/secrets/api_key.")
    processes = "cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline | tr '\\0' ' '"
    for role in ("control", "proxy", "dns"):
        told = pod.exec(role, "sh", "-c", processes, check=False).stdout
        assert "PATH=" in told
        assert "s3cr3t-4711" not in told
    for role in ("proxy", "dns"):
        assert pod.exec(role, *search, check=False).stdout == ""
    sockets = pod.exec("dns", "ls", "/run/abox/sds", check=False)
    assert sockets.stdout == ""


def test_secret_5_a_failed_exchange_shows_nothing(gateway: Gateway):
    said = {"down": "", "junk": "something else\r\n\r\n", "cut": "HTTP/1.1 2"}
    addresses = {f"{label}.wild.test": f"198.51.100.{at}" for at, label in enumerate(said, 91)}
    gateway.world.dns.set({name: [address] for name, address in addresses.items()})
    for address, raw in zip(addresses.values(), said.values(), strict=True):
        if raw:
            gateway.world.origin(
                at=f"{address}:443", speaks="https", answer={"raw": raw}, alpn=["http/1.1"]
            )
    gateway.apply([{"host": "*.wild.test", "inject": AUTHORIZATION}], secrets=SECRETS_OF_KEYED)
    for name in addresses:
        for version in ("1.1", "2"):
            answer = gateway.get(f"https://{name}/", http_version=version)
            assert answer["status"] in (502, 503, 504), (name, answer)
            assert "s3cr3t-4711" not in json.dumps(answer)


CONTROL_PYTHON = ("PYTHONPATH=/opt/abox/lib", "/opt/abox/venv/bin/python3")


def test_secret_5_a_refused_document_does_not_repeat_it(keyed: Gateway):
    refused: list[dict[str, str]] = [
        {"api_key": "s3cr3t-4711\r\nX: y"},
        {"api_key": "s3cr3t-4711", "unused": "s3cr3t-4711"},
        {"other": "s3cr3t-4711"},
        {},
    ]
    for secrets in refused:
        answer = keyed.pod.apply([KEYED], secrets=secrets)
        assert answer["ok"] is False
        assert set(answer["error"]) == {"what", "why", "remedy"}
        assert "s3cr3t" not in json.dumps(answer)
    assert keyed.get("https://allowed.test/v1/x")["status"] == 200
    assert seen(keyed, "Authorization") == [[VALUE]]


def test_secret_6_another_value_is_live_at_once_and_nothing_restarts(keyed: Gateway):
    before = keyed.pod.status()
    starts = started(keyed)
    fresh = "Bearer n3w-0815"
    usual = timed(lambda: keyed.apply([KEYED, *ALLOW, "more.test"], secrets=SECRETS_OF_KEYED))
    keyed.apply([KEYED, *ALLOW], secrets=SECRETS_OF_KEYED)
    took = timed(lambda: keyed.apply([KEYED, *ALLOW], secrets={"api_key": fresh}))
    assert injected(keyed) == fresh
    after = keyed.pod.status()
    assert after["findings"] == []
    assert after["policy_hash"] not in ("", before["policy_hash"])
    assert fresh not in json.dumps(after)
    assert started(keyed) == starts
    left = keyed.pod.exec("control", "ls", "/var/lib/abox/ca/secrets").stdout.split()
    assert len(left) == 1
    assert took < max(LIVE_S, 2 * usual)  # on a busy machine every change takes longer


def timed(action: Callable[[], None]) -> float:
    """Seconds that an action takes."""
    since = time.monotonic()
    action()
    return time.monotonic() - since


def started(gateway: Gateway) -> list[str]:
    """When each container of the pod was started."""
    shown = ["docker", "inspect", "-f", "{{.State.StartedAt}}", *gateway.pod.containers.values()]
    return host.run(shown).stdout.split()


def test_secret_6_a_value_that_was_changed_by_hand_is_noticed_and_repaired(keyed: Gateway):
    assert keyed.pod.status()["policy_hash"]
    changed = "for file in /var/lib/abox/ca/secrets/*; do printf %s changed > $file; done"
    keyed.pod.exec("control", "sh", "-c", changed)
    status = keyed.pod.status()
    assert (status["policy_hash"], status["proxy"]) == ("", False)
    assert "secret api_key" in "".join(status["findings"])
    wait_for(lambda: injected(keyed) == "changed")  # control: the change did take effect
    keyed.apply([KEYED, *ALLOW], secrets=SECRETS_OF_KEYED)
    assert keyed.pod.status()["findings"] == []
    wait_for(lambda: injected(keyed) == VALUE)


def injected(gateway: Gateway) -> str:
    """What the proxy puts on a request."""
    gateway.world.clear_records()
    assert gateway.get("https://allowed.test/v1/x")["status"] == 200
    ((value,),) = seen(gateway, "Authorization")
    return value


def test_secret_6_the_values_outlive_every_container(keyed: Gateway):
    for role in ("proxy", "control"):
        host.run(["docker", "restart", "-t", "0", keyed.pod.containers[role]])
        keyed.pod.wait_until_ready()
    assert injected(keyed) == VALUE
    wait_for(lambda: keyed.pod.status()["findings"] == [])


def test_secret_6_a_removed_entry_takes_its_value_out_of_the_pod(keyed: Gateway):
    keyed.apply()
    asked = {"headers": {"Authorization": "agent"}}
    assert keyed.get("https://allowed.test/v1/x", **asked)["status"] == 200
    assert seen(keyed, "Authorization") == [["agent"]]
    assert keyed.pod.exec("control", "ls", "-A", "/var/lib/abox/ca/secrets").stdout == ""


def test_secret_6_without_its_value_a_request_is_refused(keyed: Gateway):
    assert injected(keyed) == VALUE
    keyed.pod.exec("control", "sh", "-c", "rm /var/lib/abox/ca/secrets/*")
    assert "secret api_key" in "".join(keyed.pod.status()["findings"])
    host.run(["docker", "restart", "-t", "0", keyed.pod.containers["proxy"]])
    keyed.pod.wait_until_ready()
    keyed.world.clear_records()
    answer = keyed.get("https://allowed.test/v1/x", headers={"Authorization": "agent"})
    assert (answer["status"], reason(answer)) == (502, "secret_missing")
    wait_for(lambda: "secret_missing" in {line.reason for line in keyed.pod.requests_logged()})
    assert keyed.world.requests() == []
    assert keyed.get("https://allowed.test/v2/x")["status"] == 200
    keyed.apply([KEYED, *ALLOW], secrets=SECRETS_OF_KEYED)
    assert injected(keyed) == VALUE
