"""What was measured: numbers in, a table and a document out."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One measured quantity beside what it is compared with."""

    id: str
    what: str
    unit: str
    """s or MB."""
    values: tuple[float, ...]
    """One a round."""
    beside: str
    """What the comparison is."""
    beside_values: tuple[float, ...]
    limit: float | None = None
    """Design target in the unit, on two cores; None if there is none."""

    @property
    def median(self) -> float:
        """The middle value of the rounds."""
        return statistics.median(self.values)

    @property
    def beside_median(self) -> float:
        """The middle value of the comparison's rounds."""
        return statistics.median(self.beside_values)

    @property
    def ratio(self) -> float | None:
        """How many times the comparison; None if that is too small to divide by."""
        return self.median / self.beside_median if self.beside_median > 0 else None

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None if there is none."""
        return None if self.limit is None else self.median <= self.limit

    def to_document(self) -> dict[str, Any]:
        """The figure for bench/results.json."""
        return {
            "id": self.id,
            "what": self.what,
            "unit": self.unit,
            "values": [round(value, 3) for value in self.values],
            "median": round(self.median, 3),
            "beside": self.beside,
            "beside_values": [round(value, 3) for value in self.beside_values],
            "beside_median": round(self.beside_median, 3),
            "ratio": None if self.ratio is None else round(self.ratio, 2),
            "limit": self.limit,
            "met": self.met,
        }

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Figure:
        """The figure that ``to_document`` wrote."""
        names = ("id", "what", "unit", "values", "beside", "beside_values", "limit")
        return cls(**{name: document[name] for name in names})


def render_table(figures: Sequence[Figure]) -> str:
    """A Markdown table, one figure a row."""
    lines = [
        "| what | measured | beside it, in the same run | times | target |",
        "|---|---|---|---|---|",
    ]
    for one in figures:
        ratio = "-" if one.ratio is None else f"{one.ratio:.1f}"
        limit = "-" if one.limit is None else f"≤ {one.limit:g} {one.unit}"
        verdict = {True: " (met)", False: " (**missed**)", None: ""}[one.met]
        lines.append(
            f"| {one.what} | {number(one.median)} {one.unit} "
            f"| {one.beside}: {number(one.beside_median)} {one.unit} | {ratio} "
            f"| {limit}{verdict} |"
        )
    return "\n".join(lines) + "\n"


def number(value: float) -> str:
    """A value with as many digits as say something."""
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 1 else f"{value:.3f}"
