"""From what passive mode let through to lines for the allowlist.

Proposed is what passive mode alone allowed, as exactly as it was seen: the names, and the ports of
their requests. Three names with the same parent on the same port become a wildcard, unless anybody
can get a name below that parent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from abox.allowlist import Policy
from abox.entries import DEFAULT_PORTS, WILDCARD, parse_entries
from abox.errors import AboxErrors
from abox.names import hosts_covering, public_suffix_below
from abox.reasons import RULE_PASSIVE, Reason
from abox.seen_names import Row, Seen
from abox.verdict_log import Outcome, Source

SIBLINGS = 3
"""Names with the same parent from which on a wildcard is proposed."""

APART = (
    Reason.SPECIAL_ADDRESS,
    Reason.DENIED,
    Reason.RESERVED_NAME,
    Reason.ADDRESS_LITERAL,
    Reason.UPSTREAM_NAME,
)
"""Why a name is told but not proposed: no entry would help, or nothing was reached."""


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """One line for the allowlist."""

    host: str
    ports: tuple[int, ...]
    names: tuple[str, ...]
    """Names that were seen and that it covers."""
    requests: int
    lookups: int

    @property
    def entry(self) -> Any:
        """The entry as it stands in the settings."""
        if self.ports == DEFAULT_PORTS:
            return self.host
        return {"host": self.host, "ports": list(self.ports)}

    def to_document(self) -> dict[str, Any]:
        """The proposal as a JSON object."""
        return {
            "entry": self.entry,
            "names": list(self.names),
            "requests": self.requests,
            "lookups": self.lookups,
        }


@dataclass(frozen=True, kw_only=True)
class NotProposed:
    """A name that was asked for and isn't proposed."""

    name: str
    port: int | None
    reason: str
    """Code, or the allowlist's own words."""
    count: int

    def to_document(self) -> dict[str, Any]:
        """The same as a JSON object."""
        return dict(vars(self))


@dataclass(frozen=True, kw_only=True)
class Profile:
    """What a record comes to."""

    proposals: tuple[Proposal, ...]
    """By their labels from right to left, so that siblings stand together."""
    apart: tuple[NotProposed, ...]
    covered: int
    """Names that the allowlist has already."""


@dataclass
class _Gathered:
    """Counts by what they are of."""

    requests: Counter[tuple[str, int]] = field(default_factory=Counter)
    lookups: Counter[str] = field(default_factory=Counter)
    apart: Counter[tuple[str, int | None, str]] = field(default_factory=Counter)
    covered: set[str] = field(default_factory=set)

    @property
    def names(self) -> set[str]:
        """Names that are to be proposed."""
        return {name for name, _ in self.requests} | set(self.lookups)

    def drop(self, refused: Mapping[str, str]) -> None:
        """Don't propose some names after all; each with why."""
        for name, port in [pair for pair in self.requests if pair[0] in refused]:
            self.apart[name, port, refused[name]] += self.requests.pop((name, port))
        for name in [name for name in self.lookups if name in refused]:
            self.apart[name, None, refused[name]] += self.lookups.pop(name)


def make_profile(rows: Mapping[Seen, Row], policy: Policy) -> Profile:
    """What to put on the allowlist.

    Args:
        rows: the record of what was seen.
        policy: the policy of the stack as it is.
    """
    gathered = _gather(rows, policy)
    gathered.drop({name: why for name in gathered.names if (why := _refusal(name))})
    return Profile(
        proposals=tuple(sorted(_proposals(gathered), key=lambda one: _order(one.host))),
        apart=tuple(
            NotProposed(name=name, port=port, reason=reason, count=count)
            for (name, port, reason), count in sorted(
                gathered.apart.items(), key=lambda one: (_order(one[0][0]), str(one[0]))
            )
        ),
        covered=len(gathered.covered),
    )


# --- what counts ----------------------------------------------------------------------------


def _gather(rows: Mapping[Seen, Row], policy: Policy) -> _Gathered:
    found = _Gathered()
    for seen, row in rows.items():
        if seen.reason in APART:
            if seen.verdict is Outcome.DENY or seen.rule == RULE_PASSIVE:
                found.apart[seen.name, seen.port, str(seen.reason)] += row.count
        elif seen.verdict is Outcome.ALLOW and seen.rule == RULE_PASSIVE:
            _add(found, seen, row, policy)
    worked = found.names | found.covered
    for name, port, reason in list(found.apart):
        if reason == Reason.UPSTREAM_NAME and name in worked:
            del found.apart[name, port, reason]  # it failed once and worked later
    return found


def _add(found: _Gathered, seen: Seen, row: Row, policy: Policy) -> None:
    """Count what passive mode allowed, unless the policy allows it by itself or denies it."""
    if policy.denied_by(seen.name):
        found.apart[seen.name, seen.port, Reason.DENIED.value] += row.count
        return
    entries = policy.entries_for(seen.name)
    if any(seen.port is None or seen.port in entry.ports for entry in entries):
        found.covered.add(seen.name)
    elif seen.source is Source.HTTP and seen.port is not None:
        found.requests[seen.name, seen.port] += row.count
    elif seen.address:
        found.lookups[seen.name] += row.count


def _refusal(host: str) -> str | None:
    """Why the allowlist would refuse an entry; None if it takes it."""
    try:
        parse_entries([host], "allow")
    except AboxErrors as refused:
        return refused.errors[0].why
    return None


# --- lines ----------------------------------------------------------------------------------


@dataclass
class _Line:
    """A proposal that is being gathered."""

    ports: set[int] = field(default_factory=set)
    names: set[str] = field(default_factory=set)
    requests: int = 0
    lookups: int = 0


def _proposals(found: _Gathered) -> list[Proposal]:
    lines = _lines(found)
    for (name, port), count in found.requests.items():
        for line in _covering(lines, name):
            if port in line.ports:
                line.names.add(name)
                line.requests += count
    for name, count in found.lookups.items():
        for line in _covering(lines, name):
            line.names.add(name)
            line.lookups += count
    return [
        Proposal(
            host=host,
            ports=tuple(sorted(line.ports)),
            names=tuple(sorted(line.names, key=_order)),
            requests=line.requests,
            lookups=line.lookups,
        )
        for host, line in lines.items()
    ]


def _lines(found: _Gathered) -> dict[str, _Line]:
    """Hosts and ports that cover everything; a mere look-up has the ports of a plain entry."""
    lines: dict[str, _Line] = {}
    for port, names in _by_port(found.requests).items():
        for host in _hosts(names):
            lines.setdefault(host, _Line()).ports.add(port)
    looked_up = [name for name in found.lookups if not any(_covering(lines, name))]
    for host in _hosts(looked_up):
        lines.setdefault(host, _Line()).ports.update(DEFAULT_PORTS)
    return lines


def _covering(lines: Mapping[str, _Line], name: str) -> Iterator[_Line]:
    return (lines[host] for host in hosts_covering(name) if host in lines)


def _by_port(requests: Iterable[tuple[str, int]]) -> Mapping[int, list[str]]:
    names: dict[int, list[str]] = {}
    for name, port in requests:
        names.setdefault(port, []).append(name)
    return names


def _hosts(names: Iterable[str]) -> set[str]:
    """Exact names and wildcards that cover names, as few as the rule of siblings gives."""
    names = set(names)
    siblings = Counter(name.partition(".")[2] for name in names)
    wildcards = {
        f"{WILDCARD}{parent}"
        for parent, count in siblings.items()
        if count >= SIBLINGS and _is_narrow(parent)
    }
    exact = {name for name in names if wildcards.isdisjoint(hosts_covering(name))}
    return exact | {
        host
        for host in wildcards
        if wildcards.isdisjoint(hosts_covering(host.removeprefix(WILDCARD)))
    }


def _is_narrow(parent: str) -> bool:
    """Whether all names below a parent belong to one owner."""
    return _refusal(f"{WILDCARD}{parent}") is None and public_suffix_below(parent) is None


def _order(host: str) -> list[str]:
    return host.split(".")[::-1]
