"""What a change of the policy takes away: the open connections that have to be closed.

A connection was judged when it was opened. After a change it may stay only if nothing that it could
carry is refused now. So a change is narrower at a host and port if, and only if, some request that
was allowed there is refused now, its TLS passes another way, or other headers may be put on it.
Additions narrow nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from abox.addresses import Network, ends_in_number
from abox.allowlist import Entry, Mode, Policy, Way
from abox.entries import WILDCARD
from abox.injection import Injection
from abox.name_shape import WILDCARD_NAME_MAX
from abox.names import hosts_covering_all_of
from abox.paths import PathPattern
from abox.render.addresses import refused_networks

REST = "*"
"""Stands for every name that no other host of a comparison covers."""


@dataclass(frozen=True)
class Narrowing:
    """A place where less is allowed than before."""

    host: str
    """An exact name, an address, a wildcard without the more exact hosts below it, or `REST`."""
    port: int | None
    """None stands for every port that the comparison doesn't name."""


@dataclass(frozen=True)
class Places:
    """Hosts and ports that a comparison tells apart besides those that the policies name."""

    hosts: Collection[str] = ()
    ports: Collection[int] = ()


def narrowings(old: Policy | None, new: Policy | None, places: Places) -> Iterator[Narrowing]:
    """Where the new policy refuses something that the old one allowed, each place once.

    Args:
        old: None before the first policy: nothing was allowed.
        new: None: nothing is allowed.
        places: told apart in the result, whatever the policies name.
    """
    if old is None:
        return
    comparison = _Comparison(old, new or Policy())
    for host in {*places.hosts, *_hosts(old), *_hosts(comparison.new), REST}:
        covers = _covering(host)
        if comparison.may_differ(covers):
            for port in comparison.narrower_ports(host, covers, places.ports):
                yield Narrowing(host, port)


def _hosts(policy: Policy) -> Iterator[str]:
    yield from (entry.host for entry in policy.entries)
    yield from policy.deny


class _Comparison:
    """Two policies, asked host by host."""

    def __init__(self, old: Policy, new: Policy) -> None:
        self._old, self.new = old, new
        self._addresses_lost = _loses_addresses(old.allow_private_cidrs, new.allow_private_cidrs)
        self._everywhere = (
            self._addresses_lost
            or old.usual_way is not new.usual_way
            or (old.mode is Mode.PASSIVE and new.mode is Mode.ACTIVE)
        )
        self._changed = _changed_hosts(old, new)
        self._known: dict[tuple[_Rules, _Rules], tuple[int | None, ...]] = {}

    def may_differ(self, covers: Sequence[str]) -> bool:
        """Whether less may be allowed than before; a long list is mostly as it was.

        Args:
            covers: hosts that cover the one in question, itself first.
        """
        return self._everywhere or any(cover in self._changed for cover in covers)

    def narrower_ports(
        self, host: str, covers: Sequence[str], ports: Collection[int]
    ) -> tuple[int | None, ...]:
        """Ports at which the host lost something."""
        old = _rules_at(self._old, host, covers)
        if not old.terms and not old.everything:  # there was nothing to lose
            return ()
        rules = old, _rules_at(self.new, host, covers)
        if rules not in self._known:  # most hosts of a long list have the same
            self._known[rules] = tuple(self._narrower_ports(*rules, ports))
        return self._known[rules]

    def _narrower_ports(
        self, old: _Rules, new: _Rules, ports: Collection[int]
    ) -> Iterator[int | None]:
        for port in (*sorted({*ports, *old.ports, *new.ports}), None):
            if old.allows_connect(port) and (
                self._addresses_lost
                or not new.allows_connect(port)
                or old.way(port) is not new.way(port)
                or old.injecting(port) != new.injecting(port)
                or not new.allows_all_of(old, port)
            ):
                yield port


def _loses_addresses(old: Sequence[Network], new: Sequence[Network]) -> bool:
    """Whether an address may no longer be dialled; nobody knows which connection leads to it."""
    if set(old) <= set(new):
        return False
    before = [network for version in (4, 6) for network in refused_networks(version, old)]
    after = [network for version in (4, 6) for network in refused_networks(version, new)]
    return any(not any(_within(network, other) for other in before) for network in after)


def _within(network: Network, other: Network) -> bool:
    if network.version != other.version:
        return False
    first, last = int(network.network_address), int(network.broadcast_address)
    return int(other.network_address) <= first and last <= int(other.broadcast_address)


def _changed_hosts(old: Policy, new: Policy) -> set[str]:
    entries = set(old.entries) ^ set(new.entries)
    return {entry.host for entry in entries} | (set(old.deny) ^ set(new.deny))


def _covering(host: str) -> list[str]:
    return [] if host == REST else list(hosts_covering_all_of(host))


@dataclass(frozen=True)
class _Terms:
    """An entry without its host."""

    ports: tuple[int, ...]
    methods: tuple[str, ...]
    paths: tuple[PathPattern, ...]
    way: Way
    inject: tuple[Injection, ...]

    def allows_method(self, method: str | None) -> bool:
        """Whether a method is allowed; None stands for one that no entry names."""
        return not self.methods or method in self.methods


@dataclass(frozen=True)
class _Rules:
    """What one policy allows at one host."""

    terms: tuple[_Terms, ...]
    """Of the entries that cover the host, the most exact first."""
    everything: bool
    """Whether passive mode allows what no entry does."""
    usual_way: Way

    @property
    def ports(self) -> set[int]:
        """Ports that an entry names."""
        return {port for terms in self.terms for port in terms.ports}

    def allows_connect(self, port: int | None) -> bool:
        """Whether anything is allowed at a port."""
        return self.everything or bool(self.on(port))

    def way(self, port: int | None) -> Way:
        """How TLS to a port passes."""
        return next((terms.way for terms in self.on(port)), self.usual_way)

    def injecting(self, port: int | None) -> list[_Terms]:
        """Terms that decide what is put on a request: all up to the last one that injects."""
        found = self.on(port)
        while found and not found[-1].inject:
            found.pop()
        return [replace(terms, ports=()) for terms in found]

    def allows_all_of(self, old: _Rules, port: int | None) -> bool:
        """Whether every request that other rules allow at a port is allowed here too."""
        return all(
            self._allows_all_of(old, self.on(port, clear=clear), old.on(port, clear=clear))
            for clear in (False, True)
        )

    def _allows_all_of(self, old: _Rules, here: list[_Terms], there: list[_Terms]) -> bool:
        if self.everything or any(not terms.methods and not terms.paths for terms in here):
            return True
        if old.everything:
            return False
        methods = {method for terms in (*here, *there) for method in terms.methods}
        return all(
            _paths_cover(
                [terms for terms in here if terms.allows_method(method)],
                [terms for terms in there if terms.allows_method(method)],
            )
            for method in (*sorted(methods), None)
        )

    def on(self, port: int | None, *, clear: bool = False) -> list[_Terms]:
        """Terms that name a port; those for requests in the clear are fewer."""
        named = [terms for terms in self.terms if port in terms.ports]
        return [terms for terms in named if not (clear and terms.inject)]


def _rules_at(policy: Policy, host: str, covers: Sequence[str]) -> _Rules:
    denied = policy.denial_among(covers) is not None
    wide = [host] if _is_long(host) else covers
    entries = [] if denied else [entry for cover in wide for entry in policy.entries_at(cover)]
    passive = (
        policy.mode is Mode.PASSIVE and not denied and not (":" in host or ends_in_number(host))
    )
    return _Rules(
        terms=tuple(_terms_of(policy, entry) for entry in entries),
        everything=passive and bool(entries or not _is_long(host)),
        usual_way=policy.usual_way,
    )


def _is_long(host: str) -> bool:
    """Whether it is a name that no wildcard covers, nor passive mode."""
    return len(host) > WILDCARD_NAME_MAX and not host.startswith(WILDCARD)


def _terms_of(policy: Policy, entry: Entry) -> _Terms:
    way = policy.way_of(entry)
    return _Terms(entry.ports, entry.methods, entry.patterns, way, entry.inject)


def _paths_cover(here: Sequence[_Terms], there: Sequence[_Terms]) -> bool:
    """Whether the paths of some terms hold all paths of others."""
    if any(not terms.paths for terms in here):
        return True
    if any(not terms.paths for terms in there):
        return False  # a path without a normal form passes there alone
    return patterns_cover(
        [pattern for terms in here for pattern in terms.paths],
        [pattern for terms in there for pattern in terms.paths],
    )


def patterns_cover(wide: Sequence[PathPattern], narrow: Sequence[PathPattern]) -> bool:
    """Whether every path that one of ``narrow`` matches is matched by one of ``wide``.

    Walks both sets of patterns together, segment by segment, over every kind of segment that they
    tell apart: the literal ones, another, and the empty one that only ends a path.
    """
    literals = {part for p in (*wide, *narrow) for part in _segments(p) if part != "*"}
    letters = [*sorted(literals - {""}), _OTHER]
    seen: set[tuple[frozenset[_State], frozenset[_State]]] = set()
    waiting = [(frozenset((p, 0) for p in narrow), frozenset((p, 0) for p in wide))]
    while waiting:
        pair = waiting.pop()
        if pair in seen:
            continue
        seen.add(pair)
        inner, outer = pair
        for letter in (*letters, ""):
            if _ends(inner, letter) and not _ends(outer, letter):
                return False
        waiting += [(after, _step(outer, x)) for x in letters if (after := _step(inner, x))]
    return True


_State = tuple[PathPattern, int]
"""A pattern and how many segments of it were matched."""

_OTHER = "/"
"""A segment that no pattern spells out; no segment holds a slash."""


def _segments(pattern: PathPattern) -> list[str]:
    return pattern.text[1:].split("/")


def _ends(states: Iterable[_State], letter: str) -> bool:
    """Whether a path may end with this segment."""
    for pattern, at in states:
        rest = _segments(pattern)[at:]
        if len(rest) == 1 and rest[0] in ("*", letter):
            return True
    return False


def _step(states: Iterable[_State], letter: str) -> frozenset[_State]:
    """The states behind one more segment that isn't the last."""
    after = set()
    for pattern, at in states:
        rest = _segments(pattern)[at:]
        if rest == ["*"]:
            after.add((pattern, at))
        elif len(rest) > 1 and rest[0] in ("*", letter):
            after.add((pattern, at + 1))
    return frozenset(after)
