"""The stack's `allow_private_cidrs`: special-purpose networks that may be dialled after all."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence

from abox.addresses import Network, never_allowed
from abox.refusals import RefusedError, parse_each

WIDEST_V4 = 8
"""Shortest prefix: the largest private block of RFC 1918 is a /8."""

WIDEST_V6 = 16
"""Shortest prefix: wider than any network one site is given, and far from fc00::/7."""


def parse_cidrs(raw: Sequence[object], path: str) -> tuple[Network, ...]:
    """Networks in CIDR notation, sorted by family and address.

    Args:
        raw: the list as written.
        path: where it stands, for error texts, for example `abox:sandbox.allow_private_cidrs`.

    Raises: AboxErrors with every refused member, positions counted in the list as written.
    """
    networks = parse_each(raw, path, _parse_cidr)
    return tuple(sorted(networks, key=lambda n: (n.version, int(n.network_address), n.prefixlen)))


def _parse_cidr(raw: object) -> Network:
    network = _parse_network(raw)
    widest = WIDEST_V4 if network.version == 4 else WIDEST_V6
    if network.prefixlen < widest:
        raise RefusedError(
            f"it is wider than /{widest}, which opens more than one site can mean",
            "name the networks that are needed",
        )
    if never := never_allowed(network):
        raise RefusedError(
            f"it takes in {never}, which no setting opens", "name narrower networks around it"
        )
    return network


def _parse_network(raw: object) -> Network:
    if not isinstance(raw, str) or not raw.isascii() or "/" not in raw or "%" in raw:
        raise RefusedError(
            "a network is written as address/length", 'write for example "192.168.7.0/24"'
        )
    try:
        network = ipaddress.ip_network(raw)
    except ValueError as error:
        raise RefusedError(f"it is no network: {error}", _suggestion(raw)) from error
    if not raw.rsplit("/", 1)[1].isdigit():
        raise RefusedError("the length is a number of bits", f"write {str(network)!r}")
    return network


def _suggestion(raw: str) -> str:
    try:
        return f"write {str(ipaddress.ip_network(raw, strict=False))!r} if that is meant"
    except ValueError:
        return 'write for example "192.168.7.0/24"'
