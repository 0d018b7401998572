"""A tampering is carried out under a name that the host's tools can read."""

from __future__ import annotations

from tests.cases.tampering import respelled

SAID = "Error: syntax error, unexpected fwd, expecting string\nadd chain inet other fwd\n"
CHAIN = ["nft", "add", "chain", "inet", "other", "fwd", "{ type filter hook forward priority 0; }"]


def test_a_name_that_is_a_word_of_nft_gets_another_spelling_in_every_command():
    renamed = respelled(CHAIN, SAID)
    assert renamed == [*CHAIN[:5], "fwd_", CHAIN[6]]
    rule = ["nft", "add", "rule", "inet", "other", "fwd", "accept"]
    assert respelled(rule, SAID) == [*rule[:5], "fwd_", "accept"]


def test_other_failures_stay_what_they_are():
    assert respelled(CHAIN, "") is None
    assert respelled(CHAIN, "Error: Could not process rule: No such file or directory") is None
    assert respelled(CHAIN, "Error: syntax error, unexpected policy, expecting string") is None
    assert respelled(["ip", "link", "fwd"], SAID) is None
