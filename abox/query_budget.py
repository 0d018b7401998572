"""How many questions below one entry may leave the sandbox in a minute.

A listed zone is a channel by its names alone: whoever serves it reads them. What is asked from a
cache leaves no query and costs nothing here. A module of its own without imports of the library,
since it runs inside the resolvers.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

WINDOW_S = 60
"""Seconds that a budget is for: it holds for every such span, wherever it begins."""

DEFAULT_QUERIES_PER_MINUTE = 1200
"""Twenty a second: more than tools that look for names need, and caches answer most of those."""

QUERIES_PER_MINUTE_MAX = 60_000
"""About what one resolver forwards at all."""

ZONES_MAX = 4096
"""Zones with a budget of their own at a time; more share one, so that memory stays bounded."""

SHARED = "(all other zones)"


@dataclass
class _Zone:
    """Questions of the last minute, counted by the second."""

    seconds: deque[list[int]] = field(default_factory=deque)
    """Second and questions in it, the oldest first."""
    total: int = 0

    def forget(self, before: int) -> None:
        """Drop what was asked before a second."""
        while self.seconds and self.seconds[0][0] < before:
            self.total -= self.seconds.popleft()[1]

    def count(self, second: int) -> None:
        """Add a question."""
        if not self.seconds or self.seconds[-1][0] != second:
            self.seconds.append([second, 0])
        self.seconds[-1][1] += 1
        self.total += 1


@dataclass
class QueryBudget:
    """The budgets of all zones."""

    zones: dict[str, _Zone] = field(default_factory=dict)

    def spend(self, zone: str, limit: int, now_s: float) -> bool:
        """Whether one more question may be forwarded; if so, it is counted.

        Args:
            zone: what has the budget: the entry that covers the name.
            limit: questions in a minute.
            now_s: seconds of a clock that never goes back.
        """
        second = int(now_s)
        counted = self._find(zone, second)
        counted.forget(second - WINDOW_S)
        if counted.total >= limit:
            return False
        counted.count(second)
        return True

    def _find(self, zone: str, second: int) -> _Zone:
        if zone not in self.zones and len(self.zones) >= ZONES_MAX:
            self._sweep(second)
            if len(self.zones) >= ZONES_MAX:
                zone = SHARED
        return self.zones.setdefault(zone, _Zone())

    def _sweep(self, second: int) -> None:
        """Drop zones that weren't asked for in the last minute."""
        for zone, counted in [*self.zones.items()]:
            counted.forget(second - WINDOW_S)
            if not counted.total:
                del self.zones[zone]
