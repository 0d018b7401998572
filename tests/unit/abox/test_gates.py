"""Open connections are closed where a change takes something away, and only there."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from abox.allowlist import Policy, parse_policy
from abox.gates import MAX_RETIRED, MAX_SCOPES, PART_BITS, Gates, Scope, part_of, scopes
from abox.narrowing import Places, narrowings
from abox.render.envoy_lua import OUTER_SCRIPT
from tests.unit.abox.policies import PORTS, policies
from tests.unit.abox.render.envoy_gate_model import Gate
from tests.unit.abox.render.envoy_model import Message, mark

NAMES = ["wild.test", "a.wild.test", "c.wild.test", "x.b.wild.test", "allowed.test", "r.example"]
EXACT = {"wild.test", "a.wild.test", "allowed.test"}


@dataclass(frozen=True)
class Connection:
    """What stays open as long as its chain stands."""

    name: str
    port: int
    chain: str

    def lost(self, old: Policy, new: Policy) -> bool:
        """Whether a change takes anything from it."""
        places = Places({self.name}, {self.port})
        taken = {(one.host, one.port) for one in narrowings(old, new, places)}
        return (self.name, self.port) in taken


def open_connections(gates: Gates) -> set[Connection]:
    """One for every name and port that the gate lets through."""
    gate = Gate(gates)
    found = ((name, port, gate.chain_of(name, port)) for name in NAMES for port in PORTS)
    return {Connection(name, port, chain) for name, port, chain in found if chain}


def chains(gates: Gates) -> set[str]:
    return {f"{scope}@{number}" for scope, number in gates.since.items()}


@settings(max_examples=50)
@given(st.lists(policies(), min_size=2, max_size=5))
def test_what_a_change_takes_away_is_closed_and_what_it_only_adds_closes_nothing(steps):
    gates = Gates().after(None, steps[0], 1)
    open_ = open_connections(gates)
    for number, (old, new) in enumerate(pairwise(steps), start=2):
        gates = gates.after(old, new, number)
        narrower = any(narrowings(old, new, Places()))
        kept = {one for one in open_ if one.chain in chains(gates)}
        assert all(not one.lost(old, new) for one in kept), "closed"
        if not narrower:
            assert kept == open_, "nothing is closed"
        for one in open_ - kept:
            assert one.lost(old, new) or one.name not in EXACT or f"{one.name}:" not in one.chain
        open_ = kept | open_connections(gates)


@settings(max_examples=50)
@given(policies(), policies())
def test_every_allowed_name_finds_a_chain_as_soon_as_the_gate_is_open(old, new):
    before = Gates().after(None, old, 1)
    after = before.after(old, new, 2)
    opened = before.opened(after)
    for policy, gates in ((old, before), (old, opened), (new, opened), (new, after)):
        gate = Gate(gates)
        allowed = narrowings(policy, None, Places(NAMES, PORTS))
        for place in allowed:
            if place.host in NAMES and place.port:
                assert gate.chain_of(place.host, place.port), place


def test_a_name_denied_below_a_wildcard_closes_its_part_alone():
    old = parse_policy(["*.wild.test", "allowed.test"])
    new = parse_policy(["*.wild.test", "allowed.test"], ["a.wild.test"])
    before = Gates().after(None, old, 1)
    after = before.after(old, new, 2)
    raised = {scope for scope, number in after.since.items() if number == 2}
    assert {scope.host for scope in raised} == {"*.wild.test"}
    assert {scope.port for scope in raised} == {80, 443}
    assert all(part_of("a.wild.test").startswith(scope.part) for scope in raised)
    assert len(raised) == 2


def test_an_entry_that_another_covers_may_go_without_closing_anything():
    old, new = parse_policy(["a.wild.test", "*.wild.test"]), parse_policy(["*.wild.test"])
    before = Gates().after(None, old, 1)
    after = before.after(old, new, 2)
    assert set(after.since.values()) == {1}
    assert after.after(new, parse_policy([]), 3).since == {}


def test_a_name_that_comes_back_gets_another_chain():
    one, none = parse_policy(["allowed.test"]), parse_policy([])
    gates = Gates().after(None, one, 1).after(one, none, 2).after(none, one, 3)
    assert set(gates.since.values()) == {3}


def test_a_long_list_is_told_apart_by_parts_and_one_name_closes_one_of_them():
    names = [f"n{number}.allowed.test" for number in range(MAX_SCOPES)]
    old, new = parse_policy(names), parse_policy(names[1:])
    before = Gates().after(None, old, 1)
    assert len(before.since) == 2**PART_BITS
    after = before.after(old, new, 2)
    assert [scope.part for scope, n in after.since.items() if n == 2] == [part_of(names[0])]


def test_a_list_that_grows_long_closes_nothing_and_what_is_kept_has_a_bound():
    short = parse_policy([f"n{number}.allowed.test" for number in range(10)])
    long = parse_policy([f"n{number}.allowed.test" for number in range(MAX_SCOPES)])
    gates = Gates().after(None, short, 1)
    assert gates.since.items() <= gates.after(short, long, 2).since.items()
    many = Gates({Scope(f"r{n}.wild.test", 443): n for n in range(MAX_RETIRED + 5)})
    wide = parse_policy(["*.wild.test"])
    kept = {scope for scope in many.after(wide, wide, 9999).since if scope.host.startswith("r")}
    assert len(kept) == MAX_RETIRED
    assert Scope("r4.wild.test", 443) not in kept


def test_the_number_of_scopes_is_bounded_whatever_the_policy():
    wildcards = parse_policy([f"*.n{number}.allowed.test" for number in range(900)])
    assert len(set(scopes(wildcards))) == 1800
    few = parse_policy([f"*.n{number}.allowed.test" for number in range(8)])
    assert len(set(scopes(few))) <= 512


@settings(max_examples=150)
@given(st.from_regex(r"[a-z0-9_-]{1,20}(\.[a-z0-9-]{1,20}){0,3}\.[a-z]{2,9}", fullmatch=True))
def test_a_name_has_the_same_part_in_lua(name):
    head = {":method": "CONNECT", ":authority": f"{name}:443"}
    marked = mark(OUTER_SCRIPT, Message(head))
    if marked["x-abox-judged"] == "connect":
        assert marked["x-abox-part"] == part_of(name)
        assert marked["x-abox-target"] == f"{name}:443"


def test_a_record_gives_the_gates_back():
    gates = Gates().after(None, parse_policy(["allowed.test", "*.wild.test"]), 7)
    assert Gates.from_record(gates.to_record()) == gates
    with pytest.raises((TypeError, ValueError)):
        Gates.from_record([["a.test"]])
