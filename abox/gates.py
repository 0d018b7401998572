"""Which open connections a change of the policy closes, and which it leaves alone.

Every tunnel, and every connection on which plain HTTP goes out, passes a gate: a filter chain of
Envoy that stands for a scope, some hosts at some port. Envoy closes the connections of a chain that
is gone, and no other. So a scope carries the number of the change since which it stands: a change
that takes something away within the scope gives it a new number, and all others keep theirs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from abox.allowlist import Mode, Policy
from abox.entries import WILDCARD
from abox.names import hosts_covering_all_of, in_authority
from abox.narrowing import REST, Narrowing, Places, narrowings

MAX_SCOPES = 2000
"""Most scopes of hosts; a longer list is told apart by parts alone. A scope costs Envoy 5 kB."""
MAX_RETIRED = 2000
"""Most scopes that are kept for their open connections alone; the oldest go first."""
PART_BITS = 8
"""Length of a name's part: how many kinds of names the gate can tell apart without a list."""
WILDCARD_BITS = 6
"""The longest beginning of a part by which the names below a wildcard are told apart."""
WILDCARD_SCOPES = 512
"""About so many scopes are spent on wildcards."""

_PRIME = 16777213


def part_of(name: str) -> str:
    """The part of a host as it stands in an authority: binary digits, the same in Lua."""
    found = 0
    for byte in name.encode():
        found = (found * 31 + byte) % _PRIME
    return f"{found % 2**PART_BITS:0{PART_BITS}b}"


@dataclass(frozen=True, order=True)
class Scope:
    """Connections that are closed together."""

    host: str
    """Host of an entry, or `REST`."""
    port: int = 0
    """0 stands for all of them."""
    part: str = ""
    """Only names whose part begins so."""

    def __str__(self) -> str:
        return f"{self.host}:{self.port}/{self.part}"

    @property
    def is_wildcard(self) -> bool:
        """Whether it holds the names below its host."""
        return self.host.startswith(WILDCARD)


@dataclass(frozen=True)
class Gates:
    """The scopes that stand, each with the number of the change since which it does."""

    since: Mapping[Scope, int] = field(default_factory=dict)

    def after(self, old: Policy | None, new: Policy | None, change: int) -> Gates:
        """The gates after a change.

        Args:
            old: the policy that these gates belong to.
            new: the one that comes.
            change: a number that no change before it had.
        """
        wanted = set(scopes(new)) if new else set()
        closed = self._closed(narrowings(old, new, self._places))
        kept = {scope: number for scope, number in self.since.items() if scope not in closed}
        return Gates(_bounded(kept, wanted) | {one: change for one in wanted if one not in kept})

    def opened(self, coming: Gates) -> Gates:
        """These gates with the coming scopes beside them, and nothing closed yet."""
        return Gates({**coming.since, **self.since})

    def to_record(self) -> list[list[Any]]:
        """The gates as JSON, sorted."""
        return [[s.host, s.port, s.part, number] for s, number in sorted(self.since.items())]

    @classmethod
    def from_record(cls, record: Iterable[Iterable[Any]]) -> Gates:
        """The gates that ``to_record`` wrote.

        Raises: ValueError or TypeError if it is something else.
        """
        members = [(Scope(host, port, part), number) for host, port, part, number in record]
        return cls(dict(members))

    @property
    def _places(self) -> Places:
        hosts = {scope.host for scope in self.since}
        return Places(hosts, {scope.port for scope in self.since} - {0})

    def _closed(self, narrowed: Iterable[Narrowing]) -> set[Scope]:
        closed: set[Scope] = set()
        for narrowing in narrowed:
            touched = self._touched(narrowing)
            closed |= {scope for scope in touched if scope.port in (0, narrowing.port)}
            if len(closed) == len(self.since):  # a long list has few scopes
                break
        return closed

    def _touched(self, narrowing: Narrowing) -> Iterator[Scope]:
        """Scopes that hold a name of a narrowing, whatever their ports."""
        host = narrowing.host
        covers = [REST] if host == REST else [*hosts_covering_all_of(host), REST]
        if host == REST or host.startswith(WILDCARD):
            for cover in covers:
                yield from self._by_host[cover]
            return
        part = part_of(in_authority(host))
        for cover in covers:
            for length in self._lengths.get(cover, ()):
                yield from self._by_part[cover, part[:length]]

    @cached_property
    def _by_host(self) -> Mapping[str, list[Scope]]:
        found: dict[str, list[Scope]] = defaultdict(list)
        for scope in self.since:
            found[scope.host].append(scope)
        return found

    @cached_property
    def _lengths(self) -> Mapping[str, set[int]]:
        """How long the parts of a host's scopes are."""
        found: dict[str, set[int]] = defaultdict(set)
        for scope in self.since:
            found[scope.host].add(len(scope.part))
        return found

    @cached_property
    def _by_part(self) -> Mapping[tuple[str, str], list[Scope]]:
        found: dict[tuple[str, str], list[Scope]] = defaultdict(list)
        for scope in self.since:
            found[scope.host, scope.part].append(scope)
        return found


def _bounded(kept: dict[Scope, int], wanted: set[Scope]) -> dict[Scope, int]:
    """What is kept, without the oldest of the scopes that nothing but open connections needs."""
    retired = sorted((number, scope) for scope, number in kept.items() if scope not in wanted)
    for _, scope in retired[: max(0, len(retired) - MAX_RETIRED)]:
        del kept[scope]
    return kept


def scopes(policy: Policy) -> Iterator[Scope]:
    """The scopes that a policy asks for: as fine as its length allows."""
    pairs = {(entry.host, port) for entry in policy.entries for port in entry.ports}
    exact = sorted(pair for pair in pairs if not pair[0].startswith(WILDCARD))
    wild = sorted(pair for pair in pairs if pair[0].startswith(WILDCARD))
    short = len(pairs) <= MAX_SCOPES
    if short:
        yield from (Scope(*pair) for pair in exact)
        bits = max(
            b for b in range(WILDCARD_BITS + 1) if not b or len(wild) << b <= WILDCARD_SCOPES
        )
        yield from (Scope(*pair, part) for pair in wild for part in _parts(bits))
    if not short or policy.mode is Mode.PASSIVE:
        yield from (Scope(REST, part=part) for part in _parts(PART_BITS))


def _parts(bits: int) -> Iterator[str]:
    yield from (f"{number:0{bits}b}" if bits else "" for number in range(2**bits))
