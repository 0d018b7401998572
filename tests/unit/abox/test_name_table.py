"""The small table gives the same answers as the allowlist."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from abox import name_table, names
from abox.allowlist import HEALTH_NAME, Allow, judge_name, parse_policy
from abox.name_table import NameTable
from abox.render.unbound import name_table as table_of

HOSTS = ["wild.test", "*.wild.test", "a.wild.test", "*.b.wild.test", "x.b.wild.test", "c.test"]
LABELS = ["a", "b", "x", "no", "wild", "test", "c", "localhost", "abox", "local", "docker"]
asked = st.lists(st.sampled_from(LABELS), min_size=2, max_size=5).map(".".join)
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
    document = {"allow": [], "deny": [], "passive": 1}
    assert not NameTable.from_json(json.dumps(document)).passive


def test_reserved_names_are_those_of_the_allowlist():
    assert name_table.RESERVED_SUFFIXES == names.RESERVED_SUFFIXES
