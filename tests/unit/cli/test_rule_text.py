"""Objects of a table as text."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.rule_text import object_text


def match(left, right, operator="=="):
    return {"match": {"left": left, "op": operator, "right": right}}


DADDR = {"payload": {"protocol": "ip", "field": "daddr"}}


@pytest.mark.parametrize(
    ("expressions", "text"),
    [
        ([match({"meta": {"key": "oifname"}}, "abx-a"), {"drop": None}], "oifname abx-a drop"),
        ([match({"meta": {"key": "nfproto"}}, "ipv4", "!=")], "meta nfproto != ipv4"),
        ([match(DADDR, "10.10.0.2"), {"accept": None}], "ip daddr 10.10.0.2 accept"),
        ([match(DADDR, {"prefix": {"addr": "10.0.0.0", "len": 8}})], "ip daddr 10.0.0.0/8"),
        ([match(DADDR, "@special")], "ip daddr @special"),
        ([match({"ct": {"key": "state"}}, ["established", "related"], "in")],
         "ct state established,related"),
        ([match({"payload": {"protocol": "tcp", "field": "dport"}}, {"set": [80, 443]})],
         "tcp dport { 80, 443 }"),
        ([{"reject": {"type": "tcp reset"}}], "reject type tcp reset"),
        ([{"goto": {"target": "refuse"}}], "goto refuse"),
        ([{"counter": {"packets": 1, "bytes": 2}}, {"masquerade": None}], "counter masquerade"),
    ],
)  # fmt: skip
def test_a_rule_reads_like_nfts_own_listing(expressions, text):
    rule = {"rule": {"chain": "c", "expr": expressions, "comment": "why"}}
    assert object_text(rule) == f"c: {text}  # why"


def test_a_base_chain_tells_hook_priority_and_policy():
    chain = {"name": "forward", "type": "filter", "hook": "forward", "prio": -10, "policy": "drop"}
    assert object_text({"chain": chain}) == (
        "chain forward: type filter hook forward priority -10 policy drop"
    )


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(),
                    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))  # fmt: skip
def test_anything_is_shown_somehow(value):
    assert object_text({"flowtable": value}) == json.dumps({"flowtable": value}, sort_keys=True)
    assert isinstance(object_text(value), str)
    assert isinstance(object_text({"rule": {"chain": "c", "expr": [value]}}), str)
