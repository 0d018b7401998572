"""Several subjects beside each other, one measured quantity a row."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bench.figures import number

ABOX = "abox"


@dataclass(kw_only=True)
class Row:
    """One quantity, measured for several subjects in the same run."""

    id: str
    what: str
    unit: str
    more_is_better: bool = True
    values: dict[str, list[float]] = field(default_factory=dict)
    """Subject to its values, one a round."""
    failures: dict[str, str] = field(default_factory=dict)
    """Subject to why it could not be measured."""
    goal: float | None = None
    """Design target in the unit; None if there is none."""
    goal_ratio: float | None = None
    """Design target as a multiple of the subjects in ``goal_beside``."""
    goal_beside: tuple[str, ...] = ()

    def add(self, subject: str, value: float) -> None:
        """Keep one round's value."""
        self.values.setdefault(subject, []).append(value)

    def median(self, subject: str) -> float | None:
        """The middle value of a subject's rounds, None if it has none."""
        found = self.values.get(subject)
        return statistics.median(found) if found else None

    @property
    def goal_value(self) -> float | None:
        """The target in the unit: the larger of both kinds, None if there is none."""
        beside = [self.median(subject) for subject in self.goal_beside]
        best = max((value for value in beside if value is not None), default=None)
        found = [] if self.goal is None else [self.goal]
        if best is not None and self.goal_ratio is not None:
            found.append(best * self.goal_ratio)
        if not found:
            return None
        return max(found) if self.more_is_better else min(found)

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None if there is none."""
        goal, mine = self.goal_value, self.median(ABOX)
        if goal is None or mine is None:
            return None
        return mine >= goal if self.more_is_better else mine <= goal

    def to_document(self) -> dict[str, Any]:
        """The row for bench/results.json."""
        return {
            "id": self.id,
            "what": self.what,
            "unit": self.unit,
            "more_is_better": self.more_is_better,
            "values": {name: [round(v, 2) for v in found] for name, found in self.values.items()},
            "median": {name: round(statistics.median(v), 2) for name, v in self.values.items()},
            "failures": self.failures,
            "goal": None if self.goal_value is None else round(self.goal_value, 2),
            "met": self.met,
        }

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Row:
        """The row that ``to_document`` wrote, its target as a value."""
        names = ("id", "what", "unit", "more_is_better", "values", "failures", "goal")
        return cls(**{name: document[name] for name in names})


def render_rows(rows: Sequence[Row], subjects: Sequence[str]) -> str:
    """A Markdown table, one quantity a row, one subject a column."""
    lines = [
        "| what | " + " | ".join(subjects) + " | target |",
        "|---|" + "---|" * (len(subjects) + 1),
    ]
    for row in rows:
        cells = [_cell(row, subject) for subject in subjects]
        lines.append(f"| {row.what} ({row.unit}) | " + " | ".join(cells) + f" | {_goal(row)} |")
    return "\n".join(lines) + "\n"


def _cell(row: Row, subject: str) -> str:
    value = row.median(subject)
    if value is not None:
        return number(value)
    return "failed" if subject in row.failures else "-"


def _goal(row: Row) -> str:
    if row.goal_value is None:
        return "-"
    sign = "≥" if row.more_is_better else "≤"
    verdict = {True: " (met)", False: " (**missed**)", None: ""}[row.met]
    return f"{sign} {number(row.goal_value)}{verdict}"
