"""Subjects beside each other: medians, targets, and a table that hides no failure."""

from __future__ import annotations

import pytest

from bench.rows import ABOX, Row, render_rows


def row(mine: float, other: float, **settings) -> Row:
    made = Row(id="r", what="a thing", unit="requests/s", **settings)
    made.add(ABOX, mine)
    made.add("peer", other)
    return made


def test_the_middle_value_of_the_rounds_counts():
    made = row(1, 5)
    for value in (100, 3):
        made.add(ABOX, value)
    assert made.median(ABOX) == 3
    assert made.median("absent") is None


@pytest.mark.parametrize(("mine", "met"), [(30.0, True), (29.9, False)])
def test_a_ratio_is_a_target_beside_the_best_peer(mine: float, met: bool):
    made = row(mine, 10, goal_ratio=3.0, goal_beside=("peer", "absent"))
    assert (made.goal_value, made.met) == (30.0, met)


def test_the_harder_of_two_targets_counts():
    assert row(50, 10, goal=40, goal_ratio=3, goal_beside=("peer",)).goal_value == 40
    less = row(50, 100, goal=40, goal_ratio=0.5, goal_beside=("peer",), more_is_better=False)
    assert (less.goal_value, less.met) == (40, False)


def test_without_a_peer_s_value_there_is_no_target_to_meet():
    made = row(1, 1, goal_ratio=3.0, goal_beside=("absent",))
    assert (made.goal_value, made.met) == (None, None)


def test_the_table_tells_a_failure_from_a_subject_that_takes_no_part():
    made = row(1234.4, 0.5, goal=2000)
    made.failures["broken"] = "status 502"
    (*_, line) = render_rows([made], (ABOX, "peer", "broken", "absent")).splitlines()
    assert line == "| a thing (requests/s) | 1234 | 0.500 | failed | - | ≥ 2000 (**missed**) |"
    assert made.to_document()["failures"] == {"broken": "status 502"}
