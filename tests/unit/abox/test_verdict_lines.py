"""Verdicts read back from lines of Envoy and Unbound."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from abox.verdict_lines import parse_dns_line, parse_http_line
from abox.verdict_log import ACCESS_LOG_FIELDS

LINE = {
    "address": "198.51.100.10:443", "details": "via_upstream", "duration_ms": 7, "flags": "-",
    "mark": "tls", "method": "GET", "name": "a.test", "path": "/x", "port": "443",
    "protocol": "HTTP/2", "reason": None, "received": 0, "rule": "a.test", "sandbox": "dev",
    "sent": 222, "side": "inner", "status": 200, "time": "2026-11-30T04:27:08.483Z",
    "tls_failure": None,
}  # fmt: skip


def http(**changes):
    return parse_http_line(json.dumps({**LINE, **changes}))


def test_the_fields_read_are_those_that_envoy_writes():
    assert set(LINE) - {"sandbox", "side"} == set(ACCESS_LOG_FIELDS)


def test_a_request_is_read():
    found = http()
    assert found.allowed
    assert (found.name, found.port, found.method, found.path) == ("a.test", 443, "GET", "/x")
    assert found.time == 1796012828.483
    assert found.to_document()["address"] == "198.51.100.10:443"
    assert found.summary() == "allow GET   a.test:443/x 200 (a.test)"


@pytest.mark.parametrize(
    ("changes", "allowed", "reason"),
    [
        ({"status": 403, "details": "direct_response", "reason": "not_allowed"}, False,
         "not_allowed"),
        ({"status": 403, "details": "direct_response", "reason": "port_not_allowed",
          "mark": "name_mismatch"}, False, "name_mismatch"),
        ({"status": 403, "details": "rbac_access_denied_matched_policy[none]"}, False,
         "special_purpose_address"),
        ({"status": 400, "details": "http1.codec_error"}, False, "malformed_request"),
        ({"status": 403}, True, None),
        ({"status": 404}, True, None),
        ({"status": 503}, True, None),
        ({"status": 502, "details": "dns_resolution_failure", "flags": "DF"}, True,
         "upstream_name"),
        ({"status": 502, "details": "x", "flags": "UF",
          "tls_failure": "TLS_error:CERTIFICATE_VERIFY_FAILED"}, True, "upstream_certificate"),
        ({"status": 502, "details": "x", "flags": "UF"}, True, "upstream_unreachable"),
    ],
)  # fmt: skip
def test_a_denial_is_told_from_an_origins_own_answer(changes, allowed, reason):
    found = http(**changes)
    assert (found.allowed, found.reason) == (allowed, reason)


def test_a_tunnel_that_ends_in_the_proxy_is_told():
    found = http(method="CONNECT", address="envoy://intercept/", path=None)
    assert found.tunnel
    assert found.address is None


def reply(client="10.10.0.10", name="evil.test.", rcode="NXDOMAIN", kind="A") -> str:
    return f"[1796013749] unbound[9:0] reply: {client} {name} {kind} IN {rcode} 0.000000 1 53"


def test_a_name_is_read():
    found = parse_dns_line(reply())
    assert found is not None
    assert (found.name, found.type, found.rcode, found.allowed) == (
        "evil.test",
        "A",
        "NXDOMAIN",
        False,
    )
    assert found.summary() == "DENY  A     evil.test NXDOMAIN"
    resolved = parse_dns_line(reply(rcode="NOERROR"))
    assert resolved is not None
    assert resolved.allowed


@pytest.mark.parametrize(
    "line",
    [
        reply(client="127.0.0.1"),
        reply(name="8f57.abox-probe.invalid."),
        "[1796013749] unbound[9:0] info: start of service (unbound 1.17.1).",
        reply()[:40],
        "",
    ],
)
def test_what_the_gateway_does_for_itself_is_no_verdict(line):
    assert parse_dns_line(line) is None


@given(st.text())
def test_no_line_raises(line):
    parse_dns_line(line)
    assert parse_http_line(line) is None or line.lstrip().startswith("{")


@given(
    st.dictionaries(
        st.sampled_from(sorted(LINE)), st.none() | st.text() | st.integers() | st.lists(st.text())
    )
)
def test_no_value_of_a_field_raises(fields):
    http(**fields)
