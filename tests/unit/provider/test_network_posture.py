"""A network's posture: who may be on it, and what it is."""

from __future__ import annotations

from typing import Any

import pytest

from abox.errors import HostError
from provider.network_posture import Facts, findings
from tests.unit.provider.samples import network_posture

GOOD: dict[str, Any] = {
    "internal": True, "ipv6": False, "bridge": "abx-p", "up": True, "forwards": False, "members": {}
}  # fmt: skip
ASKED: dict[str, Any] = {"bridge": "abx-p", "internal": True, "ipv6": False}


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({}, []),
        ({"internal": False}, ["it is not internal"]),
        ({"ipv6": True}, ["it has IPv6"]),
        ({"bridge": "br-1"}, ["its bridge is br-1 instead of abx-p"]),
        ({"up": False}, ["its bridge abx-p is gone or down"]),
        ({"forwards": True}, ["the host forwards what comes in by its bridge abx-p"]),
    ],
)
def test_every_property_is_compared(changed, words):
    assert findings(Facts(**{**GOOD, **changed}), **ASKED) == words


def test_network_that_is_internal_against_the_wish_is_a_finding():
    assert findings(Facts(**GOOD), **{**ASKED, "internal": False}) == ["it is internal"]


def test_only_an_internal_network_may_not_be_forwarded():
    live = Facts(**{**GOOD, "internal": False, "forwards": True})
    assert findings(live, **{**ASKED, "internal": False}) == []


def test_network_that_lost_its_ipv6_is_a_finding():
    assert findings(Facts(**GOOD), **{**ASKED, "ipv6": True}) == ["it has no IPv6"]


def read(sample, **changes):
    seen = sample.resource.read("p/abx-p", {**sample.inputs, **changes})
    assert seen is not None
    return seen


def test_foreign_member_is_disconnected_and_never_removed(tmp_path):
    sample = network_posture(tmp_path)
    assert read(sample)["foreign"] == ["stranger (stranger)"]
    sample.trace.clear()
    _, state = sample.resource.create(sample.inputs)
    assert state["foreign"] == []
    assert [call for call in sample.trace if call[0] == "disconnect"] == [
        ("disconnect", "stranger", "net1", {"force": True})
    ]
    assert not [call for call in sample.trace if "remove" in str(call[0])]


def test_recorded_agent_belongs_only_where_the_program_says_so(tmp_path):
    sample = network_posture(tmp_path)
    assert "agent (agent)" not in read(sample)["foreign"]
    assert "agent (agent)" in read(sample, roles=["pause"])["foreign"]
    assert "agent (agent)" in read(sample, sandbox="q")["foreign"]


def test_gone_network_is_drift_and_not_an_error(tmp_path):
    sample = network_posture(tmp_path)
    seen = read(sample, network="gone")
    assert seen["findings"] == ["the network is gone"]
    assert sample.resource.drift(seen, sample.inputs)


def test_what_can_not_be_repaired_is_an_error_with_a_remedy(tmp_path):
    sample = network_posture(tmp_path)
    with pytest.raises(HostError, match="its bridge is abx-p instead of abx-z") as caught:
        sample.resource.create({**sample.inputs, "bridge": "abx-z"})
    assert "docker network rm net1" in caught.value.remedy
