"""Networks that must not be dialled, for the renderers of every filter."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from ipaddress import IPv6Network

from abox.addresses import NEVER, Network, refused_networks_v4, special_networks_v6


def refused_networks(version: int, cidrs: Sequence[Network]) -> list[Network]:
    """All networks of a family that must not be dialled.

    Args:
        version: 4 or 6.
        cidrs: the stack's ``allow_private_cidrs``.
    Returns: as few networks as possible, sorted, disjoint.
    """
    if version == 4:
        return list(refused_networks_v4(cidrs))
    return list(_refused_v6([cidr for cidr in cidrs if isinstance(cidr, IPv6Network)]))


def _refused_v6(cidrs: Sequence[IPv6Network]) -> list[IPv6Network]:
    refused = special_networks_v6()
    for cidr in cidrs:
        refused = [part for block in refused for part in _subtract(block, cidr)]
    never = [network for network, _ in NEVER if isinstance(network, IPv6Network)]
    return list(ipaddress.collapse_addresses([*refused, *never]))


def _subtract(block: IPv6Network, hole: IPv6Network) -> list[IPv6Network]:
    if not block.overlaps(hole):
        return [block]
    return list(block.address_exclude(hole)) if hole.subnet_of(block) else []
