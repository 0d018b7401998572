"""Whatever passive mode saw, the proposed lines are good entries that allow it, and little more."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from abox.allowlist import Allow, Request, judge_name, parse_policy, verdict
from abox.names import is_public_suffix, public_suffix_below
from abox.profile import APART, SIBLINGS, make_profile
from abox.seen_names import Row, Seen
from abox.verdict_log import Outcome, Source

EMPTY = parse_policy([])
PASSIVE = "mode: passive"


def seen(
    name, port=443, *, verdict="allow", reason=None, rule=PASSIVE, source="http", address=True
):
    return Seen(Source(source), name, port, Outcome(verdict), reason, rule, address)


def asked(name, **more):
    return seen(name, None, source="dns", **more)


def rows(*found):
    return {one: Row(1.0, 2.0, 1) for one in found}


def entries(*found, policy=EMPTY):
    return [one.entry for one in make_profile(rows(*found), policy).proposals]


def test_names_and_ports_are_proposed_as_they_were_seen():
    found = entries(
        seen("b.test", 443), seen("b.test", 80), seen("a.test"), seen("c.test", 8443),
        asked("d.test"),
    )  # fmt: skip
    assert found == [
        {"host": "a.test", "ports": [443]},
        "b.test",
        {"host": "c.test", "ports": [8443]},
        "d.test",
    ]


def test_from_three_siblings_on_a_wildcard_is_proposed():
    two = [seen("a.x.test"), seen("b.x.test")]
    assert [one["host"] for one in entries(*two)] == ["a.x.test", "b.x.test"]
    found = make_profile(rows(*two, seen("c.x.test"), seen("c.x.test", 8443)), EMPTY).proposals
    assert [one.entry for one in found] == [
        {"host": "*.x.test", "ports": [443]},
        {"host": "c.x.test", "ports": [8443]},
    ]
    assert found[0].names == ("a.x.test", "b.x.test", "c.x.test")
    assert (found[0].requests, found[1].requests) == (3, 1)


def test_a_wildcard_swallows_what_is_deeper_but_not_its_own_name():
    names = ["a.x.test", "b.x.test", "c.x.test", "p.a.x.test", "q.a.x.test", "r.a.x.test", "x.test"]
    found = [one["host"] for one in entries(*map(seen, names))]
    assert found == ["x.test", "*.x.test"]


@pytest.mark.parametrize("parent", ["com", "co.uk", "github.io", "amazonaws.com", "localhost"])
def test_no_wildcard_where_anybody_can_have_a_name(parent):
    names = [f"{label}.{parent}" for label in "abcdef"]
    hosts = [one["host"] for one in entries(*map(seen, names))]
    assert not [host for host in hosts if host.startswith("*")]
    if parent != "localhost":
        assert set(hosts) == set(names)


def test_what_the_allowlist_has_is_left_out():
    policy = parse_policy(["a.test", "*.wild.test", {"host": "p.test", "ports": [8443]}])
    found = make_profile(
        rows(
            seen("a.test"), seen("x.wild.test"), asked("a.test"), seen("p.test", 8443),
            seen("p.test", 443), seen("a.test", 9000), seen("b.test", rule="b.test"),
        ),
        policy,
    )  # fmt: skip
    assert [one.entry for one in found.proposals] == [
        {"host": "a.test", "ports": [9000]},
        {"host": "p.test", "ports": [443]},
    ]
    assert found.covered == 3


@pytest.mark.parametrize("reason", APART)
def test_what_could_not_be_reached_stands_apart(reason):
    found = make_profile(rows(seen("a.test", reason=reason.value)), EMPTY)
    assert found.proposals == ()
    assert [(one.name, one.reason) for one in found.apart] == [("a.test", reason)]


def test_what_the_denylist_has_is_never_proposed():
    found = make_profile(rows(seen("a.test"), asked("a.test")), parse_policy([], ["a.test"]))
    assert found.proposals == ()
    assert {one.reason for one in found.apart} == {"denied"}


def test_a_name_that_failed_once_and_worked_later_is_proposed():
    found = make_profile(rows(seen("a.test"), seen("a.test", reason="upstream_name")), EMPTY)
    assert len(found.proposals) == 1
    assert found.apart == ()


def test_denials_of_active_mode_and_other_lookups_are_nothing_to_propose():
    denied = seen("a.test", verdict="deny", reason="not_allowed", rule=None)
    found = make_profile(rows(denied, asked("_http._tcp.b.test", address=False)), EMPTY)
    assert (found.proposals, found.apart) == ((), ())


def test_a_name_that_no_entry_can_hold_stands_apart_with_the_reason():
    found = make_profile(rows(seen("xn--0.test"), seen("ok.test")), EMPTY)
    assert [one.host for one in found.proposals] == ["ok.test"]
    assert found.apart[0].name == "xn--0.test"
    assert "IDNA" in found.apart[0].reason


labels = st.sampled_from(["a", "b", "c", "d", "www", "x-1", "_s"])
tails = st.sampled_from(
    ["test", "x.test", "com", "co.uk", "github.io", "s3.amazonaws.com", "amazonaws.com", "a.x.test",
     "example.org", "localhost", "abox.local", "xn--0.test"]
)  # fmt: skip
names = st.one_of(
    st.builds("{}.{}".format, labels, tails),
    st.from_regex(r"[a-z0-9_-]{1,8}(\.[a-z0-9_-]{1,8}){0,3}\.[a-z][a-z0-9-]{0,6}", fullmatch=True),
)
sightings = st.builds(
    seen,
    names.filter(lambda name: "_" not in name),  # those are only resolved
    st.sampled_from([80, 443, 8443, 22]),
    verdict=st.just("allow"),
    reason=st.none() | st.sampled_from(["upstream_unreachable", "upstream_certificate"]),
) | st.builds(asked, names)
policies = st.sampled_from(
    [EMPTY, parse_policy(["a.test", "*.x.test", {"host": "b.com", "ports": [443]}], ["*.d.com"])]
)


@given(st.lists(sightings, max_size=40), policies)
@example([seen(f"{label}.x-1.co.uk") for label in "abc"], EMPTY)
def test_the_proposed_lines_allow_what_was_seen(found, policy):
    profile = make_profile(rows(*found), policy)
    # As a person pastes them: through YAML.
    pasted = yaml.safe_load(yaml.safe_dump([one.entry for one in profile.proposals])) or []
    before = [entry.to_document() for entry in policy.entries]
    after = parse_policy([*before, *pasted], policy.deny)
    apart = {one.name for one in profile.apart}
    for one in found:
        if one.name in apart:
            continue
        assert isinstance(judge_name(after, one.name), Allow), one
        if one.port is not None:
            request = Request(one.name, one.port, method="CONNECT")
            assert isinstance(verdict(after, request), Allow), one


@given(st.lists(sightings, max_size=40), policies)
def test_the_proposed_lines_allow_little_more(found, policy):
    profile = make_profile(rows(*found), policy)
    for one in profile.proposals:
        below = {name for name in one.names if name != one.host}
        assert set(one.ports) <= {80, 443, *(seen.port for seen in found)}
        if one.host.startswith("*."):
            parent = one.host[2:]
            assert len({name for name in below if name.endswith(f".{parent}")}) >= SIBLINGS
            assert not is_public_suffix(parent)
            assert public_suffix_below(parent) is None
            assert "." in parent
        else:
            assert one.names == (one.host,)
    assert [one.host for one in profile.proposals] == sorted(
        (one.host for one in profile.proposals), key=lambda host: host.split(".")[::-1]
    )


@given(st.lists(sightings, max_size=20))
def test_applied_lines_leave_nothing_to_propose(found):
    first = make_profile(rows(*found), EMPTY)
    after = parse_policy([one.entry for one in first.proposals])
    assert make_profile(rows(*found), after).proposals == ()


def test_twenty_thousand_names_are_proposed_in_seconds():
    found = rows(*(seen(f"host-{n}.zone-{n // 2}.example.org") for n in range(20_000)))
    assert len(make_profile(found, EMPTY).proposals) == 20_000
