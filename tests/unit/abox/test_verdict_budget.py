"""A flood stays short, and all of it is counted."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from abox.verdict_budget import INTERVAL_S, LIMITS, MAX_COUNTED, Budget, Key, Limits, Tally
from abox.verdict_log import Outcome

SMALL = Limits(burst=10, per_minute=60, singles=3, repeats=2)
ONE = Tally(first=1.0, last=1.0)


def key(name="evil.test", **more):
    return Key(name, **more)


def test_the_first_of_a_key_are_single_and_the_rest_is_not():
    budget = Budget(SMALL, 0.0)
    assert budget.take(key(), 2, 0.0) == 2
    assert budget.take(key(), 5, 0.0) == 1
    assert budget.take(key(), 5, 0.0) == 0
    assert budget.take(key("other.test"), 5, 0.0) == 3  # control: another key has its own


def test_all_keys_together_have_a_budget_that_refills():
    budget = Budget(SMALL, 0.0)
    taken = sum(budget.take(key(f"{n}.test"), 1, 0.0) for n in range(50))
    assert taken == SMALL.burst
    assert budget.take(key("late.test"), 1, 0.5) == 0
    assert budget.take(key("later.test"), 3, 2.0) == 2
    assert budget.take(key("last.test"), 3, -100.0) == 0  # a clock that was set back


def test_what_was_never_seen_has_a_line_in_any_flood():
    budget = Budget(SMALL, 0.0)
    for n in range(50):
        budget.take(key(f"{n}.test"), 1, 0.0)
    assert budget.take(key("new.test"), 4, 0.0, fresh=True) == 1


def test_an_interval_ends_with_few_lines_the_most_frequent_first():
    budget = Budget(SMALL, 0.0)
    for name, times in (("a.x.test", 5), ("b.x.test", 9), ("c.x.test", 2), ("d.y.test", 1)):
        for _ in range(times):
            budget.count(key(name, code="NXDOMAIN", reason="not_allowed"), ONE)
    told, rest = budget.close()
    assert [(one.name, tally.count) for one, tally in told] == [
        ("b.x.test", 9),
        ("a.x.test", 5),
        ("*.x.test", 2),
        ("*.y.test", 1),
    ]
    assert rest is None
    assert budget.close() == ([], None)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(1, 1000)), max_size=60))
def test_nothing_is_lost_but_details(counted):
    budget, total = Budget(SMALL, 0.0), 0
    for label, zone, times in counted:
        budget.count(key(f"{label}.{zone}.test"), Tally(first=1.0, last=2.0, count=times, sent=7))
        total += times
    told, rest = budget.close()
    assert sum(tally.count for _, tally in told) + (rest.count if rest else 0) == total
    assert sum(tally.sent for _, tally in told) + (rest.sent if rest else 0) == 7 * len(counted)
    assert len(told) <= 2 * SMALL.repeats


def test_memory_is_bounded_whatever_is_counted():
    budget = Budget(SMALL, 0.0)
    for n in range(3 * MAX_COUNTED):
        budget.count(key(f"a.{n}.test"), ONE)
    assert len(budget._counted) == len(budget._parents) == MAX_COUNTED
    told, rest = budget.close()
    assert rest is not None
    assert sum(tally.count for _, tally in told) + rest.count == 3 * MAX_COUNTED


def test_an_interval_gives_every_key_its_single_lines_again():
    budget = Budget(SMALL, 0.0)
    assert budget.take(key(), 9, 0.0) == 3
    budget.close()
    assert budget.take(key(), 9, 0.0) == 3


def test_a_flood_takes_hours_to_push_out_a_line():
    """The figures of the documentation: files of 64 MB a kind, lines of 1.5 kB at most."""
    from gateway.log_files import FILE_BYTES, FILES

    longest = 1600
    hours = {}
    for outcome, limits in LIMITS.items():
        by_interval = (2 * limits.repeats + 1) * 60 / INTERVAL_S
        room = FILE_BYTES * (FILES - 1) - limits.burst * longest
        hours[outcome] = room / (longest * (limits.per_minute + by_interval)) / 60
    assert hours[Outcome.DENY] > 2.5
    assert hours[Outcome.ALLOW] > 0.7


def test_tallies_add_up():
    one = Tally(first=3.0, last=4.0, count=2, received=5, sent=7)
    both = one.plus(Tally(first=1.0, last=2.0, count=1, received=1, sent=1))
    assert both == Tally(first=1.0, last=4.0, count=3, received=6, sent=8)
    assert Counter([key().parent, key().parent]) == {Key("*.test"): 2}
    assert Key(None).parent == Key("test").parent == Key(None)
