"""Which addresses may be dialled: the IANA special-purpose registries, and the odd spellings.

The table follows the IANA IPv4 and IPv6 Special-Purpose Address Registries (RFC 6890, RFC 8190),
entries called globally reachable there included: none of them is a web site. Added are multicast,
what IPv6 has outside its global unicast block, the forms that carry an IPv4 address, and one
address of a cloud platform that lies in public space.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

SANDBOX_POOL = IPv4Network("10.10.0.0/16")
"""Host-only subnets: sandbox N has 10.10.N.0/24."""

HOST_NUMBER, GATEWAY_NUMBER, AGENT_NUMBER = 1, 2, 10
"""Whose address is which one of a sandbox's subnet, counted from its first."""

EGRESS_POOL = IPv4Network("10.11.0.0/16")
"""Egress subnets: sandbox N has 10.11.N.0/24."""

EGRESS_POOL_V6 = IPv6Network("fdab:5c1e:7d04::/48")
"""Egress subnets of IPv6 (RFC 4193), where a sandbox has it: N in hex before the last 64 bits."""


@dataclass(frozen=True, kw_only=True)
class AddressClass:
    """One line of the table: a block, what it is for, and where that is written."""

    network: Network
    name: str
    source: str
    public: bool = False


def _row(network: str, name: str, source: str, *, public: bool = False) -> AddressClass:
    return AddressClass(
        network=ipaddress.ip_network(network), name=name, source=source, public=public
    )


CLASSES: tuple[AddressClass, ...] = (
    _row("0.0.0.0/0", "Global unicast", "RFC 791", public=True),
    _row("0.0.0.0/8", "This network", "RFC 791"),
    _row("0.0.0.0/32", "This host on this network", "RFC 1122"),
    _row("10.0.0.0/8", "Private-Use", "RFC 1918"),
    _row("100.64.0.0/10", "Shared Address Space", "RFC 6598"),
    _row("127.0.0.0/8", "Loopback", "RFC 1122"),
    _row("168.63.129.16/32", "Cloud platform service", "Azure virtual network documentation"),
    _row("169.254.0.0/16", "Link Local", "RFC 3927"),
    _row("172.16.0.0/12", "Private-Use", "RFC 1918"),
    _row("192.0.0.0/24", "IETF Protocol Assignments", "RFC 6890"),
    _row("192.0.0.0/29", "IPv4 Service Continuity Prefix", "RFC 7335"),
    _row("192.0.0.8/32", "IPv4 dummy address", "RFC 7600"),
    _row("192.0.0.9/32", "Port Control Protocol Anycast", "RFC 7723"),
    _row("192.0.0.10/32", "TURN Anycast", "RFC 8155"),
    _row("192.0.0.170/32", "NAT64/DNS64 Discovery", "RFC 8880"),
    _row("192.0.0.171/32", "NAT64/DNS64 Discovery", "RFC 8880"),
    _row("192.0.2.0/24", "Documentation (TEST-NET-1)", "RFC 5737"),
    _row("192.31.196.0/24", "AS112-v4", "RFC 7535"),
    _row("192.52.193.0/24", "AMT", "RFC 7450"),
    _row("192.88.99.0/24", "Deprecated (6to4 Relay Anycast)", "RFC 7526"),
    _row("192.88.99.2/32", "6a44-relay anycast address", "RFC 6751"),
    _row("192.168.0.0/16", "Private-Use", "RFC 1918"),
    _row("192.175.48.0/24", "Direct Delegation AS112 Service", "RFC 7534"),
    _row("198.18.0.0/15", "Benchmarking", "RFC 2544"),
    _row("198.51.100.0/24", "Documentation (TEST-NET-2)", "RFC 5737"),
    _row("203.0.113.0/24", "Documentation (TEST-NET-3)", "RFC 5737"),
    _row("224.0.0.0/4", "Multicast", "RFC 5771"),
    _row("240.0.0.0/4", "Reserved", "RFC 1112"),
    _row("255.255.255.255/32", "Limited Broadcast", "RFC 919"),
    _row("::/0", "Outside global unicast", "RFC 4291"),
    _row("2000::/3", "Global unicast", "RFC 4291", public=True),
    _row("::/96", "IPv4-compatible address", "RFC 4291"),
    _row("::/128", "Unspecified Address", "RFC 4291"),
    _row("::1/128", "Loopback Address", "RFC 4291"),
    _row("::ffff:0:0/96", "IPv4-mapped Address", "RFC 4291"),
    _row("::ffff:0:0:0/96", "IPv4-translated Address", "RFC 2765"),
    _row("64:ff9b::/96", "IPv4-IPv6 Translation", "RFC 6052"),
    _row("64:ff9b:1::/48", "IPv4-IPv6 Translation", "RFC 8215"),
    _row("100::/64", "Discard-Only Address Block", "RFC 6666"),
    _row("100:0:0:1::/64", "Dummy IPv6 Prefix", "RFC 9780"),
    _row("2001::/23", "IETF Protocol Assignments", "RFC 2928"),
    _row("2001::/32", "TEREDO", "RFC 4380"),
    _row("2001:1::1/128", "Port Control Protocol Anycast", "RFC 7723"),
    _row("2001:1::2/128", "TURN Anycast", "RFC 8155"),
    _row("2001:1::3/128", "DNS-SD Service Registration Protocol Anycast", "RFC 9665"),
    _row("2001:2::/48", "Benchmarking", "RFC 5180"),
    _row("2001:3::/32", "AMT", "RFC 7450"),
    _row("2001:4:112::/48", "AS112-v6", "RFC 7535"),
    _row("2001:10::/28", "Deprecated (ORCHID)", "RFC 4843"),
    _row("2001:20::/28", "ORCHIDv2", "RFC 7343"),
    _row("2001:30::/28", "Drone Remote ID Protocol Entity Tags", "RFC 9374"),
    _row("2001:db8::/32", "Documentation", "RFC 3849"),
    _row("2002::/16", "6to4", "RFC 3056"),
    _row("2620:4f:8000::/48", "Direct Delegation AS112 Service", "RFC 7534"),
    _row("3fff::/20", "Documentation", "RFC 9637"),
    _row("5f00::/16", "Segment Routing (SRv6) SIDs", "RFC 9602"),
    _row("fc00::/7", "Unique-Local", "RFC 4193"),
    _row("fe80::/10", "Link-Local Unicast", "RFC 4291"),
    _row("fec0::/10", "Deprecated (Site-Local)", "RFC 3879"),
    _row("ff00::/8", "Multicast", "RFC 4291"),
)
"""Every address lies in at least one block; its class is that of the longest one."""


NEVER: tuple[tuple[Network, str], ...] = tuple(
    (ipaddress.ip_network(network), why)
    for network, why in (
        ("0.0.0.0/8", "this host"),
        ("127.0.0.0/8", "loopback"),
        ("169.254.169.254/32", "the instance metadata service"),
        ("169.254.170.2/32", "the credential service of container platforms"),
        ("100.100.100.200/32", "an instance metadata service"),
        ("168.63.129.16/32", "a cloud platform service"),
        ("192.0.0.192/32", "an instance metadata service"),
        (str(SANDBOX_POOL), "the sandboxes' own networks"),
        (str(EGRESS_POOL), "the sandboxes' egress networks"),
        (str(EGRESS_POOL_V6), "the sandboxes' egress networks"),
        ("224.0.0.0/4", "multicast"),
        ("255.255.255.255/32", "broadcast"),
        ("::/96", "loopback, unspecified and IPv4-compatible addresses"),
        ("::ffff:0:0/96", "IPv4-mapped addresses"),
        ("::ffff:0:0:0/96", "IPv4-translated addresses"),
        ("64:ff9b::/96", "addresses that carry an IPv4 address (NAT64)"),
        ("64:ff9b:1::/48", "addresses that carry an IPv4 address (NAT64)"),
        ("2001::/32", "addresses that carry an IPv4 address (Teredo)"),
        ("2002::/16", "addresses that carry an IPv4 address (6to4)"),
        ("fd00:ec2::254/128", "the instance metadata service"),
        ("fd20:ce::254/128", "the instance metadata service"),
        ("fe80::a9fe:a9fe/128", "the instance metadata service"),
        ("ff00::/8", "multicast"),
    )
)
"""What no setting can open, and what it is: checked when settings are read, and again at dial."""


def _by_prefix(classes: Iterable[AddressClass]) -> dict[tuple[int, int, int], AddressClass]:
    return {
        (c.network.version, c.network.prefixlen, int(c.network.network_address)): c for c in classes
    }


_INDEX = _by_prefix(CLASSES)
_LENGTHS = {
    version: sorted({length for v, length, _ in _INDEX if v == version}, reverse=True)
    for version in (4, 6)
}


def classify(address: Address) -> AddressClass:
    """The class of an address: the longest block of the table that holds it."""
    value, width = int(address), address.max_prefixlen
    for length in _LENGTHS[address.version]:
        block = value >> (width - length) << (width - length)
        if found := _INDEX.get((address.version, length, block)):
            return found
    raise AssertionError(f"{address} is in no block")  # pragma: no cover - the table has /0 blocks


def is_public(address: Address) -> bool:
    """Whether the address is proven to be an ordinary global unicast one."""
    return classify(address).public


def never_allowed(block: Address | Network) -> str | None:
    """What an address or network takes in that no setting can open; None if nothing."""
    network = block if isinstance(block, (IPv4Network, IPv6Network)) else _host(block)
    for never, why in NEVER:
        if _overlap(never, network):
            return why
    return None


def judged_allowed(address: Address, cidrs: Sequence[Network] = ()) -> bool:
    """Whether the gateway may dial the address.

    Args:
        address: as it would be dialled, after resolution.
        cidrs: the stack's `allow_private_cidrs`.
    """
    if never_allowed(address) is not None:
        return False
    return is_public(address) or any(
        cidr.version == address.version and address in cidr for cidr in cidrs
    )


def special_networks_v4() -> list[IPv4Network]:
    """All IPv4 blocks that aren't ordinary global unicast, as few networks as possible, sorted."""
    return list(_SPECIAL_V4)


def refused_networks_v4(cidrs: Sequence[Network] = ()) -> list[IPv4Network]:
    """IPv4 blocks that egress must drop: the special ones without the allowed CIDRs.

    Returns: as few networks as possible, sorted, disjoint.
    """
    refused = list(_SPECIAL_V4)
    for cidr in cidrs:
        if isinstance(cidr, IPv4Network):
            refused = [part for block in refused for part in _subtract(block, cidr)]
    never = [network for network, _ in NEVER if isinstance(network, IPv4Network)]
    return list(ipaddress.collapse_addresses([*refused, *never]))


def special_networks_v6() -> list[IPv6Network]:
    """All IPv6 blocks that aren't ordinary global unicast, as few as possible, sorted."""
    return list(_SPECIAL_V6)


def parse_any_literal(text: str) -> Address | None:
    """The address that some parser would read in the text; None if none would.

    Understood are brackets, a zone (`%lo`, `%25lo`), a final dot, and the forms of inet_aton: one
    to four numbers, each decimal, octal (0…) or hexadecimal (0x…).
    """
    bare = text.strip().removeprefix("[").removesuffix("]")
    bare = bare.split("%", 1)[0]
    if ":" in bare:
        return _parse_v6(bare)
    return _parse_aton(bare.removesuffix("."))


_NUMBER = re.compile(r"0[xX][0-9a-fA-F]*|[0-9]+")


def ends_in_number(name: str) -> bool:
    """Whether a name's last label is a number, so that URL parsers take the whole for an address.

    As in the WHATWG URL standard, "ends in a number": decimal digits alone or a 0x number.
    """
    return _NUMBER.fullmatch(name.removesuffix(".").rsplit(".", 1)[-1]) is not None


def _parse_v6(text: str) -> IPv6Address | None:
    try:
        return IPv6Address(text)
    except ValueError:
        return None


def _parse_aton(text: str) -> IPv4Address | None:
    """As inet_aton reads it: the last number fills the bytes that are left."""
    parts = text.split(".")
    if len(parts) > 4:
        return None
    numbers = [_parse_number(part) for part in parts]
    if any(number is None for number in numbers):
        return None
    *heads, last = [number for number in numbers if number is not None]
    if any(head > 255 for head in heads) or last >= 256 ** (4 - len(heads)):
        return None
    value = last
    for position, head in enumerate(heads):
        value += head << (24 - 8 * position)
    return IPv4Address(value)


def _parse_number(text: str) -> int | None:
    if not text.isascii() or not _NUMBER.fullmatch(text) or len(text) > 64:
        return None
    if text[:2] in ("0x", "0X"):
        return int(text[2:] or "0", 16)
    if text.startswith("0") and len(text) > 1:
        return int(text, 8) if set(text) <= set("01234567") else None
    return int(text)


def _host(address: Address) -> Network:
    if isinstance(address, IPv4Address):
        return IPv4Network((int(address), 32))
    return IPv6Network((int(address), 128))


def _overlap(one: Network, other: Network) -> bool:
    if isinstance(one, IPv4Network) and isinstance(other, IPv4Network):
        return one.overlaps(other)
    if isinstance(one, IPv6Network) and isinstance(other, IPv6Network):
        return one.overlaps(other)
    return False


def _subtract(block: IPv4Network, hole: IPv4Network) -> list[IPv4Network]:
    if not block.overlaps(hole):
        return [block]
    return list(block.address_exclude(hole)) if hole.subnet_of(block) else []


_SPECIAL_V4 = tuple(
    ipaddress.collapse_addresses(
        c.network for c in CLASSES if isinstance(c.network, IPv4Network) and not c.public
    )
)
_SPECIAL_V6 = tuple(
    ipaddress.collapse_addresses(
        [
            *(IPv6Network(block) for block in ("::/3", "4000::/2", "8000::/1")),
            *(
                c.network
                for c in CLASSES
                if isinstance(c.network, IPv6Network) and not c.public and c.network.prefixlen > 0
            ),
        ]
    )
)
