"""The small table gives the same answers as the allowlist."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from abox.allowlist import HEALTH_NAME, RULE_PASSIVE, Allow, Deny, judge_name, parse_policy
from abox.name_table import NameTable
from abox.reasons import Reason
from abox.render.unbound import name_table as table_of

LONG = f"{'x.' * 79}wild.test"
"""Longer than what a wildcard covers."""

HOSTS = [
    LONG,
    "wild.test",
    "*.wild.test",
    "a.wild.test",
    "*.b.wild.test",
    "x.b.wild.test",
    "c.test",
]
LABELS = ["a", "b", "x", "no", "wild", "test", "c", "localhost", "abox", "local", "docker"]
asked = st.one_of(
    st.lists(st.sampled_from(LABELS), min_size=2, max_size=5).map(".".join),
    st.sampled_from([LONG, f"x.{LONG}", LONG[4:], f"{'x.' * 80}c.test"]),
)
policies = st.builds(
    lambda allow, deny, mode: parse_policy(allow, deny, mode=mode),
    st.lists(st.sampled_from(HOSTS), max_size=4),
    st.lists(st.sampled_from(HOSTS), max_size=2),
    st.sampled_from(["active", "passive"]),
)


@given(policies, asked)
def test_the_table_agrees_with_the_allowlist(policy, name):
    if name == HEALTH_NAME:
        return
    assert table_of(policy).allows(name) == isinstance(judge_name(policy, name), Allow)


@given(policies, asked)
def test_the_table_gives_the_reason_and_the_host_of_the_rule(policy, name):
    found, judged = table_of(policy).judge(name), judge_name(policy, name)
    assert found.reason == (judged.reason if isinstance(judged, Deny) else None)
    if judged.rule == RULE_PASSIVE or judged.rule is None:
        assert found.rule == judged.rule
    else:
        assert found.rule == judged.rule.split()[0]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("10.0.0.1", Reason.ADDRESS_LITERAL),
        ("0x7f.1", Reason.ADDRESS_LITERAL),
        ("a.0x7f", Reason.ADDRESS_LITERAL),
        ("test", Reason.MALFORMED_NAME),
        ("a?b.c.test", Reason.MALFORMED_NAME),
        ("", Reason.MALFORMED_NAME),
        (f"x.{HEALTH_NAME}", Reason.RESERVED_NAME),
    ],
)
def test_what_is_no_name_is_told_apart(name, reason):
    for table in (NameTable(), NameTable(passive=True)):
        assert table.judge(name).reason is reason


@given(policies)
def test_a_table_survives_its_file(policy):
    table = table_of(policy)
    assert NameTable.from_json(table.to_json()) == table


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"allow": 1, "deny": [], "passive": false}'])
def test_what_is_no_table_is_an_error(text):
    with pytest.raises((ValueError, KeyError, TypeError)):
        NameTable.from_json(text)


def test_an_empty_table_allows_nothing():
    assert not NameTable().allows("allowed.test")
    assert not NameTable().allows("")


def test_passive_is_true_only_where_it_says_true():
    document = {"allow": [], "deny": [], "passive": 1, "queries_per_minute": 1}
    assert not NameTable.from_json(json.dumps(document)).passive


@given(policies, asked)
def test_the_quick_reason_of_a_denial_is_that_of_the_verdict(policy, name):
    table = table_of(policy)
    judged = judge_name(policy, name)
    if isinstance(judged, Deny):
        assert table.denial(name) is judged.reason


def test_a_name_has_the_budget_of_the_entry_that_covers_it_most_exactly():
    table = NameTable(allow=frozenset({"*.wild.test", "a.wild.test"}), passive=True)
    assert table.zone_of("b.a.wild.test") == "*.wild.test"
    assert table.zone_of("a.wild.test") == "a.wild.test"
    assert table.zone_of("x.y.other.test") == "other.test"
