"""Figures: medians, ratios, targets, and the table."""

from __future__ import annotations

from bench.figures import Figure, render_table
from bench.memory import parse_inactive_file, parse_pss


def figure(**changes) -> Figure:
    values = {
        "id": "up", "what": "`up`", "unit": "s", "values": (4.0, 9.0, 5.0), "beside": "a script",
        "beside_values": (2.0, 2.5, 3.0), "limit": 6,
    }  # fmt: skip
    return Figure(**{**values, **changes})


def test_medians_are_compared():
    one = figure()
    assert (one.median, one.beside_median, one.ratio, one.met) == (5.0, 2.5, 2.0, True)
    assert figure(limit=4).met is False


def test_nothing_is_divided_by_nothing():
    assert figure(beside_values=(0.0,)).ratio is None


def test_a_row_tells_value_comparison_ratio_and_target():
    (_, _, row, missed) = render_table([figure(), figure(limit=4)]).splitlines()
    assert row == "| `up` | 5.0 s | a script: 2.5 s | 2.0 | ≤ 6 s (met) |"
    assert "**missed**" in missed


def test_the_document_holds_every_round():
    document = figure().to_document()
    assert document["values"] == [4.0, 9.0, 5.0]
    assert document["ratio"] == 2.0


def test_memory_is_read_from_either_cgroup_version():
    assert parse_inactive_file("inactive_file 5\ntotal_inactive_file 7\n") == 7
    assert parse_inactive_file("inactive_file 5\n") == 5
    assert parse_pss("Rss: 10 kB\nPss:    42 kB\n") == 42
    assert parse_pss("") == 0
