"""From the filters' raw lines to lines of the verdict log: judged, budgeted, remembered.

Pure: bytes in, lines out; times come from outside.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from abox.seen_names import ADDRESS_TYPES, Seen, SeenNames
from abox.verdict_budget import INTERVAL_S, LIMITS, Budget, Key, Tally
from abox.verdict_log import (
    CLASSES,
    FILES,
    Cause,
    Kind,
    NameVerdict,
    Outcome,
    RequestVerdict,
    Source,
    Verdict,
    read_stamp,
)
from abox.verdict_sources import (
    Fields,
    Judge,
    is_denied,
    read_replies,
    read_reply,
    read_request,
    read_requests,
    split_denials,
    total,
)

CLOSE_PER_S = 1_000
"""Groups of denials of one filter that are looked at in a second; the rest is only counted."""

Stream = tuple[Source, Outcome]


@dataclass
class Recorder:
    """The state between two readings."""

    sandbox: str
    own_address: str
    """The gateway's: what it asks itself is no verdict."""
    now: float
    """When the interval began, in seconds."""
    seen: SeenNames = field(default_factory=SeenNames)
    fresh: set[Seen] = field(default_factory=set)
    """New rows of ``seen``, for whoever writes it; emptied by them."""
    unread: dict[Source, int] = field(default_factory=lambda: dict.fromkeys(Source, 0))
    """Lines that were no verdicts."""
    _budgets: dict[Stream, Budget] = field(init=False)
    _looked: dict[Source, tuple[int, int]] = field(
        default_factory=lambda: dict.fromkeys(Source, (0, 0))
    )
    """A second, and how many groups of denials were looked at in it."""
    _lost: set[Source] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._budgets = {stream: Budget(LIMITS[stream[1]], self.now) for stream in FILES}

    def take_names(self, data: bytes, judge: Judge, now: float) -> list[Verdict]:
        """Lines for whole lines of the DNS filter's reply log."""
        if self._is_flooded(Source.DNS, now):
            data, denials = split_denials(data)
            if denials:
                self._omit_denials(Source.DNS, Tally(first=now, last=now, count=denials))
        groups, bad = read_replies(data)
        self.unread[Source.DNS] += bad
        own = self.own_address.encode()
        return [
            line
            for group in groups
            if (asked := [one for one in group if one[1] != own])
            for line in self._name_lines(asked, judge, now)
        ]

    def take_requests(self, data: bytes, judge: Judge, now: float) -> list[Verdict]:
        """Lines for whole lines of the proxy's access log."""
        groups, bad = read_requests(data)
        self.unread[Source.HTTP] += bad
        return [
            line
            for group in groups
            if group[0]["client"] != self.own_address
            for line in self._request_lines(group, judge, now)
        ]

    def lose(self, source: Source) -> None:
        """Note that the filter's own lines were lost, nobody knows how many."""
        self._lost.add(source)

    def omitted(self, stream: Stream, tally: Tally, cause: Cause) -> Verdict:
        """The line that says how many verdicts have no line."""
        return replace(self._line(stream, tally, Kind.OMITTED), cause=cause)

    def close(self, now: float, *, force: bool = False) -> list[Verdict]:
        """Lines for what was only counted, once the interval is over."""
        if not force and 0 <= now - self.now < INTERVAL_S:
            return []
        lines = [self._uncounted(source, now) for source in sorted(self._lost)]
        self._lost.clear()
        self.now = now
        for stream, budget in self._budgets.items():
            told, rest = budget.close()
            lines += [self._repeats(stream, key, tally) for key, tally in told]
            if rest is not None:
                lines.append(self.omitted(stream, rest, Cause.RATE))
        return lines

    def _uncounted(self, source: Source, now: float) -> Verdict:
        line = self._line((source, None), Tally(first=self.now, last=now), Kind.OMITTED)
        return replace(line, count=None, cause=Cause.SPOOL_FULL)

    def _repeats(self, stream: Stream, key: Key, tally: Tally) -> Verdict:
        line = self._line(stream, tally, Kind.REPEATS)
        line = replace(line, name=key.name, reason=key.reason, rule=key.rule)
        if isinstance(line, NameVerdict):
            return replace(line, rcode=key.code if isinstance(key.code, str) else None)
        status = key.code if isinstance(key.code, int) else None
        return replace(line, port=key.port, status=status, tunnel=key.tunnel)

    def _line(self, stream: tuple[Source, Outcome | None], tally: Tally, kind: Kind) -> Verdict:
        """A line that stands for several."""
        source, outcome = stream
        line: Verdict = CLASSES[source](
            time=tally.first,
            until=tally.last,
            sandbox=self.sandbox,
            kind=kind,
            count=tally.count,
            verdict=outcome,
            sent=tally.sent,
        )
        if isinstance(line, RequestVerdict):
            return replace(line, received=tally.received)
        return line

    # --- one group ------------------------------------------------------------------------

    def _name_lines(
        self, group: list[tuple[bytes, ...]], judge: Judge, now: float
    ) -> Iterator[NameVerdict]:
        head = read_reply(group[0], self.sandbox, judge)
        self._looked_at(head, now)
        key = Key(head.name, None, head.rcode, head.reason, head.rule)
        alone = self._alone(head, key, _tally_of_names(group), now)
        for one in group[:alone]:
            yield read_reply(one, self.sandbox, judge)
        if rest := group[alone:]:
            self._budgets[head.source, head.outcome].count(key, _tally_of_names(rest))

    def _request_lines(
        self, group: list[Fields], judge: Judge, now: float
    ) -> Iterator[RequestVerdict]:
        if self._is_flooded(Source.HTTP, now) and is_denied(group[0]):
            self._omit_denials(Source.HTTP, _tally_of_requests(group, now))
            return
        head = read_request(group[0], self.sandbox, judge)
        if head is None:
            self.unread[Source.HTTP] += len(group)
            return
        self._looked_at(head, now)
        key = Key(head.name, head.port, head.status, head.reason, head.rule, head.tunnel)
        alone = self._alone(head, key, _tally_of_requests(group, now), now)
        for one in group[:alone]:
            if (single := read_request(one, self.sandbox, judge)) is not None:
                yield single
        if rest := group[alone:]:
            self._budgets[head.source, head.outcome].count(key, _tally_of_requests(rest, now))

    def _alone(self, head: Verdict, key: Key, tally: Tally, now: float) -> int:
        """How many of a group have lines of their own; the group is remembered."""
        fresh = self._remember(head, tally)
        budget = self._budgets[head.source, head.outcome]
        return budget.take(key, tally.count, now, fresh=fresh)

    def _remember(self, head: Verdict, tally: Tally) -> bool:
        """Note a group in the record; whether there never was one like it."""
        if head.name is None:
            return False
        address, port, count = True, None, tally.count
        if isinstance(head, RequestVerdict):
            port = head.port
            count = 0 if head.tunnel else count  # its requests are counted
        else:
            address = head.type in ADDRESS_TYPES
        seen = Seen(head.source, head.name, port, head.outcome, head.reason, head.rule, address)
        fresh = self.seen.note(seen, tally.first, tally.last, count)
        if fresh:
            self.fresh.add(seen)
        return fresh

    # --- floods ---------------------------------------------------------------------------

    def _is_flooded(self, source: Source, now: float) -> bool:
        """Whether enough denials were looked at in this second."""
        second, count = self._looked[source]
        return second == int(now) and count >= CLOSE_PER_S

    def _looked_at(self, head: Verdict, now: float) -> None:
        if head.outcome is Outcome.DENY:
            second, count = self._looked[head.source]
            self._looked[head.source] = int(now), 1 + (count if second == int(now) else 0)

    def _omit_denials(self, source: Source, tally: Tally) -> None:
        self._budgets[source, Outcome.DENY].omit(tally)


def _tally_of_names(group: Sequence[Sequence[bytes]]) -> Tally:
    seconds = [one[0] for one in group]
    return Tally(
        first=float(min(seconds)),
        last=float(max(seconds)),
        count=len(group),
        sent=sum(int(one[6]) for one in group),
    )


def _tally_of_requests(group: Sequence[Fields], now: float) -> Tally:
    times = [str(one["time"]) for one in group]
    try:
        first, last = read_stamp(min(times)), read_stamp(max(times))
    except ValueError:
        first = last = now
    return Tally(
        first=first,
        last=last,
        count=len(group),
        received=total(group, "received"),
        sent=total(group, "sent"),
    )
