"""resolv.conf(5): what another machine could ask."""

from ipaddress import IPv4Address

from hypothesis import given
from hypothesis import strategies as st

from abox.resolv_conf import parse_resolvers


def test_only_usable_resolvers_in_order_without_repeats():
    text = (
        "# nameserver 192.0.2.1\n"
        "search example.com\n"
        "nameserver 127.0.0.53\n"
        "nameserver 0.0.0.0\n"
        "nameserver 2001:db8::1\n"
        "nameserver 192.0.2.54 # with a comment\n"
        "nameserver 192.0.2.53\n"
        "nameserver 192.0.2.54\n"
        "nameserver\n"
        "nameserver 192.0.2.53.9\n"
    )
    assert parse_resolvers(text) == (IPv4Address("192.0.2.54"), IPv4Address("192.0.2.53"))


@given(st.text())
def test_any_text_gives_addresses_or_none(text):
    assert all(not address.is_loopback for address in parse_resolvers(text))
