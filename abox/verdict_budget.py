"""How many lines of the verdict log one kind of verdict may fill, so that a flood stays short.

The first verdicts of a kind are written one by one. What is over the budget is counted: first by
name, then by the name's parent, then all together; each interval ends with a few lines that say
what was counted. Nothing is lost but the details.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from abox.verdict_log import Outcome

INTERVAL_S = 15.0
"""Seconds until what was counted is told."""
MAX_COUNTED = 2000
"""Keys and parents that are counted apart; what comes later is counted together."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Bounds of one kind of verdict."""

    burst: int
    """Single lines at once."""
    per_minute: int
    """Single lines a minute, in the long run."""
    singles: int
    """Single lines of one key in an interval."""
    repeats: int
    """Lines for keys at the end of an interval, and as many for parents."""


LIMITS = {
    Outcome.ALLOW: Limits(burst=10_000, per_minute=300, singles=2_000, repeats=40),
    Outcome.DENY: Limits(burst=2_000, per_minute=60, singles=100, repeats=15),
}
"""An honest agent's denials are few and repeat themselves; what it may do is worth more lines."""


class Key(NamedTuple):
    """Verdicts with the same key are repeats of each other."""

    name: str | None
    port: int | None = None
    code: int | str | None = None
    """Status, or the DNS answer's code."""
    reason: str | None = None
    rule: str | None = None
    tunnel: bool = False

    @property
    def parent(self) -> Key:
        """The key under which names with the same parent are counted together."""
        above = (self.name or "").partition(".")[2]
        return Key(f"*.{above}" if above else None, reason=self.reason)


@dataclass(frozen=True, kw_only=True)
class Tally:
    """How often, when, how many bytes."""

    first: float
    last: float
    count: int = 1
    received: int = 0
    sent: int = 0

    def plus(self, other: Tally) -> Tally:
        """Both together."""
        return Tally(
            first=min(self.first, other.first),
            last=max(self.last, other.last),
            count=self.count + other.count,
            received=self.received + other.received,
            sent=self.sent + other.sent,
        )


@dataclass
class Budget:
    """The budget of one kind of verdict."""

    limits: Limits
    now: float
    """When tokens were last added, in seconds."""
    _tokens: float = field(init=False)
    _singles: dict[Key, int] = field(default_factory=dict)
    _counted: dict[Key, Tally] = field(default_factory=dict)
    _parents: dict[Key, Tally] = field(default_factory=dict)
    _rest: Tally | None = None

    def __post_init__(self) -> None:
        self._tokens = self.limits.burst

    def take(self, key: Key, wanted: int, now: float, *, fresh: bool = False) -> int:
        """How many of ``wanted`` verdicts may have lines of their own.

        Args:
            key: what they share.
            wanted: how many there are, at least one.
            now: seconds; time that runs backwards adds nothing.
            fresh: there never was one like it, so that one has a line whatever the budget says.
        """
        self._refill(now)
        used = self._singles.get(key, 0)
        granted = max(min(wanted, self.limits.singles - used, int(self._tokens)), 0)
        granted = max(granted, 1) if fresh else granted
        if granted:
            self._singles[key] = used + granted
            self._tokens = max(self._tokens - granted, 0.0)
        return granted

    def count(self, key: Key, tally: Tally) -> None:
        """Count verdicts that have no lines of their own."""
        if not (_add(self._counted, key, tally) or _add(self._parents, key.parent, tally)):
            self.omit(tally)

    def omit(self, tally: Tally) -> None:
        """Count verdicts of which nothing else is told."""
        self._rest = self._rest.plus(tally) if self._rest else tally

    def close(self) -> tuple[list[tuple[Key, Tally]], Tally | None]:
        """End the interval.

        Returns: what was counted by key or parent, the most frequent first; the rest together.
        """
        told = list(self._most(self._counted))
        for key, tally in self._counted.items():
            if not _add(self._parents, key.parent, tally):
                self.omit(tally)
        told += self._most(self._parents)
        for tally in self._parents.values():
            self.omit(tally)
        rest = self._rest
        self._singles, self._counted, self._parents, self._rest = {}, {}, {}, None
        return told, rest

    def _most(self, counted: dict[Key, Tally]) -> Iterator[tuple[Key, Tally]]:
        """Take the most frequent keys out."""
        chosen = sorted(counted, key=lambda key: -counted[key].count)[: self.limits.repeats]
        for key in chosen:
            yield key, counted.pop(key)

    def _refill(self, now: float) -> None:
        more = max(now - self.now, 0.0) * self.limits.per_minute / 60
        self._tokens = min(self._tokens + more, float(self.limits.burst))
        self.now = now


def _add(counted: dict[Key, Tally], key: Key, tally: Tally) -> bool:
    """Add to a tally; False if the key is new and there is no more room."""
    before = counted.get(key)
    if before is None and len(counted) >= MAX_COUNTED:
        return False
    counted[key] = before.plus(tally) if before else tally
    return True
