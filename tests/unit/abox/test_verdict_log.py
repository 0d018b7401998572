"""A line of the log: nothing in it is forged, and its schema says what it holds."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from abox.verdict_log import (
    CLASSES,
    FILES,
    LIMITS,
    MAX_LINE_BYTES,
    Cause,
    Kind,
    NameVerdict,
    Outcome,
    RequestVerdict,
    Source,
    clean,
    parse_line,
    schema,
    stamp,
)
from tests.host import ROOT

DOCUMENT = ROOT / "docs" / "verdict-log.schema.json"
VALIDATOR = jsonschema.Draft202012Validator(schema())

texts = st.none() | st.text(max_size=600)
numbers = st.integers(min_value=0, max_value=2**40)
shared = {
    "time": st.floats(min_value=0, max_value=4e9),
    "until": st.none() | st.floats(min_value=0, max_value=4e9),
    "sandbox": st.just("dev"),
    "kind": st.sampled_from(Kind),
    "count": st.none() | numbers,
    "cause": st.none() | st.sampled_from(Cause),
    "verdict": st.none() | st.sampled_from(Outcome),
    "name": texts,
    "reason": st.none() | st.sampled_from(["not_allowed", "upstream_name"]),
    "rule": texts,
    "sent": numbers,
    "duration_ms": st.none() | numbers,
}
names = st.builds(NameVerdict, **shared, type=texts, rcode=st.none() | st.just("NXDOMAIN"))
requests = st.builds(
    RequestVerdict,
    **shared,
    port=st.none() | st.integers(0, 65535),
    method=texts,
    path=st.none() | st.text(max_size=600).map(lambda text: text.replace("?", "")),
    protocol=texts,
    status=st.none() | st.integers(0, 999),
    address=texts,
    received=numbers,
    tunnel=st.booleans(),
)


@given(names | requests)
def test_whatever_an_agent_sends_a_line_is_one_line_of_plain_characters(verdict):
    line = verdict.cleaned().to_line()
    assert line.endswith("\n")
    body = line[:-1]
    assert body.isascii()
    assert body.isprintable()
    assert len(line) <= MAX_LINE_BYTES
    document = json.loads(line)
    assert all(c.isascii() and c.isprintable() for c in str(list(document.values())))
    VALIDATOR.validate(document)


@given(names | requests)
def test_a_line_is_read_as_it_was_written(verdict):
    written = verdict.cleaned()
    read = parse_line(written.to_line())
    assert read is not None
    assert read.to_document() == written.to_document()
    assert read.summary() == written.summary()


@pytest.mark.parametrize("field", sorted(LIMITS))
def test_a_long_text_is_cut_and_says_so(field):
    kind: Any = next(one for one in CLASSES.values() if field in one.__dataclass_fields__)
    fixed = {"time": 0.0, "sandbox": "dev", "verdict": Outcome.DENY}
    line = kind(**fixed, **{field: "a" * 5000}).cleaned()
    assert getattr(line, field) == "a" * LIMITS[field]
    assert line.cut == (field,)
    assert kind(**fixed, **{field: "a" * LIMITS[field]}).cleaned().cut == ()


@given(st.text())
def test_clean_text_is_plain_and_says_what_it_was(text):
    found = clean(text)
    assert found.isascii()
    assert found.isprintable() or not found
    if text.isascii() and text.isprintable():
        assert found == text


def test_escapes_are_readable():
    assert clean("a\x1b[2J\n\u202e\U0001f600") == "a\\x1b[2J\\x0a\\u{202e}\\u{1f600}"


@given(st.text(max_size=200) | st.binary(max_size=50).map(lambda b: b.decode("latin-1")))
def test_what_is_no_line_reads_as_none(text):
    assert parse_line(text) is None


@pytest.mark.parametrize(
    "change",
    [{"kind": "x"}, {"verdict": "maybe"}, {"time": "x"}, {"extra": 1}, {"source": "ftp"},
     {"cut": None}, {"until": 5}],
)  # fmt: skip
def test_a_damaged_line_reads_as_none(change):
    whole = NameVerdict(time=0, sandbox="dev", verdict=Outcome.DENY, name="a.test")
    document = whole.to_document()
    assert parse_line(json.dumps(document)) == whole
    assert parse_line(json.dumps({**document, **change})) is None
    del document["name"]
    assert parse_line(json.dumps(document)) is None


def test_the_published_schema_is_the_codes():
    assert json.loads(DOCUMENT.read_text()) == schema()


def test_the_schema_refuses_what_a_line_never_holds():
    line = RequestVerdict(time=0, sandbox="dev", verdict=Outcome.DENY).to_document()
    assert VALIDATOR.is_valid(line)
    for wrong in (
        {"path": "/a?token=1"}, {"path": "/\x1b"}, {"name": "a\nb"}, {"method": "G" * 99},
        {"verdict": "maybe"}, {"reason": "because"}, {"port": 70000}, {"extra": 1},
        {"source": "dns"},
    ):  # fmt: skip
        assert not VALIDATOR.is_valid({**line, **wrong}), wrong
    for field in line:
        assert not VALIDATOR.is_valid({k: v for k, v in line.items() if k != field}), field


def test_each_source_and_verdict_has_a_file_of_its_own():
    assert len(set(FILES.values())) == len(FILES) == len(Source) * len(Outcome)


def test_times_are_in_utc_with_milliseconds():
    assert stamp(1796012828.483) == "2026-11-30T04:27:08.483Z"
    assert stamp(0) == "1970-01-01T00:00:00.000Z"


def test_lines_that_stand_for_several_say_so():
    name = NameVerdict(time=0.0, until=9.0, sandbox="dev", verdict=Outcome.DENY)
    repeats = replace(name, kind=Kind.REPEATS, count=7, name="*.evil.test", rcode="X")
    assert repeats.summary() == "DENY  any   *.evil.test X (x7)"
    request = RequestVerdict(time=0.0, until=9.0, sandbox="dev", verdict=Outcome.DENY)
    omitted = replace(request, kind=Kind.OMITTED, count=9, cause=Cause.RATE)
    assert omitted.summary() == "DENY  9 more, not told one by one (rate)"
    lost = replace(name, verdict=None, kind=Kind.OMITTED, count=None, cause=Cause.SPOOL_FULL)
    assert "an unknown number of more" in lost.summary()
