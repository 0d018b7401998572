"""Durations as Docker's language writes them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolchain.plugins.docker.durations import parse_duration, render_duration


@pytest.mark.parametrize(
    ("text", "length_ns"),
    [
        ("0", 0),
        ("0s", 0),
        ("5s", 5 * 10**9),
        ("1m30s", 90 * 10**9),
        ("1h0m0s", 3600 * 10**9),
        ("1.5s", 1_500_000_000),
        ("300ms", 300_000_000),
        ("2us", 2000),
        ("-1s", -(10**9)),
    ],
)
def test_known_durations(text: str, length_ns: int) -> None:
    """A few by hand."""
    assert parse_duration(text) == length_ns


@given(st.integers(-(10**16), 10**16))
def test_what_is_rendered_is_parsed_again(length_ns: int) -> None:
    """No length is lost."""
    assert parse_duration(render_duration(length_ns)) == length_ns


@pytest.mark.parametrize(
    ("length_ns", "text"),
    [(0, "0s"), (90 * 10**9, "1m30s"), (3600 * 10**9, "1h0m0s"), (1500, "1.5µs"), (5, "5ns")],
)
def test_rendered_forms(length_ns: int, text: str) -> None:
    """As Docker's language prints them: the state is compared with what the program writes."""
    assert render_duration(length_ns) == text


@pytest.mark.parametrize("text", ["", "5", "s", "5 s", "1d", "5sx", "--5s"])
def test_anything_else_is_refused(text: str) -> None:
    """A number without a unit, an unknown unit, rubbish."""
    with pytest.raises(ValueError, match="is not a duration"):
        parse_duration(text)
