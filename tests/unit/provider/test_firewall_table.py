"""A table's normal form, and when it counts as changed or gone."""

from __future__ import annotations

import pytest

from abox.errors import HostError
from provider.firewall_table import FirewallTable, differences, normalised
from tests.unit.provider.samples import FakeNft


def rule(chain, *statements, **more):
    return {
        "rule": {"family": "inet", "table": "t", "chain": chain, "expr": list(statements), **more}
    }


ACCEPT, DROP = rule("a", {"accept": None}), rule("a", {"drop": None})
CHAIN = {"chain": {"name": "a", "hook": "forward", "prio": -10, "policy": "drop"}}


@pytest.mark.parametrize(
    "same",
    [
        [CHAIN, rule("a", {"accept": None}, handle=7), rule("a", {"drop": None}, handle=9)],
        [{"metainfo": {"version": "1"}}, CHAIN, ACCEPT, DROP],
        [ACCEPT, DROP, CHAIN],
    ],
    ids=["handles", "metainfo", "position among other objects"],
)
def test_what_changes_by_itself_is_no_difference(same):
    assert normalised(same) == normalised([CHAIN, ACCEPT, DROP])


def test_counters_and_the_order_of_elements_are_no_difference():
    def listing(packets, elements):
        counter = {"counter": {"packets": packets, "bytes": packets * 60}}
        return [{"set": {"name": "s", "elem": elements}}, rule("a", counter)]

    assert normalised(listing(0, ["x", "y"])) == normalised(listing(5, ["y", "x"]))
    assert normalised(listing(0, ["x", "y"])) != normalised(listing(0, ["x"]))


@pytest.mark.parametrize(
    ("live", "words"),
    [
        ([CHAIN, DROP], "missing: rule in chain a: accept"),
        ([CHAIN, ACCEPT, ACCEPT, DROP], "added: rule in chain a: accept"),
        ([CHAIN, DROP, ACCEPT], "rule in chain a"),
        ([{"chain": {**CHAIN["chain"], "policy": "accept"}}, ACCEPT, DROP], "policy accept"),
        ([{"chain": {**CHAIN["chain"], "prio": 5}}, ACCEPT, DROP], "prio 5"),
        ([{"chain": {**CHAIN["chain"], "hook": "input"}}, ACCEPT, DROP], "hook input"),
        ([ACCEPT, DROP], "missing: chain a"),
    ],
    ids=["removed", "added", "reordered", "policy", "priority", "hook", "chain"],
)
def test_every_change_of_the_table_is_named(live, words):
    applied = normalised([CHAIN, ACCEPT, DROP])
    assert normalised(live) != applied
    assert any(words in text for text in differences(applied, normalised(live)))


def test_a_rule_reads_like_nft_writes_it():
    live = normalised(
        [
            rule(
                "a",
                {"match": {"op": "==", "left": {"meta": {"key": "iifname"}}, "right": "abx"}},
                {
                    "match": {
                        "op": "!=",
                        "left": {"payload": {"protocol": "ip", "field": "saddr"}},
                        "right": {"set": ["10.0.0.1", {"prefix": {"addr": "10.1.0.0", "len": 24}}]},
                    }
                },
                {"reject": {"type": "tcp reset"}},
            )
        ]
    )
    assert differences("", live) == [
        "added: rule in chain a: iifname abx ip saddr != {10.0.0.1, 10.1.0.0/24} reject tcp reset"
    ]


def test_differences_survive_a_text_of_another_version():
    assert differences("[\n", "") == ["missing: ["]


def test_table_is_gone_only_after_a_successful_listing():
    nft = FakeNft([])
    table = FirewallTable("t", nft)
    assert table.read() is None
    nft.failure = HostError(what="`nft -j list tables` failed", why="Netlink error", remedy="x")
    with pytest.raises(HostError, match="nft"):
        table.read()
    with pytest.raises(HostError, match="nft"):
        table.delete()


def test_rules_are_checked_before_they_are_loaded():
    nft = FakeNft([])
    FirewallTable("t", nft).apply("rules")
    assert [call[0] for call in nft.calls[:2]] == [("-c", "-f", "-"), ("-f", "-")]
    assert {call[1] for call in nft.calls[:2]} == {"rules"}


def test_rules_of_another_table_are_an_error():
    with pytest.raises(HostError, match="nft table inet u isn't there"):
        FirewallTable("u", FakeNft([])).apply("rules")  # the fake loads them as table t
