"""allow_private_cidrs: exact networks, never wider than meant, never the host or its metadata."""

from ipaddress import ip_network

import pytest

from abox.cidrs import parse_cidrs
from abox.errors import AboxErrors


@pytest.mark.parametrize(
    "cidr",
    [
        "10.66.0.0/16",
        "fd66::/32",
        "198.51.100.0/24",
        "2001:db8::/32",
        "192.168.7.5/32",
        "172.16.0.0/12",
        "fd00:1234::/48",
        "11.0.0.0/8",
        "fe80::5/128",
    ],
)
def test_a_network_of_one_site_passes(cidr: str) -> None:
    assert parse_cidrs([cidr], "p") == (ip_network(cidr),)


@pytest.mark.parametrize(
    "cidr",
    [
        "10.0.0.5/8",
        "0.0.0.0/0",
        "::/0",
        "8.0.0.0/7",
        "fc00::/7",
        "fd00::/8",
        "169.254.0.0/16",
        "169.254.169.254/32",
        "127.0.0.0/8",
        "127.0.0.1/32",
        "0.0.0.0/8",
        "::1/128",
        "::ffff:0:0/96",
        "::ffff:10.66.0.0/112",
        "64:ff9b::a42:0/112",
        "2002:a42::/32",
        "10.10.0.0/16",
        "10.10.10.0/24",
        "10.11.3.0/24",
        "10.0.0.0/8",
        "100.64.0.0/10",
        "fd00:ec2::/32",
        "224.0.0.0/8",
        "10.66.0.0",
        "10.66.0.0/255.255.0.0",
        "10.66.0.0/0.0.255.255",
        "10.66.0.0/16\n",
        " 10.66.0.0/16",
        "fe80::%lo/64",
        "10.66/16",
        "\uff10.0.0.0/8",
        "{subnet}",
        "",
        7,
        None,
        ["10.66.0.0/16"],
    ],
    ids=repr,
)
def test_any_other_is_refused_and_its_position_told(cidr: object) -> None:
    with pytest.raises(AboxErrors) as caught:
        parse_cidrs(["10.66.0.0/16", cidr], "abox:sandbox.allow_private_cidrs")
    (error,) = caught.value.errors
    assert error.what.startswith("abox:sandbox.allow_private_cidrs[1]: ")
    assert error.why
    assert error.remedy


def test_host_bits_are_told_with_the_network_that_is_meant() -> None:
    with pytest.raises(AboxErrors) as caught:
        parse_cidrs(["10.66.0.5/16"], "p")
    assert "'10.66.0.0/16'" in caught.value.remedy


def test_networks_come_sorted_and_once() -> None:
    parsed = parse_cidrs(["fd66::/32", "10.66.0.0/16", "10.65.0.0/16", "fd66::/32"], "p")
    assert [str(network) for network in parsed] == ["10.65.0.0/16", "10.66.0.0/16", "fd66::/32"]
