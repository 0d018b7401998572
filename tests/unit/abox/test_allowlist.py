"""The policy and its verdict: deny by default, one answer whichever way it is asked."""

import json
import re
import time
from ipaddress import ip_address
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from abox.allowlist import (
    HEALTH_NAME,
    RULE_PASSIVE,
    Allow,
    Deny,
    Mode,
    Policy,
    Reason,
    Request,
    judge_address,
    judge_name,
    parse_policy,
    verdict,
)
from abox.errors import AboxErrors
from abox.name_shape import NAME_REGEX
from abox.paths import AmbiguousPathError, normalise_path

POLICY = parse_policy(
    [
        "example.com",
        "*.wild.test",
        {"host": "api.test.example", "ports": [443], "methods": ["GET"], "paths": ["/v1/*"]},
        {"host": "api.test.example", "ports": [443], "methods": ["POST"], "paths": ["/v2/*"]},
        {"host": "*.wild.test", "ports": [8443]},
        "198.51.100.10",
        "2001:db8::10",
    ],
    ["uploads.wild.test", "*.bad.wild.test", "example.org"],
    allow_private_cidrs=["198.51.100.0/24", "2001:db8::/32"],
)
PASSIVE = parse_policy(["198.51.100.10"], ["*.bad.test"], mode="passive",
                       allow_private_cidrs=["198.51.100.0/24"])  # fmt: skip


@pytest.mark.parametrize(
    ("request_", "rule"),
    [
        (Request("example.com", 443), "example.com"),
        (Request("EXAMPLE.Com", 80, "http"), "example.com"),
        (Request("example.com.", 80, "http"), "example.com"),
        (Request("a.wild.test", 443), "*.wild.test"),
        (Request("a.b.c.wild.test", 443), "*.wild.test"),
        (Request("a.wild.test", 8443), "*.wild.test ports 8443"),
        (Request("api.test.example", 443, path="/v1/a?x=1"),
         "api.test.example ports 443 GET /v1/*"),
        (Request("api.test.example", 443, method="POST", path="/v2/"),
         "api.test.example ports 443 POST /v2/*"),
        (Request("api.test.example", 443, method="CONNECT", path=""),
         "api.test.example ports 443 GET /v1/*"),
        (Request("example.com", 443, path="/a%2Fb//..;/"), "example.com"),
        (Request("example.com", 443, method="BREW"), "example.com"),
        (Request("198.51.100.10", 443), "198.51.100.10"),
        (Request("198.51.100.10.", 443), "198.51.100.10"),
        (Request("[2001:db8::10]", 443), "2001:db8::10"),
        (Request(HEALTH_NAME, 80, "http"), HEALTH_NAME),
        (Request(HEALTH_NAME.upper() + ".", 443), HEALTH_NAME),
    ],
)  # fmt: skip
def test_an_entry_allows(request_: Request, rule: str) -> None:
    assert verdict(POLICY, request_) == Allow(rule)


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        (Request("evil.test", 443), Reason.NOT_ALLOWED),
        (Request("wild.test", 443), Reason.NOT_ALLOWED),
        (Request("sub.example.com", 443), Reason.NOT_ALLOWED),
        (Request("notexample.com", 443), Reason.NOT_ALLOWED),
        (Request("example.com.evil.test", 443), Reason.NOT_ALLOWED),
        (Request("awild.test", 443), Reason.NOT_ALLOWED),
        (Request("uploads.wild.test", 443), Reason.DENIED),
        (Request("a.bad.wild.test", 443), Reason.DENIED),
        (Request("example.com", 22), Reason.PORT),
        (Request("example.com", 0), Reason.PORT),
        (Request("example.com", 65536 + 443), Reason.PORT),
        (Request("example.com", -1), Reason.PORT),
        (Request("api.test.example", 443, method="DELETE", path="/v1/a"), Reason.METHOD),
        (Request("api.test.example", 443, method="get", path="/v1/a"), Reason.METHOD),
        (Request("api.test.example", 443, method="POST", path="/v1/a"), Reason.PATH),
        (Request("api.test.example", 443, path="/v1/../v2/a"), Reason.PATH),
        (Request("api.test.example", 443, path="/v1/%2e%2e/v2/a"), Reason.PATH),
        (Request("api.test.example", 443, path="/v1/..%2Fv2"), Reason.AMBIGUOUS_PATH),
        (Request("api.test.example", 443, path="/v1//../x"), Reason.AMBIGUOUS_PATH),
        (Request("api.test.example", 443, path="/v1/..;/x"), Reason.AMBIGUOUS_PATH),
        (Request("evil.test\x00.wild.test", 443), Reason.MALFORMED_NAME),
        (Request("evil.test#.wild.test", 443), Reason.MALFORMED_NAME),
        (Request("evil.test@a.wild.test", 443), Reason.MALFORMED_NAME),
        (Request("\u0430.wild.test", 443), Reason.MALFORMED_NAME),
        (Request("%61.wild.test", 443), Reason.MALFORMED_NAME),
        (Request("..wild.test", 443), Reason.MALFORMED_NAME),
        (Request("example.com..", 443), Reason.MALFORMED_NAME),
        (Request("[example.com]", 443), Reason.MALFORMED_NAME),
        (Request("", 443), Reason.MALFORMED_NAME),
        (Request("com", 443), Reason.MALFORMED_NAME),
        (Request("1.2.3.4.5", 443), Reason.MALFORMED_NAME),
        (Request("a" * 64 + ".wild.test", 443), Reason.MALFORMED_NAME),
        (Request(f"x.{HEALTH_NAME}", 80), Reason.RESERVED_NAME),
        (Request("a.localhost", 80), Reason.RESERVED_NAME),
        (Request("host.docker.internal", 80), Reason.RESERVED_NAME),
        (Request(HEALTH_NAME, 22), Reason.PORT),
        (Request("198.51.100.11", 443), Reason.ADDRESS_LITERAL),
        (Request("198.51.100.10", 22), Reason.PORT),
        (Request("0306.51.100.10", 443), Reason.ADDRESS_LITERAL),
        (Request("198.51.100.11.", 443), Reason.ADDRESS_LITERAL),
        (Request("[2001:db8::10].", 443), Reason.MALFORMED_NAME),
        (Request("a_b.wild.test", 443), Reason.MALFORMED_NAME),
        (Request("[198.51.100.10]", 443), Reason.ADDRESS_LITERAL),
        (Request("8.8.8.8", 443), Reason.ADDRESS_LITERAL),
        (Request("127.0.0.1", 443), Reason.SPECIAL_ADDRESS),
        (Request("127.1", 443), Reason.SPECIAL_ADDRESS),
        (Request("2130706433", 443), Reason.SPECIAL_ADDRESS),
        (Request("[::1]", 443), Reason.SPECIAL_ADDRESS),
        (Request("[::1%25lo]", 443), Reason.SPECIAL_ADDRESS),
        (Request("[::ffff:198.51.100.10]", 443), Reason.SPECIAL_ADDRESS),
        (Request("169.254.169.254", 80), Reason.SPECIAL_ADDRESS),
    ],
)
def test_everything_else_is_denied_with_its_reason(request_: Request, reason: Reason) -> None:
    judged = verdict(POLICY, request_)
    assert isinstance(judged, Deny)
    assert judged.reason is reason


def test_a_denial_names_the_entry_that_denies_or_comes_nearest() -> None:
    assert verdict(POLICY, Request("a.bad.wild.test", 443)) == Deny(
        Reason.DENIED, "*.bad.wild.test"
    )
    assert verdict(POLICY, Request("example.com", 22)) == Deny(Reason.PORT, "example.com")
    assert verdict(POLICY, Request("evil.test", 443)) == Deny(Reason.NOT_ALLOWED, None)


def test_an_empty_list_allows_nothing_but_the_health_name() -> None:
    empty = parse_policy([])
    assert verdict(empty, Request("allowed.test", 80)) == Deny(Reason.NOT_ALLOWED)
    assert verdict(empty, Request(HEALTH_NAME, 80)) == Allow(HEALTH_NAME)
    assert empty.tcp_ports == ()


@pytest.mark.parametrize("policy", [POLICY, PASSIVE, parse_policy([])])
@pytest.mark.parametrize("port", [80, 443])
def test_the_health_name_answers_in_every_mode(policy: Policy, port: int) -> None:
    assert verdict(policy, Request(HEALTH_NAME, port)) == Allow(HEALTH_NAME)
    assert judge_name(policy, HEALTH_NAME) == Allow(HEALTH_NAME)
    assert judge_name(policy, f"data.{HEALTH_NAME}") == Deny(Reason.RESERVED_NAME)


@pytest.mark.parametrize(
    ("name", "port", "expected"),
    [
        ("anything.test", 25, Allow(RULE_PASSIVE)),
        ("a.bad.test", 443, Deny(Reason.DENIED, "*.bad.test")),
        ("bad.test", 443, Allow(RULE_PASSIVE)),
        ("anything.test", 0, Deny(Reason.PORT)),
        ("127.0.0.1", 80, Deny(Reason.SPECIAL_ADDRESS)),
        ("0177.0.0.1", 80, Deny(Reason.SPECIAL_ADDRESS)),
        ("[::1]", 80, Deny(Reason.SPECIAL_ADDRESS)),
        ("[evil.test]", 80, Deny(Reason.MALFORMED_NAME)),
        ("8.8.8.8", 80, Deny(Reason.ADDRESS_LITERAL)),
        ("198.51.100.10", 80, Allow("198.51.100.10")),
        ("198.51.100.10", 81, Deny(Reason.PORT, "198.51.100.10")),
        ("localhost", 80, Deny(Reason.MALFORMED_NAME)),
        ("a.localhost", 80, Deny(Reason.RESERVED_NAME)),
    ],
)
def test_passive_mode_allows_names_and_nothing_else(
    name: str, port: int, expected: Allow | Deny
) -> None:
    assert verdict(PASSIVE, Request(name, port)) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("example.com", Allow("example.com")),
        ("API.test.example.", Allow("api.test.example ports 443 GET /v1/*")),
        ("wild.test", Deny(Reason.NOT_ALLOWED)),
        ("uploads.wild.test", Deny(Reason.DENIED, "uploads.wild.test")),
        ("198.51.100.10", Deny(Reason.ADDRESS_LITERAL)),
        ("127.0.0.1", Deny(Reason.SPECIAL_ADDRESS)),
        ("x", Deny(Reason.MALFORMED_NAME)),
    ],
)
def test_the_name_filter_judges_by_the_same_lists(name: str, expected: Allow | Deny) -> None:
    assert judge_name(POLICY, name) == expected


@pytest.mark.parametrize(
    ("literal", "expected"),
    [
        ("8.8.8.8", Allow("public address")),
        ("198.51.100.7", Allow("198.51.100.0/24")),
        ("2001:db8::7", Allow("2001:db8::/32")),
        ("10.0.0.5", Deny(Reason.SPECIAL_ADDRESS)),
        ("::ffff:198.51.100.7", Deny(Reason.SPECIAL_ADDRESS)),
        ("169.254.169.254", Deny(Reason.SPECIAL_ADDRESS)),
    ],
)
def test_the_address_is_judged_at_dial(literal: str, expected: Allow | Deny) -> None:
    assert judge_address(POLICY, ip_address(literal)) == expected


LABELS = st.sampled_from(["a", "b", "wild", "test", "example", "com", "api", "bad", "xn--a", "1"])
HOSTS = st.lists(LABELS, min_size=2, max_size=4).map(".".join)
PATHS = st.lists(st.sampled_from(["v1", "v2", "", ".", "..", "%2e", "%2F", "a"]), max_size=4).map(
    lambda parts: "/" + "/".join(parts)
)
ENTRIES = st.fixed_dictionaries(
    {"host": st.builds(lambda star, host: f"*.{host}" if star else host, st.booleans(), HOSTS)},
    optional={
        "ports": st.lists(st.sampled_from([80, 443, 8443]), min_size=1),
        "methods": st.lists(st.sampled_from(["GET", "POST"]), min_size=1),
        "paths": st.lists(st.sampled_from(["/v1/*", "/v2", "/*/a"]), min_size=1),
    },
)


def parse_or_none(allow: list[Any], deny: list[str]) -> Policy | None:
    try:
        return parse_policy(allow, deny)
    except AboxErrors:
        return None


def covers(host: str, name: str) -> bool:
    return name.endswith(host[1:]) if host.startswith("*.") else name == host


def plainly_allowed(policy: Policy, request: Request) -> bool:
    """The verdict written down a second time, by regular expressions over all entries."""
    if not re.fullmatch(NAME_REGEX, request.name):
        return False
    if any(covers(host, request.name) for host in policy.deny):
        return False
    try:
        path = normalise_path(request.path)
    except AmbiguousPathError:
        path = ""
    return any(
        covers(entry.host, request.name)
        and request.port in entry.ports
        and (not entry.methods or request.method in entry.methods)
        and (not entry.paths or any(re.fullmatch(p.regex, path) for p in entry.patterns))
        for entry in policy.entries
    )


@given(
    st.lists(ENTRIES, max_size=6),
    st.lists(HOSTS, max_size=2),
    st.builds(
        Request,
        name=HOSTS,
        port=st.sampled_from([80, 443, 8443, 22]),
        method=st.sampled_from(["GET", "POST", "PUT"]),
        path=PATHS,
    ),
)
def test_the_verdict_agrees_with_a_plain_reading_of_the_lists(
    allow: list[Any], deny: list[str], request: Request
) -> None:
    policy = parse_or_none(allow, deny)
    if policy is None:
        return
    judged = verdict(policy, request)
    assert isinstance(judged, Allow) is plainly_allowed(policy, request)
    if isinstance(judged, Allow):
        assert isinstance(judge_name(policy, request.name), Allow)
        assert isinstance(
            verdict(policy, Request(request.name, request.port, method="CONNECT")), Allow
        )
        assert policy.tcp_ports is not None
        assert request.port in policy.tcp_ports


@given(st.lists(ENTRIES, max_size=6), st.lists(HOSTS, max_size=2))
def test_a_document_gives_the_same_policy_back_also_through_json_and_floats(
    allow: list[Any], deny: list[str]
) -> None:
    policy = parse_or_none(allow, deny)
    if policy is None:
        return
    document = json.loads(json.dumps(policy.to_document()), parse_int=float)
    again = Policy.from_document(document)
    assert again == policy
    assert again.hash == policy.hash


@given(st.text(max_size=30), st.integers(-5, 70000), st.text(max_size=10), st.text(max_size=20))
def test_no_request_makes_the_verdict_fail_or_passes_by_chance(
    name: str, port: int, method: str, path: str
) -> None:
    for policy in (POLICY, parse_policy([])):
        verdict(policy, Request(name, port, method=method, path=path))
    assert isinstance(verdict(parse_policy([]), Request(name, port)), Deny)


def test_the_hash_is_stable_and_follows_every_part() -> None:
    base: dict[str, Any] = {"allow": ["a.test"], "deny": ["b.test"]}
    changed: list[dict[str, Any]] = [
        {**base, "allow": ["c.test"]},
        {**base, "allow": [{"host": "a.test", "ports": [443]}]},
        {**base, "allow": [{"host": "a.test", "methods": ["GET"]}]},
        {**base, "allow": [{"host": "a.test", "paths": ["/a"]}]},
        {**base, "deny": []},
        {**base, "mode": "passive"},
        {**base, "passive_acknowledged": True},
        {**base, "tls_interception": False},
        {**base, "allow_private_cidrs": ["10.66.0.0/16"]},
        {**base, "dns_queries_per_minute": 300},
    ]
    hashes = {parse_policy(**settings).hash for settings in [base, *changed]}
    assert len(hashes) == len(changed) + 1
    assert parse_policy(**base).hash == parse_policy(["A.test."], ["b.test"]).hash
    assert re.fullmatch(r"[0-9a-f]{64}", parse_policy(**base).hash)


def test_the_hash_does_not_change_between_versions() -> None:
    expected = "847f1b5c8158f3ca8e4e8574358c673b333c800df3802de55d44f2e20bf51dda"
    policy = parse_policy(
        ["example.com", "*.wild.test",
         {"host": "api.example.net", "ports": [443], "methods": ["GET"], "paths": ["/v1/*"]},
         "198.51.100.10"],
        ["uploads.wild.test"],
        allow_private_cidrs=["198.51.100.0/24", "2001:db8::/32"],
    )  # fmt: skip
    assert policy.hash == expected


@pytest.mark.parametrize("key", list(Policy().to_document()))
def test_a_document_without_a_key_or_with_another_is_refused(key: str) -> None:
    document = POLICY.to_document()
    value = document.pop(key)
    with pytest.raises(AboxErrors, match=f"policy.{key}: the key is missing"):
        Policy.from_document(document)
    with pytest.raises(AboxErrors, match=f"policy.{key}x: the key is unknown"):
        Policy.from_document({**POLICY.to_document(), f"{key}x": value})


def test_a_document_is_judged_again() -> None:
    with pytest.raises(AboxErrors, match=r"policy.allow\[0\]"):
        Policy.from_document({**POLICY.to_document(), "allow": [{"host": "*"}]})


@pytest.mark.parametrize(
    ("settings", "keys"),
    [
        ({"allow": "allowed.test"}, ["allow"]),
        ({"allow": {"allowed.test": None}}, ["allow"]),
        ({"allow": None}, ["allow"]),
        ({"allow": [], "deny": "x"}, ["deny"]),
        ({"allow": [], "mode": "open"}, ["mode"]),
        ({"allow": [], "mode": True}, ["mode"]),
        ({"allow": [], "mode": ["active"]}, ["mode"]),
        ({"allow": [], "tls_interception": "no"}, ["tls_interception"]),
        ({"allow": [], "tls_interception": 0}, ["tls_interception"]),
        ({"allow": [], "passive_acknowledged": 1}, ["passive_acknowledged"]),
        ({"allow": [], "dns_queries_per_minute": 0}, ["dns_queries_per_minute"]),
        ({"allow": [], "dns_queries_per_minute": 60_001}, ["dns_queries_per_minute"]),
        ({"allow": [], "dns_queries_per_minute": True}, ["dns_queries_per_minute"]),
        ({"allow": [], "dns_queries_per_minute": 0.5}, ["dns_queries_per_minute"]),
        ({"allow": [], "dns_queries_per_minute": "300"}, ["dns_queries_per_minute"]),
        ({"allow": [], "allow_private_cidrs": "10.66.0.0/16"}, ["allow_private_cidrs"]),
        ({"allow": ["*"], "deny": ["*"], "mode": 1, "allow_private_cidrs": ["::/0"]},
         ["mode", "allow_private_cidrs[0]", "allow[0]", "deny[0]"]),
    ],
)  # fmt: skip
def test_all_refusals_come_in_one_run_each_with_its_key(
    settings: dict[str, Any], keys: list[str]
) -> None:
    with pytest.raises(AboxErrors) as caught:
        parse_policy(**settings)
    told = [error.what.removeprefix("abox:sandbox.").split(":")[0] for error in caught.value.errors]
    assert told == keys


@pytest.mark.parametrize("reason", list(Reason))
def test_every_reason_has_words_and_a_code_fit_for_logs(reason: Reason) -> None:
    assert reason.text
    assert re.fullmatch(r"[a-z_]+", reason.value)


def test_egress_ports_are_those_of_all_entries_and_all_in_passive_mode() -> None:
    assert POLICY.tcp_ports == (80, 443, 8443)
    assert PASSIVE.tcp_ports is None
    assert PASSIVE.mode is Mode.PASSIVE


def test_a_hundred_thousand_entries_are_judged_at_once() -> None:
    policy = parse_policy([f"host-{i}.example.com" for i in range(100_000)])
    verdict(policy, Request("warm.example.com", 443))
    start = time.process_time()
    for i in range(10_000):
        assert isinstance(verdict(policy, Request(f"host-{i}.example.com", 443)), Allow)
    assert time.process_time() - start < 2  # seconds; a walk over all entries takes minutes


WAYS = parse_policy(
    ["*.wild.test", {"host": "pin.wild.test", "tls": "passthrough"},
     {"host": "*.pin.test", "tls": "passthrough", "ports": [443]}, "seen.pin.test"]
)  # fmt: skip


@pytest.mark.parametrize(
    ("name", "port", "way"),
    [("a.wild.test", 443, "intercept"), ("pin.wild.test", 443, "passthrough"),
     ("x.pin.test", 443, "passthrough"), ("seen.pin.test", 443, "intercept"),
     ("other.test", 443, "intercept")],
)  # fmt: skip
def test_tls_passes_as_the_most_exact_entry_says(name: str, port: int, way: str) -> None:
    assert WAYS.way_to(name, port) == way


def test_an_entry_may_ask_for_interception_where_the_stack_does_without() -> None:
    limited = {"host": "a.test", "tls": "intercept", "paths": ["/v1/*"]}
    policy = parse_policy(["b.test", limited], tls_interception=False)
    assert policy.way_to("a.test", 443) == "intercept"
    assert policy.way_to("b.test", 443) == "passthrough"
    assert Policy.from_document(policy.to_document()) == policy


def test_one_host_and_port_can_not_pass_two_ways() -> None:
    raw = ["a.test", {"host": "a.test", "ports": [443], "tls": "passthrough"}]
    with pytest.raises(AboxErrors, match=r"a\.test has entries with tls: intercept and"):
        parse_policy(raw)
    assert parse_policy([{"host": "a.test", "ports": [80]}, raw[1]])
