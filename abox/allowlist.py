"""The one policy of a sandbox, and the one function that judges by it.

The configuration of Envoy and Unbound, the egress firewall, `abox explain` and the policy pack all
come from the same parsed `Policy`, so no path can disagree with another. `deny` beats `allow`; what
can't be enforced is an error, never ignored.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from ipaddress import IPv6Network
from typing import Any

from abox.addresses import Address, Network, judged_allowed, parse_any_literal
from abox.cidrs import parse_cidrs
from abox.entries import PORT_MAX, Around, Entry, Way, parse_denied, parse_entries
from abox.errors import ErrorCollector, PolicyError
from abox.injection import Injection
from abox.name_shape import HEALTH_NAME, WILDCARD_NAME_MAX
from abox.names import (
    MalformedNameError,
    hosts_covering,
    is_reserved,
    normalise_name,
    normalise_request_name,
)
from abox.paths import AmbiguousPathError, normalise_path
from abox.query_budget import DEFAULT_QUERIES_PER_MINUTE, QUERIES_PER_MINUTE_MAX
from abox.reasons import RULE_PASSIVE, Reason
from abox.refusals import nearest, shown

__all__ = [
    "HEALTH_NAME",
    "HEALTH_PORTS",
    "RULE_PASSIVE",
    "Allow",
    "Deny",
    "Entry",
    "Mode",
    "Policy",
    "Reason",
    "Request",
    "Verdict",
    "Way",
    "judge_address",
    "judge_name",
    "normalise_name",
    "parse_policy",
    "verdict",
]

HEALTH_PORTS = (80, 443)
"""Ports on which the health name answers."""


class Mode(StrEnum):
    """What the lists mean."""

    ACTIVE = "active"
    """Only what is allowed passes."""
    PASSIVE = "passive"
    """Every name passes and is recorded; addresses are still judged, and `deny` still holds."""


@dataclass(frozen=True)
class Request:
    """What an agent asks the proxy for."""

    name: str
    """Host as asked, without port: any letter case, at most one final dot."""
    port: int
    scheme: str = "https"
    """`http` or `https`: an entry that puts a secret on requests allows them over TLS only."""
    method: str = "GET"
    """HTTP method. CONNECT opens a tunnel and is judged by name and port alone."""
    path: str = "/"
    """Path as sent, with or without a query."""


@dataclass(frozen=True)
class Allow:
    """The request may pass."""

    rule: str
    """The entry that allows it, or what else does."""
    inject: tuple[Injection, ...] = ()
    """Headers that the gateway puts on it."""


@dataclass(frozen=True)
class Deny:
    """The request is refused."""

    reason: Reason
    rule: str | None = None
    """The entry that denies it, or the one that comes nearest; None if there is none."""


Verdict = Allow | Deny


@dataclass(frozen=True, kw_only=True)
class Policy:
    """The parsed policy of one sandbox. Make it with `parse_policy` or `from_document`."""

    entries: tuple[Entry, ...] = ()
    """What may be reached, in the order of the configuration."""
    deny: tuple[str, ...] = ()
    """Exact names and wildcards that are refused whatever `entries` say."""
    mode: Mode = Mode.ACTIVE
    passive_acknowledged: bool = False
    """The stack says that passive mode is wanted; the policy pack asks for that."""
    allow_private_cidrs: tuple[Network, ...] = ()
    """Special-purpose networks that may be dialled after all, sorted."""
    tls_interception: bool = True
    """Whether TLS is ended at the gateway, so that the requests inside are judged too; an entry
    may say otherwise."""
    dns_queries_per_minute: int = DEFAULT_QUERIES_PER_MINUTE
    """Questions below one entry that each resolver of the gateway forwards in a minute."""

    def to_document(self) -> dict[str, Any]:
        """The policy as a JSON object, readable in a preview's diff."""
        return {
            "mode": self.mode.value,
            "passive_acknowledged": self.passive_acknowledged,
            "tls_interception": self.tls_interception,
            "allow_private_cidrs": [str(cidr) for cidr in self.allow_private_cidrs],
            "dns_queries_per_minute": self.dns_queries_per_minute,
            "allow": [entry.to_document() for entry in self.entries],
            "deny": list(self.deny),
        }

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Policy:
        """The policy that `to_document` wrote, judged again from scratch.

        Raises: AboxErrors if a key is missing or unknown, or a value is refused.
        """
        _check_document_keys(document)
        return parse_policy(path="policy", **document)

    @cached_property
    def hash(self) -> str:
        """SHA-256 of the document's canonical JSON, in hex."""
        canonical = json.dumps(self.to_document(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()

    @cached_property
    def tcp_ports(self) -> tuple[int, ...] | None:
        """Destination ports that egress may use, sorted; None: all of them (passive mode)."""
        if self.mode is Mode.PASSIVE:
            return None
        return tuple(sorted({port for entry in self.entries for port in entry.ports}))

    @cached_property
    def ipv6_networks(self) -> tuple[IPv6Network, ...]:
        """Networks for which the egress bridge has IPv6; none: it has no IPv6 at all."""
        return tuple(cidr for cidr in self.allow_private_cidrs if isinstance(cidr, IPv6Network))

    def entries_for(self, host: str) -> list[Entry]:
        """Entries that cover a normalised name or an address, the most exact first.

        A name longer than WILDCARD_NAME_MAX is covered by no wildcard.
        """
        entries = self.covering(host)
        if len(host) <= WILDCARD_NAME_MAX:
            return entries
        return [entry for entry in entries if not entry.is_wildcard]

    def covering(self, host: str) -> list[Entry]:
        """Entries that cover a name by its labels alone, the most exact first."""
        return [entry for cover in hosts_covering(host) for entry in self.entries_at(cover)]

    def entries_at(self, host: str) -> Sequence[Entry]:
        """Entries with exactly this host."""
        return self._index.get(host, ())

    @property
    def usual_way(self) -> Way:
        """How TLS passes where no entry says it."""
        return Way.INTERCEPT if self.tls_interception else Way.PASSTHROUGH

    def way_of(self, entry: Entry) -> Way:
        """How the TLS of an entry passes."""
        return entry.tls or self.usual_way

    def way_to(self, host: str, port: int) -> Way:
        """How TLS to a normalised name or an address passes: as its most exact entry says."""
        entries = (entry for entry in self.entries_for(host) if port in entry.ports)
        return next(map(self.way_of, entries), self.usual_way)

    def denied_by(self, name: str) -> str | None:
        """The entry of the denylist that covers a normalised name."""
        return self.denial_among(hosts_covering(name))

    def denial_among(self, hosts: Iterable[str]) -> str | None:
        """The first of some hosts that is an entry of the denylist."""
        return next((host for host in hosts if host in self._denied), None)

    @cached_property
    def _index(self) -> dict[str, list[Entry]]:
        index: dict[str, list[Entry]] = {}
        for entry in self.in_order:
            index.setdefault(entry.host, []).append(entry)
        return index

    @cached_property
    def in_order(self) -> tuple[Entry, ...]:
        """The entries of each host in the order in which they are asked: first those that inject.

        Otherwise a plain entry for the same host would take the secret off requests.
        """
        return tuple(sorted(self.entries, key=lambda entry: not entry.inject))

    @cached_property
    def secret_names(self) -> tuple[str, ...]:
        """Names of the secrets that entries inject, sorted."""
        return tuple(sorted({one.secret for entry in self.entries for one in entry.inject}))

    @cached_property
    def _denied(self) -> frozenset[str]:
        return frozenset(self.deny)


def parse_policy(
    allow: object,
    deny: object = (),
    *,
    mode: object = Mode.ACTIVE,
    allow_private_cidrs: object = (),
    tls_interception: object = True,
    passive_acknowledged: object = False,
    dns_queries_per_minute: object = DEFAULT_QUERIES_PER_MINUTE,
    secret_names: Collection[str] | None = None,
    path: str = "abox:sandbox",
) -> Policy:
    """The policy that the stack's configuration asks for.

    Args:
        allow: entries, see `abox.entries`.
        deny: names and wildcards that are refused even if allowed.
        mode: `active` or `passive`.
        allow_private_cidrs: special-purpose networks that may be dialled, see `abox.cidrs`.
        tls_interception: whether TLS is looked into where an entry doesn't say it.
        passive_acknowledged: whether the stack says that passive mode is wanted.
        dns_queries_per_minute: questions below one entry that a resolver forwards in a minute.
        secret_names: names below `abox:secrets`; None where they aren't known.
        path: where these keys stand, for error texts.

    Raises: AboxErrors with everything that is refused, positions counted in the lists as given.
    """
    errors = ErrorCollector()

    def read_list(key: str, value: object) -> Sequence[object]:
        return errors.attempt(lambda: _as_list(value, f"{path}.{key}")) or ()

    raw_allow = read_list("allow", allow)
    raw_deny = read_list("deny", deny)
    raw_cidrs = read_list("allow_private_cidrs", allow_private_cidrs)
    parsed_mode = errors.attempt(lambda: _parse_mode(mode, f"{path}.mode"))
    intercepted = errors.attempt(lambda: _as_flag(tls_interception, f"{path}.tls_interception"))
    acknowledged = errors.attempt(
        lambda: _as_flag(passive_acknowledged, f"{path}.passive_acknowledged")
    )
    queries = errors.attempt(
        lambda: _parse_queries(dns_queries_per_minute, f"{path}.dns_queries_per_minute")
    )
    cidrs = errors.attempt(lambda: parse_cidrs(raw_cidrs, f"{path}.allow_private_cidrs"))
    deny_errors = ErrorCollector()
    denied = deny_errors.attempt(lambda: parse_denied(raw_deny, f"{path}.deny"))
    around = Around(
        cidrs=cidrs or (),
        tls_interception=intercepted is not False,
        denied=frozenset(denied or ()),
        secret_names=secret_names,
    )
    entries = errors.attempt(lambda: parse_entries(raw_allow, f"{path}.allow", around))
    errors.errors.extend(deny_errors.errors)
    errors.raise_all()
    policy = Policy(
        entries=entries or (),
        deny=denied or (),
        mode=parsed_mode or Mode.ACTIVE,
        passive_acknowledged=acknowledged is True,
        allow_private_cidrs=cidrs or (),
        tls_interception=intercepted is not False,
        dns_queries_per_minute=queries or DEFAULT_QUERIES_PER_MINUTE,
    )
    _check_ways(policy, f"{path}.allow")
    return policy


def _check_ways(policy: Policy, where: str) -> None:
    """Refuse entries that send the same tunnel two ways."""
    ways: dict[tuple[str, int], Way] = {}
    errors = ErrorCollector()
    for entry in policy.entries:
        for port in entry.ports:
            way = ways.setdefault((entry.host, port), policy.way_of(entry))
            if way is not policy.way_of(entry):
                errors.errors.append(
                    PolicyError(
                        what=f"{where}: {entry.host} has entries with tls: {Way.INTERCEPT} and "
                        f"with tls: {Way.PASSTHROUGH} for port {port}",
                        why="a tunnel is looked into or passes unseen; it can't be both",
                        remedy="give the entries different ports, or the same tls",
                    )
                )
    errors.raise_all()


def verdict(policy: Policy, request: Request) -> Verdict:
    """The verdict on a request: what the live proxy must answer too, addresses apart.

    An entry allows a request if all its parts do; any one entry suffices. The reason of a denial is
    that of the entry that comes nearest.
    """
    if "_" in request.name:  # for the DNS alone: Envoy refuses it in a URL and in a CONNECT
        return Deny(Reason.MALFORMED_NAME)
    host = _read_host(policy, request.name)
    if isinstance(host, Deny):
        return host
    if host == HEALTH_NAME:
        served = request.port in HEALTH_PORTS
        return Allow(HEALTH_NAME) if served else Deny(Reason.PORT, HEALTH_NAME)
    if not 1 <= request.port <= PORT_MAX:
        return Deny(Reason.PORT)
    if too_long := _judge_length(policy, host):
        return too_long
    judged = _judge_entries(policy.entries_for(host), request)
    if policy.mode is Mode.ACTIVE or _is_literal(host) or _injects(judged):
        return judged
    return Allow(RULE_PASSIVE)


def _injects(judged: Verdict) -> bool:
    return isinstance(judged, Allow) and bool(judged.inject)


def judge_name(policy: Policy, name: str) -> Verdict:
    """The verdict of the DNS filter: whether a name may be resolved, for whatever use."""
    host = _read_host(policy, name)
    if isinstance(host, Deny):
        return host
    if _is_literal(host):
        return Deny(Reason.ADDRESS_LITERAL)
    if host == HEALTH_NAME:
        return Allow(HEALTH_NAME)
    if too_long := _judge_length(policy, host):
        return too_long
    if policy.mode is Mode.PASSIVE:
        return Allow(RULE_PASSIVE)
    entries = policy.entries_for(host)
    return Allow(str(entries[0])) if entries else Deny(Reason.NOT_ALLOWED)


def judge_address(policy: Policy, address: Address) -> Verdict:
    """The verdict at dial: whether an allowed name may be reached at this address."""
    if not judged_allowed(address, policy.allow_private_cidrs):
        return Deny(Reason.SPECIAL_ADDRESS)
    covering = [
        cidr
        for cidr in policy.allow_private_cidrs
        if cidr.version == address.version and address in cidr
    ]
    return Allow(str(covering[0]) if covering else "public address")


def _read_host(policy: Policy, name: str) -> str | Deny:
    """The normalised name or address that is asked for, or why no entry can allow it."""
    if (address := parse_any_literal(name)) is not None:
        return _read_literal(policy, name, address)
    try:
        normal = normalise_request_name(name)
    except MalformedNameError:
        return Deny(Reason.MALFORMED_NAME)
    if normal == HEALTH_NAME:
        return normal
    if is_reserved(normal):
        return Deny(Reason.RESERVED_NAME)
    denied_by = policy.denied_by(normal)
    return Deny(Reason.DENIED, denied_by) if denied_by else normal


def _read_literal(policy: Policy, text: str, address: Address) -> str | Deny:
    """An address is only good in its usual spelling, if it is an entry of its own."""
    usual = f"[{address}]" if address.version == 6 else f"{address}."  # as a name with its root
    if not judged_allowed(address, policy.allow_private_cidrs):
        return Deny(Reason.SPECIAL_ADDRESS)
    if text not in (usual, str(address)) or not policy.entries_for(str(address)):
        return Deny(Reason.ADDRESS_LITERAL)
    return str(address)


def _judge_length(policy: Policy, host: str) -> Deny | None:
    """The denial of a name that only a wildcard covers, or nothing but passive mode, and too long.

    Policy.entries_for leaves the wildcards out for such a name.
    """
    if len(host) <= WILDCARD_NAME_MAX or policy.entries_for(host):
        return None
    if policy.mode is Mode.PASSIVE:
        return Deny(Reason.NAME_TOO_LONG, RULE_PASSIVE)
    wildcards = policy.covering(host)
    return Deny(Reason.NAME_TOO_LONG, str(wildcards[0])) if wildcards else None


def _is_literal(host: str) -> bool:
    return parse_any_literal(host) is not None


def _judge_entries(entries: Sequence[Entry], request: Request) -> Verdict:
    """Narrow the entries part by part; the first part that leaves none is the reason."""
    if not entries:
        return Deny(Reason.NOT_ALLOWED)
    on_port = [entry for entry in entries if request.port in entry.ports]
    if not on_port:
        return Deny(Reason.PORT, str(entries[0]))
    if request.method == "CONNECT":
        return Allow(str(on_port[0]))
    with_method = [entry for entry in on_port if entry.allows_method(request.method)]
    if not with_method:
        return Deny(Reason.METHOD, str(on_port[0]))
    return _judge_path(with_method, request)


def _judge_path(entries: Sequence[Entry], request: Request) -> Verdict:
    try:
        normal = normalise_path(request.path)
    except AmbiguousPathError:
        matching = [entry for entry in entries if not entry.paths]
        missed = Reason.AMBIGUOUS_PATH
    else:
        matching = [entry for entry in entries if entry.allows_path(normal)]
        missed = Reason.PATH
    if not matching:
        return Deny(missed, str(entries[0]))
    for entry in matching:
        if request.scheme == "https" or not entry.inject:
            return Allow(str(entry), entry.inject)
    return Deny(Reason.TLS_REQUIRED, str(matching[0]))


def _check_document_keys(document: Mapping[str, Any]) -> None:
    valid = list(Policy().to_document())
    errors = ErrorCollector()
    for key in sorted(set(document) ^ set(valid)):
        state = "is missing" if key in valid else "is unknown"
        errors.errors.append(
            PolicyError(
                what=f"policy.{key}: the key {state}",
                why="a policy document holds exactly the keys that Policy.to_document writes",
                remedy=f"make the document with the same version; {nearest(key, valid)}",
            )
        )
    errors.raise_all()


def _as_list(value: object, where: str) -> Sequence[object]:
    if isinstance(value, (list, tuple)):
        return value
    raise PolicyError(
        what=f"{where}: {shown(value)} is refused",
        why="a list belongs here",
        remedy='write one member a line, for example - "example.com"',
    )


def _as_flag(value: object, where: str) -> bool:
    if isinstance(value, bool):
        return value
    raise PolicyError(
        what=f"{where}: {shown(value)} is refused",
        why="this is a switch",
        remedy="write true or false",
    )


def _parse_queries(value: object, where: str) -> int:
    number = int(value) if isinstance(value, float) and value.is_integer() else value
    if type(number) is int and 1 <= number <= QUERIES_PER_MINUTE_MAX:  # a bool is no number
        return number
    raise PolicyError(
        what=f"{where}: {shown(value)} is refused",
        why="it is the number of questions below one entry that may leave the sandbox in a minute",
        remedy=f"write a whole number from 1 to {QUERIES_PER_MINUTE_MAX}, for example "
        f"{DEFAULT_QUERIES_PER_MINUTE}",
    )


def _parse_mode(value: object, where: str) -> Mode:
    if isinstance(value, str) and value in set(Mode):
        return Mode(value)
    raise PolicyError(
        what=f"{where}: {shown(value)} is refused",
        why="it is no mode",
        remedy=f"write {' or '.join(Mode)}",
    )
