"""No minute, wherever it begins, takes more questions than the budget."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from abox import query_budget
from abox.query_budget import WINDOW_S, QueryBudget

times = st.lists(st.floats(0, 200), max_size=120).map(sorted)


@given(times, st.integers(1, 10))
def test_no_minute_takes_more_than_the_budget(asked, limit):
    budget = QueryBudget()
    passed = [now for now in asked if budget.spend("*.wild.test", limit, now)]
    for start in passed:
        within = [now for now in passed if start <= now < start + WINDOW_S]
        assert len(within) <= limit


@given(times, st.integers(1, 10))
def test_nothing_is_refused_while_there_is_budget_left(asked, limit):
    """The window is counted by whole seconds: one second more than a minute at most."""
    budget = QueryBudget()
    passed: list[float] = []
    for now in asked:
        recent = [then for then in passed if then > now - WINDOW_S - 1]
        allowed = budget.spend("*.wild.test", limit, now)
        assert allowed or len(recent) >= limit
        passed += [now] if allowed else []


def test_a_refused_question_costs_nothing():
    budget = QueryBudget()
    assert budget.spend("a.test", 1, 0.0)
    assert not any(budget.spend("a.test", 1, now) for now in range(1, 60))
    assert budget.spend("a.test", 1, 62.0)


def test_each_entry_has_a_budget_of_its_own():
    budget = QueryBudget()
    assert budget.spend("*.wild.test", 1, 0.0)
    assert not budget.spend("*.wild.test", 1, 1.0)
    assert budget.spend("allowed.test", 1, 1.0)


def test_memory_is_bounded_and_what_is_over_the_bound_shares_one_budget(monkeypatch):
    monkeypatch.setattr(query_budget, "ZONES_MAX", 3)
    budget = QueryBudget()
    assert all(budget.spend(f"{n}.test", 2, 0.0) for n in range(5))
    assert not budget.spend("6.test", 2, 0.0)
    assert len(budget.zones) <= 4
    assert budget.spend("7.test", 2, 100.0)
    assert "7.test" in budget.zones


@pytest.mark.parametrize("limit", [1, query_budget.QUERIES_PER_MINUTE_MAX])
def test_the_first_question_passes_under_every_limit(limit):
    assert QueryBudget().spend("a.test", limit, 1e9)
