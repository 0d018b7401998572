"""Verdicts read from lines of Envoy and Unbound."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from abox.name_table import NameTable
from abox.verdict_log import Outcome
from abox.verdict_sources import (
    ACCESS_LOG_FIELDS,
    other_lines,
    read_replies,
    read_reply,
    read_request,
    read_requests,
    split_denials,
)
from tests.unit.abox.raw_lines import DENIED, LINE, reply, request

TABLE = NameTable(allow=frozenset({"a.test", "*.wild.test"}), deny=frozenset({"no.wild.test"}))


def judge(name):
    return (TABLE.judge(name),)


def read(**changes):
    found = read_request({**LINE, **changes}, "dev", judge)
    assert found is not None
    return found


def read_name(*args, **kwargs):
    ((group,), bad) = read_replies(reply(*args, **kwargs))
    assert bad == 0
    return read_reply(group[0], "dev", judge)


def test_the_fields_read_are_those_that_envoy_writes():
    assert set(LINE) == set(ACCESS_LOG_FIELDS)


def test_a_request_is_read():
    found = read()
    assert found.allowed
    assert (found.name, found.port, found.method, found.path) == ("a.test", 443, "GET", "/x")
    assert found.time == 1796012828.483
    assert (found.received, found.sent, found.duration_ms) == (3, 222, 7)
    assert found.address == "198.51.100.10:443"
    assert found.summary() == "allow GET   a.test:443/x 200 (a.test)"


@pytest.mark.parametrize(
    ("changes", "allowed", "reason"),
    [
        (DENIED, False, "not_allowed"),
        ({**DENIED, "reason": "port_not_allowed", "mark": "name_mismatch"}, False,
         "name_mismatch"),
        ({"status": 403, "details": "rbac_access_denied_matched_policy[none]"}, False,
         "special_purpose_address"),
        ({"status": 400, "details": "http1.codec_error"}, False, "malformed_request"),
        ({"status": 431, "details": "request_headers_too_large"}, False, "head_too_large"),
        ({"status": 400, "details": "direct_response", "mark": "malformed_request"}, False,
         "malformed_request"),
        ({"status": 403, "details": "upgrade_failed"}, False, "switch_not_allowed"),
        ({"status": 403}, True, None),
        ({"status": 404}, True, None),
        ({"status": 503}, True, None),
        ({"status": 502, "details": "dns_resolution_failure", "flags": "DF"}, True,
         "upstream_name"),
        ({"status": 502, "details": "x", "flags": "UF",
          "tls_failure": "TLS_error:CERTIFICATE_VERIFY_FAILED"}, True, "upstream_certificate"),
        ({"status": 502, "details": "x", "flags": "UF",
          "tls_failure": "TLS_error:CERTIFICATE_VERIFY_FAILED:certificate_has_expired"}, True,
         "upstream_certificate_expired"),
        ({"status": 502, "details": "x", "flags": "UF",
          "tls_failure": "TLS_error:SSLV3_ALERT_HANDSHAKE_FAILURE"}, True, "client_certificate"),
        ({"status": 502, "details": "x", "flags": "UF"}, True, "upstream_unreachable"),
    ],
)  # fmt: skip
def test_a_denial_is_told_from_an_origins_own_answer(changes, allowed, reason):
    found = read(**changes)
    assert (found.allowed, found.reason) == (allowed, reason)


def test_a_tunnel_that_ends_in_the_proxy_is_told():
    found = read(method="CONNECT", address="envoy://intercept/", path=None)
    assert found.tunnel
    assert found.address is None


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({}, "a.test"),
        ({"name": "x.wild.test"}, "*.wild.test"),
        ({"rule": "a.test ports 443"}, "a.test ports 443"),
        ({"rule": "mode: passive"}, "mode: passive"),
        ({**DENIED, "name": "evil.test"}, None),
        ({**DENIED, "reason": "port_not_allowed"}, "a.test"),
        ({**DENIED, "mark": "name_mismatch"}, None),
        ({**DENIED, "name": ""}, None),
    ],
)
def test_a_rule_that_is_the_host_itself_is_filled_in(changes, rule):
    assert read(**changes).rule == rule


def test_requests_of_the_same_verdict_are_read_together():
    data = request() + request(path="/y", sent=1) + request(**DENIED) + request(method="POST")
    groups, bad = read_requests(data)
    assert [len(group) for group in groups] == [3, 1]
    assert bad == 0


def test_a_damaged_line_hides_no_other():
    lines = [request(path=f"/{n}") for n in range(20)]
    lines[7] = lines[7][:30] + b"\n"
    lines[8] = b'[1, 2], {"x": 1}\n'
    lines[9] = b"[" * 100_000 + b"\n"
    groups, bad = read_requests(b"".join(lines))
    paths = [one["path"] for group in groups for one in group]
    assert paths == [f"/{n}" for n in range(20) if n not in (7, 8, 9)]
    assert bad == 3


@given(st.binary(max_size=80))
def test_no_line_raises(noise):
    data = noise.replace(b"\n", b" ") + b"\n"
    for group in read_requests(data)[0]:
        read_request(group[0], "dev", judge)
    assert read_replies(data)[0] == []


@given(
    st.dictionaries(
        st.sampled_from(sorted(LINE)), st.none() | st.text() | st.integers() | st.lists(st.text())
    )
)
def test_no_value_of_a_field_raises(changes):
    read_requests(json.dumps({**LINE, **changes}).encode() + b"\n")
    read_request({**LINE, **changes}, "dev", judge)


@pytest.mark.parametrize(
    ("name", "rcode", "outcome", "reason", "rule"),
    [
        ("a.test", "NOERROR", "allow", None, "a.test"),
        ("x.wild.test", "NOERROR", "allow", None, "*.wild.test"),
        ("x.wild.test", "NXDOMAIN", "allow", "upstream_name", "*.wild.test"),
        ("x.wild.test", "SERVFAIL", "allow", "upstream_name", "*.wild.test"),
        ("evil.test", "NXDOMAIN", "deny", "not_allowed", None),
        ("evil.test", "SERVFAIL", "deny", "not_allowed", None),
        ("no.wild.test", "NXDOMAIN", "deny", "denied", "no.wild.test"),
        ("x.localhost", "NXDOMAIN", "deny", "reserved_name", None),
        ("10.0.0.1", "NXDOMAIN", "deny", "address_literal", None),
        ("a?b.test", "NXDOMAIN", "deny", "malformed_name", None),
        ("evil.test", "REFUSED", "deny", "not_allowed", None),
        ("x.wild.test", "REFUSED", "deny", "query_budget_spent", "*.wild.test"),
        ("x.wild.test", "FORMERR", "deny", "malformed_request", "*.wild.test"),
        ("EVIL.test", "NXDOMAIN", "deny", "not_allowed", None),
    ],
)
def test_a_name_is_judged_like_the_proxy_judges_it(name, rcode, outcome, reason, rule):
    found = read_name(name, rcode=rcode)
    assert (found.verdict, found.reason, found.rule) == (outcome, reason, rule)
    assert (found.name, found.rcode, found.type) == (name.lower(), rcode, "A")
    assert (found.time, found.sent, found.duration_ms) == (1796013749.0, 53, 12)


@pytest.mark.parametrize(
    ("rcode", "outcome", "reason", "rule"),
    [
        ("NOERROR", "allow", None, "a.test"),
        ("NXDOMAIN", "deny", "not_allowed", None),
        ("SERVFAIL", "deny", "not_allowed", None),
    ],
)
def test_while_two_policies_may_have_judged_the_answer_decides(rcode, outcome, reason, rule):
    ((group,), _) = read_replies(reply("a.test", rcode=rcode))
    for tables in ((TABLE, NameTable()), (NameTable(), TABLE)):
        both = tuple(one.judge("a.test") for one in tables)
        found = read_reply(group[0], "dev", {"a.test": both}.__getitem__)
        assert (found.verdict, found.reason, found.rule) == (outcome, reason, rule)


def test_a_name_reads_well():
    assert read_name().summary() == "DENY  A     evil.test NXDOMAIN not_allowed"


def test_answers_of_the_same_name_and_code_are_read_together():
    data = reply() + reply("EVIL.test", kind="AAAA") + reply("a.test", rcode="NOERROR")
    groups, bad = read_replies(data + b"[1] unbound[9:0] info: start of service\n")
    assert [len(group) for group in groups] == [2, 1]
    assert bad == 1


def test_plain_denials_are_split_off_without_a_look():
    kept, count = split_denials(reply() + reply("a.test", rcode="NOERROR") + reply(rcode="REFUSED"))
    assert kept == reply("a.test", rcode="NOERROR")
    assert count == 2


def test_lines_that_are_glued_together_are_no_answers():
    whole = reply()
    assert read_replies(whole[:60] + reply("a.test", rcode="NOERROR"))[0] == []


def test_what_unbound_says_of_itself_is_told_in_plain_characters():
    data = reply() + b"[1] unbound[9:0] error: \x1b[2J\xff bad\n"
    assert other_lines(data, 5) == ["[1] unbound[9:0] error: \\x1b[2J\\xff bad"]


@given(st.text(alphabet="abc?*-_.0123456789", min_size=1, max_size=60))
def test_every_name_that_unbound_prints_is_read(name):
    groups, bad = read_replies(reply(name))
    assert bad == 0
    found = read_reply(groups[0][0], "dev", judge)
    assert found.verdict is Outcome.DENY or TABLE.allows(str(found.name))
