"""Routes and scripts together give the verdict that abox.allowlist gives."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from abox.allowlist import Allow, Deny, Policy, Reason, Request, parse_policy, verdict
from abox.errors import AboxErrors
from abox.render.envoy_lua import INNER_SCRIPT, OUTER_SCRIPT, PRIVATE_HEADERS
from abox.render.envoy_routes import (
    CLUSTER_RESOLVE,
    RBAC_FILTER,
    Side,
    render_routes,
    route_configuration,
)
from tests.unit.abox.render.envoy_model import Message, Proxy, mark

LONG = f"{'a.' * 80}wild.test"
"""Longer than what a wildcard covers."""

LABELS = ["a", "b", "www", "api", "wild", "no", "x-1", "_s"]
NAMES = [f"{label}.{zone}" for label in LABELS for zone in ("wild.test", "allowed.test", "com.au")]
HOSTS = [
    *NAMES,
    *("wild.test", "allowed.test", "a.b.wild.test", "b.no.wild.test", "evil.test", "localhost"),
    *("healthcheck.abox.local", "data.healthcheck.abox.local", "host.docker.internal", "wild"),
    *("198.51.100.10", "198.51.100.11", "10.0.0.1", "[2001:db8::10]", "[::1]", "0x7f000001"),
    *("2130706433", "0177.0.0.1", "a..wild.test", "-.wild.test", "%61.wild.test", "a b.wild.test"),
    *(f"{'a.' * 72}wild.test", f"{'a.' * 76}wild.test", LONG, f"b.{LONG}", f"{'a.' * 80}no.test"),
    *("WWW.Wild.Test", "\xd0\xb0llowed.test", "a.wild.test.1", "x.wild", "test", ""),
]
PATHS = ["/", "/v1/", "/v1/x", "/v1/../v2", "/v2/x", "/v1%2fx", "/v1/%2e%2e/v2/x", "/v1//x", "//"]

ENTRY_HOSTS = ["wild.test", LONG, "*.wild.test", "allowed.test", "api.wild.test", "*.no.wild.test"]
ports = st.lists(st.sampled_from([80, 443, 8080]), min_size=1, unique=True)
limits = {
    "methods": st.lists(st.sampled_from(["GET", "POST"]), min_size=1, unique=True),
    "paths": st.lists(st.sampled_from(["/v1/*", "/v2/x", "/"]), min_size=1, unique=True),
}
entries = st.lists(
    st.one_of(
        st.sampled_from([*ENTRY_HOSTS, "198.51.100.10", "2001:db8::10"]),
        st.fixed_dictionaries(
            {"host": st.sampled_from(ENTRY_HOSTS)}, optional={"ports": ports, **limits}
        ),
        st.fixed_dictionaries(
            {
                "host": st.sampled_from(ENTRY_HOSTS),
                "inject": st.sampled_from(
                    [{"header": "Authorization", "secret": s} for s in ("one", "two")]
                ),
            },
            optional={"ports": st.sampled_from([[443], [8080], [443, 8080]]), **limits},
        ),
    ),
    max_size=5,
)
denied = st.lists(st.sampled_from(["no.wild.test", "*.no.wild.test", "allowed.test"]), max_size=2)


def parse_or_none(allow: list[object], deny: list[str], mode: str) -> Policy | None:
    """The policy; None if an injection in it could never happen."""
    cidrs = ["198.51.100.0/24", "2001:db8::/32"]
    try:
        return parse_policy(allow, deny, mode=mode, allow_private_cidrs=cidrs)
    except AboxErrors:
        return None


modes = st.sampled_from(["active", "passive"])
policies = st.builds(parse_or_none, entries, denied, modes).filter(lambda policy: policy)
SOME = parse_policy(["allowed.test", {"host": "*.wild.test", "paths": ["/v1/*"]}], ["no.wild.test"])

LOOSE = {Reason.SPECIAL_ADDRESS, Reason.ADDRESS_LITERAL, Reason.MALFORMED_NAME}
"""An address that isn't an entry is refused for one of these: which one is told by its spelling."""


def agree(policy: Policy, request: Request, found) -> None:
    wanted = verdict(policy, request)
    if isinstance(wanted, Allow):
        assert found.cluster or found.status == 200, (wanted, found)
        assert found.secrets == tuple(one.secret for one in wanted.inject)
        return
    assert found.status == 403, (wanted, found)
    if wanted.reason in LOOSE:
        assert found.reason in set(LOOSE)
    else:
        assert found.reason == wanted.reason


@settings(max_examples=600, deadline=None)
@given(policies, st.sampled_from(HOSTS), st.sampled_from([80, 443, 8080, 81]),
       st.sampled_from(["GET", "POST", "PUT"]), st.sampled_from(PATHS))  # fmt: skip
@example(SOME, "www.wild.test", 80, "GET", "/v1/../v2")
def test_a_plain_request_gets_the_verdict(policy, host, port, method, path):
    """One allowlist: the proxy's routes and the pure verdict never disagree."""
    found = Proxy(policy).plain(f"{host}:{port}", method, path)
    agree(policy, Request(host, port, "http", method, path), found)


@settings(max_examples=600, deadline=None)
@given(policies, st.sampled_from(HOSTS), st.sampled_from([80, 443, 8080, 81]))
def test_a_connect_gets_the_verdict(policy, host, port):
    """A CONNECT is judged by name and port."""
    found = Proxy(policy).plain(f"{host}:{port}", "CONNECT")
    agree(policy, Request(host, port, method="CONNECT"), found)


@settings(max_examples=600, deadline=None)
@given(policies, st.sampled_from(HOSTS), st.sampled_from([80, 443, 8080]),
       st.sampled_from(["GET", "POST", "TRACE", "TRACK"]), st.sampled_from(PATHS))  # fmt: skip
def test_a_request_inside_a_tunnel_gets_the_verdict(policy, host, port, method, path):
    """Inside TLS the request is judged again, by the same rules."""
    found = Proxy(policy).inside(f"{host}:{port}", method, path)
    agree(policy, Request(host, port, "https", method, path), found)


def test_before_the_first_policy_only_the_health_name_answers():
    proxy = Proxy(None)
    assert proxy.plain("healthcheck.abox.local").status == 200
    assert proxy.plain("healthcheck.abox.local:443", "CONNECT").cluster == "intercept"
    assert proxy.inside("healthcheck.abox.local:443").status == 200
    assert proxy.plain("allowed.test").reason == Reason.NO_POLICY
    assert proxy.plain("allowed.test:443", "CONNECT").reason == Reason.NO_POLICY


@pytest.mark.parametrize("authority", ["allowed.test:", "allowed.test:0", "allowed.test:443:22",
                                       "allowed.test:65536", "allowed.test:0443", "allowed.test",
                                       "u@allowed.test:443", ":443", ""])  # fmt: skip
def test_an_authority_that_could_be_read_in_two_ways_opens_no_tunnel(authority):
    assert Proxy(SOME).plain("allowed.test:443", "CONNECT").cluster == "intercept"
    assert Proxy(SOME).plain(authority, "CONNECT").reason == Reason.MALFORMED_NAME


def test_a_clear_text_request_for_https_is_refused():
    headers = {":method": "GET", ":authority": "allowed.test", ":scheme": "https", ":path": "/"}
    assert mark(OUTER_SCRIPT, Message(headers))["x-abox-judged"] == Reason.NOT_TLS


@pytest.mark.parametrize(
    ("authority", "server_name"),
    [("evil.test", "allowed.test"), ("allowed.test", "evil.test"), ("allowed.test", ""),
     ("allowed.test:444", "allowed.test"), ("evil.test", "evil.test")],
)  # fmt: skip
def test_names_that_do_not_agree_are_refused(authority, server_name):
    """No domain fronting: Host, server name and CONNECT must be one name."""
    headers = {":method": "GET", ":authority": authority, ":scheme": "https", ":path": "/"}
    marked = mark(INNER_SCRIPT, Message(headers, server_name, "allowed.test:443"))
    assert marked["x-abox-judged"] == Reason.NAME_MISMATCH


def test_tunnels_are_not_intercepted_where_the_stack_says_so():
    policy = parse_policy(["allowed.test"], tls_interception=False)
    assert Proxy(policy).plain("allowed.test:443", "CONNECT").cluster == "tunnel"
    assert Proxy(policy).plain("healthcheck.abox.local:443", "CONNECT").cluster == "intercept"
    table = route_configuration(policy, Side.DIAL)
    assert any("route" in route for host in table["virtual_hosts"] for route in host["routes"])
    intercepted = route_configuration(parse_policy(["allowed.test"]), Side.DIAL)
    routes = [route for host in intercepted["virtual_hosts"] for route in host["routes"]]
    assert not any("route" in route for route in routes)


def test_a_route_that_dials_has_the_address_rule_and_no_rule_is_ever_disabled():
    """Envoy drops a disabled filter before the script has marked the request."""
    passed = {"host": "pass.test", "tls": "passthrough"}
    for text in render_routes(parse_policy(["allowed.test", "*.wild.test", passed])).values():
        assert '"disabled"' not in text
        table = json.loads(text)["resources"][0]
        assert "rbac" in table["typed_per_filter_config"][RBAC_FILTER]
        for host in table["virtual_hosts"]:
            for route in host["routes"]:
                cluster = route.get("route", {}).get("cluster", "")
                dials = cluster.startswith("origin_") or cluster == CLUSTER_RESOLVE
                assert dials == (RBAC_FILTER not in route.get("typed_per_filter_config", {}))


def test_marks_never_reach_an_origin():
    for side in Side:
        table = route_configuration(SOME, side)
        assert set(PRIVATE_HEADERS) <= set(table["request_headers_to_remove"])


def test_a_long_plain_list_is_one_virtual_host():
    policy = parse_policy([f"n{number}.allowed.test" for number in range(2000)])
    hosts = route_configuration(policy, Side.OUTER)["virtual_hosts"]
    assert len(hosts) == 4
    assert len(render_routes(policy)[Side.OUTER]) < 2000 * 40


def test_equal_policies_give_equal_bytes():
    one = parse_policy(["b.test.example", "a.test.example"])
    other = parse_policy(["b.test.example", "a.test.example"])
    assert render_routes(one) == render_routes(other)


def test_a_denial_names_its_rule():
    wanted = verdict(SOME, Request("no.wild.test", 80))
    assert isinstance(wanted, Deny)
    table = route_configuration(SOME, Side.OUTER)
    host = next(h for h in table["virtual_hosts"] if "no.wild.test" in h["domains"])
    fields = host["routes"][0]["metadata"]["filter_metadata"]["abox"]
    assert (fields["reason"], fields["rule"]) == (wanted.reason, wanted.rule)
