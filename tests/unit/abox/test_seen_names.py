"""The record of what was seen: nothing pushes a row out, and it survives its file."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from abox import seen_names
from abox.seen_names import FAILED_BURST, Row, Seen, SeenNames
from abox.verdict_log import Outcome, Source

WORKED = Seen(Source.HTTP, "a.test", 443, Outcome.ALLOW, None, "mode: passive", True)
DENIED = Seen(Source.DNS, "evil.test", None, Outcome.DENY, "not_allowed", None, True)

sightings = st.builds(
    Seen,
    st.sampled_from(Source),
    st.sampled_from(["a.test", "b.test", "c.d.test"]),
    st.none() | st.integers(1, 65535),
    st.sampled_from(Outcome),
    st.none() | st.sampled_from(["not_allowed", "upstream_name"]),
    st.none() | st.sampled_from(["mode: passive", "*.test"]),
    st.booleans(),
)


def test_a_row_counts_and_keeps_its_times():
    record = SeenNames()
    assert record.note(WORKED, 10.0, 12.0, 3)
    assert not record.note(WORKED, 5.0, 11.0, 2)
    assert record.rows == {WORKED: Row(5.0, 12.0, 5)}


def test_a_flood_of_denials_leaves_earlier_rows_and_room_for_what_works():
    record = SeenNames()
    record.note(DENIED, 0.0, 0.0, 1)
    for n in range(20_000):
        record.note(DENIED._replace(name=f"{n}.test"), 1.0, 1.0, 1)
    assert DENIED in record.rows
    assert len(record.rows) == FAILED_BURST
    assert record.missed == 20_001 - FAILED_BURST
    assert record.note(WORKED, 2.0, 2.0, 1)


def test_after_a_flood_there_is_room_for_new_denials_little_by_little():
    record = SeenNames()
    for n in range(FAILED_BURST + 1):
        record.note(DENIED._replace(name=f"{n}.test"), 1.0, 1.0, 1)
    assert not record.note(DENIED, 2.0, 2.0, 1)
    assert record.note(DENIED, 62.0, 62.0, 1)


def test_the_record_is_bounded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(seen_names, "WORKED_MAX", 5)
    monkeypatch.setattr(seen_names, "FAILED_MAX", 3)
    record = SeenNames()
    for n in range(9):
        record.note(WORKED._replace(name=f"{n}.test"), 1.0, 1.0, 1)
        record.note(DENIED._replace(name=f"{n}.test"), 1.0, 1.0, 2)
    assert sum(seen.worked for seen in record.rows) == 5
    assert sum(not seen.worked for seen in record.rows) == 3
    assert record.missed == 4 + 6 * 2
    assert SeenNames.from_text(record.to_text()).missed == record.missed


@given(st.lists(st.tuples(sightings, st.integers(0, 10**9), st.integers(0, 99)), max_size=30))
def test_the_record_survives_its_file(noted):
    record = SeenNames()
    for seen, time, count in noted:
        record.note(seen, float(time), float(time), count)
    read = SeenNames.from_text(record.to_text())
    assert read.rows == record.rows
    assert read._failed == record._failed
    again = record.to_text() + "".join(record.lines(record.rows))
    assert SeenNames.from_text(again).rows == record.rows  # a row that is appended replaces itself


@given(st.lists(st.text(max_size=40) | st.sampled_from(["{}", "[]", "1", '{"missed": "x"}'])))
def test_damaged_lines_are_left_out(lines):
    good = "".join(SeenNames({WORKED: Row(1.0, 1.0, 1)}).lines([WORKED]))
    assert WORKED in SeenNames.from_text("\n".join([*lines, good])).rows


def test_a_file_is_plain_text():
    record = SeenNames({WORKED._replace(name="a\u00e9\x1b"): Row(1.0, 1.0, 1)})
    assert record.to_text().isascii()
    assert "\x1b" not in record.to_text()
    assert json.loads(record.to_text().splitlines()[1])["count"] == 1
