"""Lengths of time as Docker's own language writes them: `1h2m3.5s`, `300ms`."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Final

_UNITS_NS: Final = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
}
_PART: Final = re.compile(r"(\d+\.?\d*|\.\d+)(ns|us|µs|ms|s|m|h)")


def parse_duration(text: str) -> int:
    """Nanoseconds of a duration.

    Raises:
        ValueError: it isn't one.
    """
    sign = -1 if text.startswith("-") else 1
    rest = text[1:] if text[:1] in ("+", "-") else text
    if rest == "0":
        return 0
    if not rest or _PART.sub("", rest):
        raise ValueError(f"{text!r} is not a duration")
    parts = _PART.findall(rest)
    return sign * sum(int(Decimal(number) * _UNITS_NS[unit]) for number, unit in parts)


def render_duration(length_ns: int) -> str:
    """A duration in the shortest form of that language: 90 s is `1m30s`."""
    if length_ns == 0:
        return "0s"
    if length_ns < 0:
        return "-" + render_duration(-length_ns)
    if length_ns < _UNITS_NS["s"]:
        unit = next(unit for unit in ("ms", "µs", "ns") if length_ns >= _UNITS_NS[unit])
        return f"{_trimmed(Decimal(length_ns) / _UNITS_NS[unit])}{unit}"
    hours, rest = divmod(length_ns, _UNITS_NS["h"])
    minutes, rest = divmod(rest, _UNITS_NS["m"])
    seconds = f"{_trimmed(Decimal(rest) / _UNITS_NS['s'])}s"
    if hours:
        return f"{hours}h{minutes}m{seconds}"
    return f"{minutes}m{seconds}" if minutes else seconds


def _trimmed(number: Decimal) -> str:
    return f"{number.normalize():f}"
