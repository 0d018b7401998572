"""FirewallTable against the kernel, in a network namespace of the test."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from functools import partial

import pytest

from abox.errors import HostError
from provider import host
from provider.firewall_table import FirewallTable, FirewallTableResource
from tests.host import run

pytestmark = pytest.mark.integration

TABLE = "abxt-table"
RULES = f"""
table inet {TABLE}
delete table inet {TABLE}
table inet {TABLE} {{
  set ports {{ type inet_service; elements = {{ 443, 80 }} }}
  chain forward {{
    type filter hook forward priority -10; policy accept;
    iifname "abxt0" udp dport 53 counter accept
    iifname "abxt0" tcp dport @ports accept
    iifname "abxt0" reject with icmpx admin-prohibited
  }}
  chain input {{
    type filter hook input priority -10; policy drop;
    ct state established,related accept
  }}
}}
"""


@pytest.fixture
def nft() -> Iterator[partial[str]]:
    """The real nft in an empty network namespace."""
    name = f"abxt-{secrets.token_hex(3)}"
    run(["ip", "netns", "add", name])
    try:
        yield partial(host.run, "ip", "netns", "exec", name, "nft")
    finally:
        run(["ip", "netns", "delete", name])


def read(resource, state):
    seen = resource.read(TABLE, state)
    assert seen is not None
    return seen


def handle_of(nft, words):
    listed = nft("-a", "list", "table", "inet", TABLE)
    return next(line.split()[-1] for line in listed.splitlines() if words in line)


def removed(nft):
    nft("delete", "rule", "inet", TABLE, "forward", "handle", handle_of(nft, "reject"))


def added_in_front(nft):
    nft("insert", "rule", "inet", TABLE, "forward", "accept")


def added_behind(nft):
    nft("add", "rule", "inet", TABLE, "input", "accept")


def reordered(nft):
    handle = handle_of(nft, "udp dport 53")
    nft("delete", "rule", "inet", TABLE, "forward", "handle", handle)
    rule = 'iifname "abxt0" udp dport 53 counter accept'
    nft("-f", "-", stdin=f"add rule inet {TABLE} forward {rule}\n")


def replaced(nft):
    handle = handle_of(nft, "udp dport 53")
    rule = 'iifname "abxt0" udp dport 54 counter accept'
    nft("-f", "-", stdin=f"replace rule inet {TABLE} forward handle {handle} {rule}\n")


def other_policy(nft):
    nft("-f", "-", stdin=f"chain inet {TABLE} input {{ policy accept; }}\n")


def other_priority(nft):
    script = RULES.replace("hook input priority -10", "hook input priority 300")
    nft("-f", "-", stdin=script)


def bigger_set(nft):
    nft("-f", "-", stdin=f"add element inet {TABLE} ports {{ 22 }}\n")


def flushed(nft):
    nft("flush", "table", "inet", TABLE)


def switched_off(nft):
    nft("-f", "-", stdin=f"add table inet {TABLE} {{ flags dormant; }}\n")


@pytest.mark.parametrize(
    "tamper",
    [
        removed,
        added_in_front,
        added_behind,
        reordered,
        replaced,
        other_policy,
        other_priority,
        bigger_set,
        flushed,
        switched_off,
    ],
    ids=lambda tamper: tamper.__name__,
)
def test_every_change_of_the_table_is_drift_and_is_repaired(nft, tamper):
    resource = FirewallTableResource(nft)
    inputs = {"table": TABLE, "rules": RULES}
    resource_id, state = resource.create(inputs)
    state = {**inputs, **state}
    for _ in range(3):  # control: reading alone is never drift
        assert resource.drift({**state, **read(resource, state)}, inputs) == {}

    tamper(nft)
    seen = {**state, **read(resource, state)}
    assert resource.drift(seen, inputs)
    assert seen["findings"]

    repaired = resource.update(resource_id, seen, inputs)
    assert repaired["live"] == state["live"]
    assert read(resource, state)["findings"] == []


def test_table_and_rule_set_that_are_gone_are_made_again(nft):
    resource = FirewallTableResource(nft)
    inputs = {"table": TABLE, "rules": RULES}
    resource_id, state = resource.create(inputs)
    for command in (("delete", "table", "inet", TABLE), ("flush", "ruleset")):
        nft(*command)
        assert resource.read(resource_id, state) is None
        resource.delete(resource_id, state)  # gone already: no error
        assert resource.create(inputs)[1] == state


def test_rules_that_the_kernel_refuses_leave_the_old_table(nft):
    table = FirewallTable(TABLE, nft)
    before = table.apply(RULES)
    broken = RULES.replace("udp dport 53", "udp dport nonsense")
    with pytest.raises(HostError, match=r"nft -c -f -.*failed\nwhy: .*nonsense"):
        table.apply(broken)
    assert table.read() == before


def test_other_tables_are_left_alone(nft):
    nft("-f", "-", stdin="table inet other {\n chain c {\n accept\n }\n}\n")
    table = FirewallTable(TABLE, nft)
    table.apply(RULES)
    table.delete()
    assert "accept" in nft("list", "table", "inet", "other")
