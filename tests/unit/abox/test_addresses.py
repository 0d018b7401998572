"""Addresses: every one has exactly one class, and nothing special passes for public."""

import ipaddress
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from abox.addresses import (
    CLASSES,
    NEVER,
    Network,
    classify,
    ends_in_number,
    is_public,
    judged_allowed,
    never_allowed,
    parse_any_literal,
    refused_networks_v4,
    special_networks_v4,
    special_networks_v6,
)

V4 = st.integers(0, 2**32 - 1).map(IPv4Address)
V6 = st.integers(0, 2**128 - 1).map(IPv6Address)
EDGES = [
    type(c.network.network_address)(int(edge) + step)
    for c in CLASSES
    for edge in (c.network.network_address, c.network.broadcast_address)
    for step in (-1, 0, 1)
    if 0 <= int(edge) + step < 2**c.network.max_prefixlen
]
"""First and last address of every block, and their neighbours."""

REGISTRY_V4 = """
0.0.0.0/8 0.0.0.0/32 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24
192.0.0.0/29 192.0.0.8/32 192.0.0.9/32 192.0.0.10/32 192.0.0.170/32 192.0.0.171/32 192.0.2.0/24
192.31.196.0/24 192.52.193.0/24 192.88.99.0/24 192.168.0.0/16 192.175.48.0/24 198.18.0.0/15
198.51.100.0/24 203.0.113.0/24 240.0.0.0/4 255.255.255.255/32
"""
REGISTRY_V6 = """
::1/128 ::/128 ::ffff:0:0/96 64:ff9b::/96 64:ff9b:1::/48 100::/64 100:0:0:1::/64 2001::/23 2001::/32
2001:1::1/128 2001:1::2/128 2001:1::3/128 2001:2::/48 2001:3::/32 2001:4:112::/48 2001:10::/28
2001:20::/28 2001:30::/28 2001:db8::/32 2002::/16 2620:4f:8000::/48 3fff::/20 5f00::/16 fc00::/7
fe80::/10
"""


@pytest.mark.parametrize("block", [*REGISTRY_V4.split(), *REGISTRY_V6.split()])
def test_every_block_of_the_registries_is_in_the_table_and_refused(block: str) -> None:
    network = ipaddress.ip_network(block)
    assert [c.public for c in CLASSES if c.network == network] == [False]
    assert not is_public(network.network_address)
    assert not is_public(network.broadcast_address)


def test_no_block_stands_in_the_table_twice() -> None:
    assert len({c.network for c in CLASSES}) == len(CLASSES)


def test_every_class_says_what_it_is_and_where_that_is_written() -> None:
    assert all(c.name and c.source for c in CLASSES)


def check_class(address: IPv4Address | IPv6Address) -> None:
    holding = [c for c in CLASSES if c.network.version == address.version and address in c.network]
    longest = max(c.network.prefixlen for c in holding)
    assert [classify(address)] == [c for c in holding if c.network.prefixlen == longest]


@given(V4 | V6)
def test_every_address_has_exactly_one_class(address: IPv4Address | IPv6Address) -> None:
    check_class(address)


@pytest.mark.parametrize("address", EDGES, ids=str)
def test_the_edges_of_every_block_have_exactly_one_class(
    address: IPv4Address | IPv6Address,
) -> None:
    check_class(address)


@given(V4 | V6)
@example(IPv4Address("100.64.0.1"))
def test_what_the_standard_library_holds_for_special_is_never_public(
    address: IPv4Address | IPv6Address,
) -> None:
    holes_filled = (
        not address.is_global or address.is_multicast or address.is_reserved or address.is_private
    )
    assert not (holes_filled and is_public(address))


@pytest.mark.parametrize(
    "literal",
    [
        "::ffff:8.8.8.8",
        "::8.8.8.8",
        "::ffff:0:8.8.8.8",
        "64:ff9b::8.8.8.8",
        "64:ff9b:1::8.8.8.8",
        "2002:808:808::1",
        "2001:0:c633:640a::f5ff:fffa",
        "64:ff9b::a00:1",
        "fec0::1",
        "4000::1",
        "1::1",
        "168.63.129.16",
    ],
)
def test_forms_that_carry_an_ipv4_address_and_unassigned_space_are_not_public(literal: str) -> None:
    assert not is_public(ipaddress.ip_address(literal))


@pytest.mark.parametrize(
    "literal",
    [
        "8.8.8.8",
        "11.0.0.1",
        "172.32.0.1",
        "172.15.255.255",
        "9.255.255.255",
        "100.63.255.255",
        "100.128.0.0",
        "198.17.255.255",
        "198.20.0.0",
        "223.255.255.255",
        "1.0.0.0",
        "2606:4700::1111",
        "2003::1",
        "2001:200::1",
        "2001:db7:ffff::1",
        "2001:db9::1",
        "3ffe::1",
    ],
)
def test_ordinary_addresses_beside_special_ones_are_public(literal: str) -> None:
    assert is_public(ipaddress.ip_address(literal))
    assert judged_allowed(ipaddress.ip_address(literal))


CIDRS: list[Network] = [
    IPv4Network("10.66.0.0/16"),
    IPv6Network("fd66::/32"),
    IPv4Network("198.51.100.0/24"),
    IPv6Network("2001:db8::/32"),
]


@pytest.mark.parametrize(
    ("literal", "allowed"),
    [
        ("10.66.0.0", True),
        ("10.66.255.255", True),
        ("10.65.255.255", False),
        ("10.67.0.0", False),
        ("fd66:0:1::5", True),
        ("fd66:1::", False),
        ("198.51.100.255", True),
        ("2001:db8:ffff::1", True),
        ("::ffff:10.66.0.1", False),
        ("64:ff9b::a42:1", False),
        ("127.0.0.1", False),
    ],
)
def test_an_allowed_network_opens_exactly_itself(literal: str, allowed: bool) -> None:
    assert judged_allowed(ipaddress.ip_address(literal), CIDRS) is allowed


@pytest.mark.parametrize("never", [network for network, _ in NEVER], ids=str)
def test_what_no_setting_may_open_stays_closed_even_if_one_does(never: IPv4Network) -> None:
    everything: list[Network] = [IPv4Network("0.0.0.0/0"), IPv6Network("::/0")]
    assert not judged_allowed(never.network_address, everything)
    assert not judged_allowed(never.broadcast_address, everything)
    assert never_allowed(never.network_address)
    assert never_allowed(never)


def test_a_network_that_holds_the_metadata_service_is_never_allowed() -> None:
    assert never_allowed(IPv4Network("169.254.0.0/16")) == "the instance metadata service"
    assert never_allowed(IPv4Network("10.66.0.0/16")) is None


@given(V4)
def test_the_special_networks_are_what_is_not_public(address: IPv4Address) -> None:
    assert any(address in network for network in special_networks_v4()) is not is_public(address)


@given(V6)
@example(IPv6Address("2001:db8::1"))
@example(IPv6Address("2606:4700::1"))
def test_the_special_ipv6_networks_are_what_is_not_public(address: IPv6Address) -> None:
    assert any(address in network for network in special_networks_v6()) is not is_public(address)


@pytest.mark.parametrize("address", [e for e in EDGES if e.version == 4], ids=str)
def test_the_kernel_is_told_to_refuse_what_the_proxy_refuses(address: IPv4Address) -> None:
    wide: list[Network] = [IPv4Network("10.0.0.0/8"), IPv4Network("8.8.8.0/24")]
    for cidrs in ([], CIDRS, wide):
        refused = any(address in network for network in refused_networks_v4(cidrs))
        assert refused is not judged_allowed(address, cidrs)


V4_NETWORKS = st.builds(
    lambda value, length: IPv4Network((value >> (32 - length) << (32 - length), length)),
    st.integers(0, 2**32 - 1),
    st.integers(8, 32),
)


@given(V4, st.lists(V4_NETWORKS, max_size=4))
def test_both_filters_agree_on_any_address_and_cidrs(
    address: IPv4Address, cidrs: list[IPv4Network]
) -> None:
    refused = refused_networks_v4(cidrs)
    assert any(address in network for network in refused) is not judged_allowed(address, cidrs)
    assert refused == sorted(refused)
    assert list(ipaddress.collapse_addresses(refused)) == refused


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("127.0.0.1.", "127.0.0.1"),
        ("[127.0.0.1]", "127.0.0.1"),
        ("0177.0.0.1", "127.0.0.1"),
        ("2130706433", "127.0.0.1"),
        ("0x7f000001", "127.0.0.1"),
        ("0x7f.0.0.1", "127.0.0.1"),
        ("0X7F.1", "127.0.0.1"),
        ("127.1", "127.0.0.1"),
        ("127.0.1", "127.0.0.1"),
        ("0", "0.0.0.0"),
        ("0x", "0.0.0.0"),
        ("017700000001", "127.0.0.1"),
        ("4294967295", "255.255.255.255"),
        ("::1", "::1"),
        ("[::1]", "::1"),
        ("::1%lo", "::1"),
        ("[::1%25lo]", "::1"),
        ("::ffff:127.0.0.1", "::ffff:7f00:1"),
        ("::FFFF:7F00:1", "::ffff:7f00:1"),
        (" 10.0.0.1 ", "10.0.0.1"),
    ],
)
def test_every_spelling_of_an_address_is_read(text: str, address: str) -> None:
    assert parse_any_literal(text) == ipaddress.ip_address(address)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "evil.test",
        "1.2.3.4.5",
        "256.1.1.1",
        "1.2.3.256",
        "4294967296",
        "08.1.1.1",
        "1..2",
        ".",
        "0x7g",
        "-1",
        "1e3",
        "\uff11\uff12\uff17.0.0.1",
        "a",
        "1.2.3.4a",
        "::1::",
        "[evil.test]",
        "9" * 5000,
    ],
)
def test_what_no_parser_takes_for_an_address_is_none(text: str) -> None:
    assert parse_any_literal(text) is None


@given(V4 | V6)
def test_the_usual_spelling_reads_as_itself(address: IPv4Address | IPv6Address) -> None:
    assert parse_any_literal(str(address)) == address


@given(st.text(max_size=40))
def test_reading_any_text_never_fails(text: str) -> None:
    parse_any_literal(text)
    ends_in_number(text)


@pytest.mark.parametrize(
    "name", ["1.2.3.4", "1.2.3.4.", "a.1", "1.2.3.4.5", "a.0x7f", "a.0x", "09"]
)
def test_a_name_whose_last_label_is_a_number_ends_in_one(name: str) -> None:
    assert ends_in_number(name)


@pytest.mark.parametrize("name", ["a.test", "1a", "a.1b", "0xg", "", ".", "1.test."])
def test_other_names_do_not_end_in_a_number(name: str) -> None:
    assert not ends_in_number(name)
