"""Rules of one tap among those of others, and what an open tap looks like."""

from __future__ import annotations

import pytest

from provider.tap_rules import CHAINS, faults, rules_of
from tests.unit.provider.fake_libvirt import kernel_rules

SAVED = """\
*filter
:INPUT ACCEPT [0:0]
:FI-vnet1 - [0:0]
-A FORWARD -j libvirt-in
-A FI-vnet1 -m conntrack --ctstate RELATED,ESTABLISHED -j RETURN
-A FI-vnet1 -j DROP
-A FI-vnet10 -j DROP
-A libvirt-in -m physdev --physdev-in vnet1 -g FI-vnet1
-A libvirt-in -m physdev --physdev-in vnet10 -g FI-vnet10
COMMIT
*nat
-A PREROUTING -i vnet1 -j libvirt-I-vnet1
-A libvirt-I-vnet1 -p ARP -j ACCEPT
-A OTHER -i xvnet1 -j DROP
"""


def test_only_the_rules_of_the_tap_count_and_its_name_is_no_difference():
    expected = [
        "-A FI-TAP -m conntrack --ctstate RELATED,ESTABLISHED -j RETURN",
        "-A FI-TAP -j DROP",
        "-A libvirt-in -m physdev --physdev-in TAP -g FI-TAP",
        "-A PREROUTING -i TAP -j libvirt-I-TAP",
        "-A libvirt-I-TAP -p ARP -j ACCEPT",
    ]
    assert rules_of(SAVED, "vnet1") == expected
    assert rules_of(SAVED.replace("vnet1", "vnet7"), "vnet7") == expected


def test_a_closed_tap_has_no_faults():
    assert faults(rules_of(kernel_rules("vnet0"), "vnet0")) == []


@pytest.mark.parametrize("chain", CHAINS)
def test_every_chain_must_be_reached_and_end_in_a_drop(chain):
    closed = rules_of(kernel_rules("vnet0"), "vnet0")
    without_drop = [rule for rule in closed if rule != f"-A {chain} -j DROP"]
    assert any("end in a drop" in fault for fault in faults(without_drop))
    unreached = [rule for rule in closed if not rule.endswith(f"-g {chain}")]
    assert any("nothing leads" in fault for fault in faults(unreached))
    opened = [*closed, f"-A {chain} -j ACCEPT"]
    assert any("end in a drop" in fault for fault in faults(opened))


def test_no_rules_are_no_protection():
    assert len(faults([])) == 2 * len(CHAINS)
