"""Which resolvers a host uses, read from the text of resolv.conf(5)."""

from __future__ import annotations

from ipaddress import AddressValueError, IPv4Address


def parse_resolvers(text: str) -> tuple[IPv4Address, ...]:
    """IPv4 resolvers that another machine or container could ask, in order, without repeats.

    Args:
        text: content of a resolv.conf(5) file.
    Returns: addresses of its ``nameserver`` lines. Loopback ones are left out (a stub resolver on
        the host answers the host alone), and IPv6 ones, since the gateway pod has no IPv6.
    """
    found: dict[IPv4Address, None] = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) < 2 or words[0] != "nameserver":
            continue
        try:
            address = IPv4Address(words[1])
        except AddressValueError:
            continue
        if not address.is_loopback and not address.is_unspecified:
            found[address] = None
    return tuple(found)
