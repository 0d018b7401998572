"""A change is narrower where, and only where, something that was allowed is refused."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_address
from itertools import product

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from abox.allowlist import Allow, Policy, Request, judge_address, parse_policy, verdict
from abox.narrowing import REST, Narrowing, Places, narrowings, patterns_cover
from abox.paths import PathPattern
from tests.unit.abox.policies import LONG, PATTERNS, PORTS, policies

NAMES = {
    "wild.test": "wild.test", "a.wild.test": "a.wild.test", "allowed.test": "allowed.test",
    "*.wild.test": "c.d.wild.test", "*.b.wild.test": "x.b.wild.test", REST: "rest.example",
    LONG: LONG,
}  # fmt: skip
"""A name of each place that the policies tell apart."""
OTHER_PORT = 9
PATHS = ["/", "/v1/", "/v1/x", "/v2/x", "/v2/x/y", "/a/b", "/a/q/b", "/a/q/b/c", "/z", "//"]
ADDRESSES = [ip_address(text) for text in ("10.0.0.5", "10.0.1.5", "10.0.2.5", "198.41.0.4")]
EVERYWHERE = Places(set(NAMES) - {REST}, PORTS)


def requests(name: str, port: int) -> Iterator[Request]:
    yield Request(name, port, method="CONNECT")
    for scheme, method, path in product(("http", "https"), ("GET", "POST", "PUT"), PATHS):
        yield Request(name, port, scheme, method, path)


def allows(policy: Policy, request: Request) -> bool:
    return isinstance(verdict(policy, request), Allow)


def added(policy: Policy, request: Request) -> object:
    """What is put on a request."""
    judged = verdict(policy, request)
    return judged.inject if isinstance(judged, Allow) else None


def loses(old: Policy, new: Policy, name: str, port: int) -> bool:
    """Whether a request to a name is refused that was allowed, or passes in another way."""
    if not allows(old, Request(name, port, method="CONNECT")):
        return False
    if old.way_to(name, port) is not new.way_to(name, port):
        return True
    asked = [one for one in requests(name, port) if allows(old, one)]
    if any(not allows(new, one) or added(old, one) != added(new, one) for one in asked):
        return True
    return any(
        isinstance(judge_address(old, one), Allow)
        and not isinstance(judge_address(new, one), Allow)
        for one in ADDRESSES
    )


WIDE = parse_policy(["*.wild.test"])
KEY: dict[str, object] = {"header": "Authorization", "secret": "a"}
KEYED = {"host": "allowed.test", "inject": KEY}


@settings(max_examples=150)
@given(policies(), policies())
@example(WIDE, parse_policy(["*.wild.test"], ["a.wild.test"]))
@example(WIDE, parse_policy(["*.wild.test", "allowed.test"]))
@example(parse_policy([], mode="passive"), WIDE)
@example(parse_policy([KEYED]), parse_policy([{**KEYED, "paths": ["/v1/*"]}, "allowed.test"]))
@example(parse_policy([KEYED, "allowed.test"]), parse_policy([KEYED]))
def test_a_change_is_narrower_where_and_only_where_a_request_is_refused_now(old, new):
    found = set(narrowings(old, new, EVERYWHERE))
    for (host, name), port in product(NAMES.items(), (*PORTS, OTHER_PORT)):
        place = Narrowing(host, None if port == OTHER_PORT else port)
        lost = loses(old, new, name, port)
        # Where secrets are put on requests, entries are compared instead of what they match.
        exact = not (old.secret_names or new.secret_names)
        assert (place in found) == lost or (place in found and not exact), (host, port)


@settings(max_examples=100)
@given(policies())
def test_a_policy_takes_nothing_from_itself_and_none_takes_everything(policy):
    assert set(narrowings(policy, policy, EVERYWHERE)) == set()
    assert set(narrowings(None, policy, EVERYWHERE)) == set()
    taken = {(one.host, one.port) for one in narrowings(policy, None, EVERYWHERE)}
    for (host, name), port in product(NAMES.items(), PORTS):
        allowed = allows(policy, Request(name, port, method="CONNECT"))
        assert ((host, port) in taken) == allowed


def changed(old: dict[str, object], new: dict[str, object]) -> bool:
    before, after = (parse_policy([{"host": "a.test", **limits}]) for limits in (old, new))
    return any(narrowings(before, after, Places()))


@pytest.mark.parametrize(
    ("old", "new", "narrower"),
    [
        ({}, {"ports": [443]}, True),
        ({"ports": [443]}, {}, False),
        ({}, {"methods": ["GET"]}, True),
        ({"methods": ["GET"]}, {"methods": ["GET", "POST"]}, False),
        ({"methods": ["GET", "POST"]}, {"methods": ["GET"]}, True),
        ({}, {"paths": ["/*"]}, True),
        ({"paths": ["/v1/x"]}, {"paths": ["/v1/*"]}, False),
        ({"paths": ["/v1/*"]}, {"paths": ["/v1/x"]}, True),
        ({"paths": ["/a/*/b"]}, {"paths": ["/a/*"]}, False),
        ({}, {"tls": "passthrough"}, True),
        ({"tls": "passthrough"}, {}, True),
        ({}, {"tls": "intercept"}, False),
    ],
    ids=str,
)  # fmt: skip
def test_a_limit_narrows_and_lifting_it_does_not(old, new, narrower):
    assert changed(old, new) == narrower


IN_TLS: dict[str, object] = {"ports": [443]}
WITH_KEY = {**IN_TLS, "inject": KEY}


@pytest.mark.parametrize(
    ("old", "new", "narrower"),
    [
        (IN_TLS, WITH_KEY, True),
        (WITH_KEY, IN_TLS, True),
        (WITH_KEY, {**WITH_KEY, "inject": {**KEY, "secret": "b"}}, True),
        (WITH_KEY, {**WITH_KEY, "inject": {**KEY, "header": "Cookie"}}, True),
        (WITH_KEY, {**WITH_KEY, "inject": [KEY, {"header": "Cookie", "secret": "b"}]}, True),
        (WITH_KEY, {**WITH_KEY, "paths": ["/v1/*"]}, True),
        ({**WITH_KEY, "paths": ["/v1/*"]}, WITH_KEY, True),  # an agent's own header is replaced
        (WITH_KEY, {**WITH_KEY, "inject": [KEY]}, False),
        (WITH_KEY, {**WITH_KEY, "ports": [443, 8443]}, False),
    ],
    ids=str,
)  # fmt: skip
def test_another_injection_narrows_whether_it_comes_goes_or_changes(old, new, narrower):
    assert changed(old, new) == narrower


def test_an_injection_closes_its_own_port_and_what_it_takes_from_requests_in_the_clear():
    plain: dict[str, object] = {"host": "a.test", "ports": [80, 443, 8080]}
    keyed = {"host": "a.test", "ports": [443, 8080], "inject": KEY}

    def narrowed(old: list[object], new: list[object]) -> set[int | None]:
        return {one.port for one in narrowings(parse_policy(old), parse_policy(new), Places())}

    assert narrowed([plain], [keyed, plain]) == {443, 8080}
    assert narrowed([keyed, plain], [keyed]) == {80, 443, 8080}
    assert narrowed([keyed], [keyed, plain]) == set()


SEGMENTS = ["v1", "v2", "x", "a", "b", "q", ""]
WORDS = ["/" + "/".join(parts) for n in (1, 2, 3, 4) for parts in product(SEGMENTS, repeat=n)
         if "" not in parts[:-1]]  # fmt: skip
patterns = st.lists(
    st.sampled_from([*PATTERNS, "/*/x", "/*/*", "/v1/x", "/v1/", "/a/*/*", "/*/b"]), max_size=3
).map(lambda texts: [PathPattern.parse(text) for text in texts])


@settings(max_examples=300)
@given(patterns, patterns)
def test_patterns_cover_others_if_they_match_all_their_paths(wide, narrow):
    """Words of four segments are enough: no pattern here is longer than three."""
    missed = [
        word
        for word in WORDS
        if any(p.matches(word) for p in narrow) and not any(p.matches(word) for p in wide)
    ]
    assert patterns_cover(wide, narrow) == (not missed), missed[:3]
