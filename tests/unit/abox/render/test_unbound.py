"""The resolvers' configuration: what is served, what is stripped, how a zone is read."""

from __future__ import annotations

import re
from ipaddress import IPv4Address, ip_address, ip_network

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from abox.addresses import judged_allowed
from abox.allowlist import HEALTH_NAME, Allow, judge_name, parse_policy
from abox.render.addresses import refused_networks
from abox.render.unbound import (
    NO_UPSTREAM,
    REFUSED_A,
    REFUSED_AAAA,
    UnboundRole,
    render_dynamic,
    render_server,
    render_zone,
)

GATEWAY = IPv4Address("10.10.3.2")
CIDRS = [ip_network("198.51.100.0/24"), ip_network("2001:db8::/32")]

HOSTS = ["wild.test", "*.wild.test", "a.wild.test", "*.b.wild.test", "x.b.wild.test", "c.test"]
LABELS = ["a", "b", "x", "!", "wild", "test", "c", "local", "abox", "healthcheck", "zz", "-", "~"]
policies = st.builds(
    lambda allow, deny, mode: parse_policy(allow, deny, mode=mode),
    st.lists(st.sampled_from(HOSTS), max_size=4),
    st.lists(st.sampled_from(HOSTS), max_size=2),
    st.sampled_from(["active", "passive"]),
)
asked = st.lists(st.sampled_from(LABELS), min_size=1, max_size=5).map(".".join)


def rules_of(zone: str) -> dict[str, str]:
    lines = [line.split(" ", 1) for line in zone.splitlines()[4:]]
    return {name: action for name, action in lines}


def canonical(name: str) -> list[tuple[int, bytes]]:
    """Unbound's order of names: from the root, shorter labels first."""
    raw = name.replace("\\000", "\0").encode()
    return [(len(label), label) for label in reversed(raw.split(b"."))]


def action_for(rules: dict[str, str], name: str) -> str | None:
    """What Unbound 1.17 does with a zone (as tried): the name itself, else a wildcard at the
    longest parent that the name shares with the entry sorted before it."""
    if name in rules:
        return rules[name]
    before = [known for known in rules if canonical(known) < canonical(name)]
    if not before:
        return None
    nearest = max(before, key=canonical).replace("\\000", "\0").split(".")[::-1]
    shared = 0
    for one, other in zip(nearest, name.split(".")[::-1], strict=False):
        if one != other:
            break
        shared += 1
    parent = ".".join(nearest[:shared][::-1])
    return rules.get(f"*.{parent}" if parent else "*")


@settings(max_examples=800)
@given(policies, asked)
@example(parse_policy(["*.wild.test"]), "wild.test")
@example(parse_policy(["v6.test.example"]), "foo.test.example")
@example(parse_policy([]), "!")
def test_the_zone_gives_every_name_the_verdict_of_the_allowlist(policy, name):
    """DNS-1: no name falls between the rules."""
    found = action_for(rules_of(render_zone(policy)), name)
    assert found is not None, "no rule matches, so Unbound would forward the name"
    if name == HEALTH_NAME:
        assert found == "A 127.0.0.1"
        return
    if policy.mode == "passive" and "!" in name:
        return
    allowed = isinstance(judge_name(policy, name), Allow)
    single = "." not in name
    if single and policy.mode == "passive":
        return
    if re.search(r"[!~]|(^|\.)-", name) or re.search(r"\.(-|!|~)$", name):
        allowed = allowed or found == "CNAME rpz-passthru."  # the second judge refuses the shape
    assert found == ("CNAME rpz-passthru." if allowed else "CNAME .")


def test_before_the_first_policy_only_the_health_name_is_answered():
    rules = rules_of(render_zone(None))
    assert rules[HEALTH_NAME] == "A 127.0.0.1"
    assert {action for name, action in rules.items() if name != HEALTH_NAME} == {"CNAME ."}


def test_the_zone_s_serial_follows_the_policy():
    one, other = (render_zone(parse_policy([name])) for name in ("a.test", "b.test"))
    assert one.splitlines()[2] != other.splitlines()[2]


@pytest.mark.parametrize("suffix", ["rpz-ip", "rpz-nsip", "rpz-nsdname", "rpz-client-ip"])
def test_a_name_that_would_be_another_kind_of_rule_is_refused(suffix):
    from abox.allowlist import Policy
    from abox.entries import Entry

    policy = Policy(entries=(Entry(host=f"8.0.0.0.10.{suffix}"),))
    with pytest.raises(ValueError, match=suffix):
        render_zone(policy)


@given(st.one_of(st.ip_addresses(v=4), st.ip_addresses(v=6)))
@example(ip_address("198.51.100.7"))
@example(ip_address("2001:db8::7"))
@example(ip_address("::ffff:10.0.0.1"))
@example(ip_address("255.255.255.255"))
def test_refused_networks_are_exactly_the_addresses_that_are_not_allowed(address):
    networks = refused_networks(address.version, CIDRS)
    assert any(address in network for network in networks) != judged_allowed(address, CIDRS)


def test_what_stands_for_a_refused_address_is_refused_under_every_setting():
    wide = [ip_network("10.0.0.0/8"), ip_network("fc00::/7"), *CIDRS]
    for text in (REFUSED_A, REFUSED_AAAA):
        assert not judged_allowed(ip_address(text), wide)


def test_the_agent_s_resolver_strips_and_the_proxy_s_replaces():
    agent = render_dynamic(UnboundRole.AGENT, CIDRS, ["198.51.100.53"])
    proxy = render_dynamic(UnboundRole.PROXY, CIDRS, ["198.51.100.53"])
    assert "  private-address: 10.0.0.0/8\n" in agent
    assert "response-ip" not in agent
    assert "  response-ip: 10.0.0.0/8 redirect\n" in proxy
    assert f'  response-ip-data: 10.0.0.0/8 "A {REFUSED_A}"\n' in proxy
    assert "private-address" not in proxy
    assert "198.51.100.0/24" not in agent + proxy


def test_resolvers_are_asked_in_their_order_and_nobody_without_them():
    text = render_dynamic(UnboundRole.AGENT, [], ["198.51.100.53", "198.51.100.54"])
    assert text.endswith(
        'forward-zone:\n  name: "."\n  forward-addr: 198.51.100.53\n  forward-addr: 198.51.100.54\n'
    )
    assert f"forward-addr: {NO_UPSTREAM}\n" in render_dynamic(UnboundRole.AGENT, [], [])


@pytest.mark.parametrize("bad", ["8.8.8.8\nforward-addr: 1.1.1.1", "resolver", "::1", ""])
def test_a_resolver_that_is_no_address_is_refused(bad):
    with pytest.raises(ValueError):  # noqa: PT011 - the standard library's words
        render_dynamic(UnboundRole.AGENT, [], [bad])


def test_each_resolver_listens_where_its_clients_are_and_nowhere_else():
    agent, proxy = (render_server(role, GATEWAY) for role in UnboundRole)
    assert re.findall(r"interface: (\S+@\d+)", agent) == ["10.10.3.2@53"]
    assert re.findall(r"interface: (\S+@\d+)", proxy) == ["127.0.0.1@53"]
    assert "access-control: 10.10.3.0/24 allow" in agent
    assert "access-control: 127.0.0.1/32 allow" in proxy
    for text in (agent, proxy):
        assert "access-control: 0.0.0.0/0 deny" in text
        assert "incoming-num-tcp: 0" in text
        assert 'control-interface: "/run/abox/dns/' in text
