"""What was ever asked for, kept apart from the log: a record that no flood can push out.

One row for each name, port, verdict and reason, with its first and last time and a count. Rows are
never removed to make room; what comes when the record is full is counted. `abox profile` reads it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from abox.verdict_log import Outcome, Source, read_stamp, stamp

FILE = "seen.jsonl"

WORKED_MAX, FAILED_MAX = 20_000, 5_000
"""Rows of what was allowed and worked, and of all else: a flood of either leaves room to the other.
"""
FAILED_BURST, FAILED_PER_MINUTE = 1_000, 10
"""New rows of what was denied or failed: at once, and in the long run.

A flood of senseless names fills the record in days, not seconds.
"""

ADDRESS_TYPES = ("A", "AAAA")
"""Record types of a look-up that wants to connect."""


class Seen(NamedTuple):
    """What makes a row."""

    source: Source
    name: str
    port: int | None
    """None of a look-up."""
    verdict: Outcome
    reason: str | None
    rule: str | None
    address: bool
    """A request, or a look-up of an address; False: a look-up of something else."""

    @property
    def worked(self) -> bool:
        """Whether it was allowed and didn't fail."""
        return self.verdict is Outcome.ALLOW and self.reason is None


@dataclass(frozen=True)
class Row:
    """When and how often."""

    first: float
    last: float
    count: int


@dataclass
class SeenNames:
    """The record."""

    rows: dict[Seen, Row] = field(default_factory=dict)
    missed: int = 0
    """Verdicts that had no room."""
    changed: bool = False
    """Whether something was added since the record was last written whole."""
    _failed: int = 0
    _tokens: float = FAILED_BURST
    _now: float = 0.0

    def note(self, seen: Seen, first: float, last: float, count: int) -> bool:
        """Add verdicts; True if the row is new."""
        self.changed = True
        row = self.rows.get(seen)
        if row is not None:
            times = min(row.first, first), max(row.last, last)
            self.rows[seen] = Row(*times, row.count + count)
            return False
        if not self._has_room(seen, last):
            self.missed += count
            return False
        self.rows[seen] = Row(first, last, count)
        return True

    def _has_room(self, seen: Seen, now: float) -> bool:
        if seen.worked:
            return len(self.rows) - self._failed < WORKED_MAX
        more = max(now - self._now, 0.0) * FAILED_PER_MINUTE / 60
        self._tokens, self._now = min(self._tokens + more, FAILED_BURST), max(now, self._now)
        if self._failed >= FAILED_MAX or self._tokens < 1:
            return False
        self._tokens -= 1
        self._failed += 1
        return True

    # --- as a file ------------------------------------------------------------------------

    def to_text(self) -> str:
        """The whole record."""
        head = json.dumps({"missed": self.missed}) + "\n"
        return head + "".join(self.lines(self.rows))

    def lines(self, which: Iterable[Seen]) -> Iterator[str]:
        """Some rows; a line that is appended replaces an earlier one of the same row."""
        for seen in which:
            row = self.rows[seen]
            document = seen._asdict() | {
                "first": stamp(row.first),
                "last": stamp(row.last),
                "count": row.count,
            }
            yield json.dumps(document, separators=(",", ":")) + "\n"

    @classmethod
    def from_text(cls, text: str) -> SeenNames:
        """The record that was written; damaged lines are left out."""
        record = cls()
        for line in text.splitlines():
            try:
                document = json.loads(line)
                if "missed" in document:
                    record.missed = int(document["missed"])
                    continue
                seen, row = _read_row(document)
            except (ValueError, TypeError, KeyError, AttributeError):
                continue
            record._failed += seen not in record.rows and not seen.worked
            record.rows[seen] = row
        return record


def _read_row(document: dict[str, Any]) -> tuple[Seen, Row]:
    row = Row(
        read_stamp(document.pop("first")),
        read_stamp(document.pop("last")),
        int(document.pop("count")),
    )
    source, verdict = Source(document.pop("source")), Outcome(document.pop("verdict"))
    return Seen(source=source, verdict=verdict, **document), row
