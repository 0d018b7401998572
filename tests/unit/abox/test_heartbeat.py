"""Lines of a guest that nobody trusts: only a heartbeat is one, and nothing grows for ever."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from abox.heartbeat import (
    LINE_MAX,
    SEQUENCE_MAX,
    Heartbeat,
    Lines,
    parse_heartbeat,
    parse_seen,
    render_seen,
)

BOOT = "0f0e0d0c-1111-2222-3333-444455556666"
BEAT = Heartbeat(sequence=7, boot=BOOT)


def line(**changed: object) -> bytes:
    return json.dumps({"sequence": 7, "boot": BOOT, **changed}).encode()


def test_a_heartbeat_is_read() -> None:
    assert parse_heartbeat(line()) == BEAT
    assert parse_heartbeat(line(sequence=SEQUENCE_MAX)).sequence == SEQUENCE_MAX


@pytest.mark.parametrize(
    "bad",
    [
        b"", b"{}", b"null", b"[]", b"7", b"\xff\xfe", b"\0" * 40, line() + b"x", line()[:-1],
        b"[" * 200, line(sequence="7"), line(sequence=7.5), line(sequence=True), line(sequence=0),
        line(sequence=SEQUENCE_MAX + 1), line(sequence=None), line(extra=1), line(boot=""),
        line(boot=BOOT.upper()), line(boot=BOOT + "\n"), line(boot=BOOT + "\x1b[2J"),
        line(boot=[BOOT]), line() + b" " * LINE_MAX,
    ],
    ids=repr,
)  # fmt: skip
def test_anything_else_is_refused_and_not_repeated(bad: bytes) -> None:
    with pytest.raises(ValueError, match=r"no heartbeat|longer than") as caught:
        parse_heartbeat(bad)
    assert "\x1b" not in str(caught.value)
    assert BOOT not in str(caught.value)


@given(st.binary(max_size=LINE_MAX + 8))
def test_no_bytes_break_the_parser(data: bytes) -> None:
    try:
        found = parse_heartbeat(data)
    except ValueError:
        return
    assert found.boot.isprintable()


@given(st.lists(st.binary(max_size=40).filter(lambda b: b"\n" not in b)), st.data())
def test_lines_come_whole_however_they_are_cut(wanted: list[bytes], data: st.DataObject) -> None:
    text = b"".join(one + b"\n" for one in wanted)
    lines, found = Lines(), []
    while text:
        size = data.draw(st.integers(1, len(text)))
        found += list(lines.feed(text[:size]))
        text = text[size:]
    assert found == wanted


def test_a_line_without_an_end_takes_no_room_and_is_refused() -> None:
    lines = Lines()
    for _ in range(1000):
        assert list(lines.feed(b"x" * 1024)) == []
        assert len(lines._rest) <= LINE_MAX + 1
    (cut, good) = lines.feed(b"\n" + line() + b"\n")
    with pytest.raises(ValueError, match="longer than"):
        parse_heartbeat(cut)
    assert parse_heartbeat(good) == BEAT


def test_what_was_seen_is_read_back() -> None:
    at = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    seen = parse_seen(render_seen(BEAT, at))
    assert seen is not None
    assert (seen.heartbeat, seen.at) == (BEAT, at)


@pytest.mark.parametrize("text", ["", "{}", "x", '{"heartbeat": {}, "at": 1}'])
def test_what_is_no_record_was_never_seen(text: str) -> None:
    assert parse_seen(text) is None
