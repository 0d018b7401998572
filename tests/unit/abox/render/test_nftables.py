"""The nftables table: exact text, equal bytes for equal input, nothing that a value can add."""

import difflib
import re
from dataclasses import replace
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from abox.render.nftables import TableSpec, render_table

SPEC = TableSpec(
    table="abox-dev",
    bridge="abx-dev",
    egress_bridge="abx-deve",
    subnet=IPv4Network("10.10.3.0/24"),
    gateway=IPv4Address("10.10.3.2"),
    agent=IPv4Address("10.10.3.10"),
    host=IPv4Address("10.10.3.1"),
    egress_subnet=IPv4Network("10.11.3.0/24"),
    pod_egress=IPv4Address("10.11.3.2"),
    egress_subnet_v6=IPv6Network("fdab:5c1e:7d04:3::/64"),
    pod_egress_v6=IPv6Address("fdab:5c1e:7d04:3::2"),
    proxy_port=8080,
    upstream_dns=(IPv4Address("198.51.100.53"), IPv4Address("192.168.1.1")),
    tcp_ports=(443, 80),
    allow_private_cidrs=(IPv4Network("198.51.100.0/24"),),
)

EXPECTED = """\
table inet abox-dev
delete table inet abox-dev
table inet abox-dev {
	set special_purpose {
		type ipv4_addr
		flags constant, interval
		elements = {
			0.0.0.0/8,
			10.0.0.0/8,
			100.64.0.0/10,
			127.0.0.0/8,
			168.63.129.16/32,
			169.254.0.0/16,
			172.16.0.0/12,
			192.0.0.0/24,
			192.0.2.0/24,
			192.31.196.0/24,
			192.52.193.0/24,
			192.88.99.0/24,
			192.168.0.0/16,
			192.175.48.0/24,
			198.18.0.0/15,
			203.0.113.0/24,
			224.0.0.0/3
		}
	}

	chain sources {
		type filter hook prerouting priority -450; policy accept;
		iifname "abx-dev" ip saddr != { 10.10.3.2, 10.10.3.10 } drop comment "no forged sources"
		iifname "abx-dev" meta nfproto ipv6 drop comment "no IPv6"
		iifname "abx-deve" ip saddr != 10.11.3.2 drop comment "no forged sources"
		iifname "abx-deve" meta nfproto ipv6 drop comment "no IPv6"
	}

	chain beyond {
		type filter hook prerouting priority -150; policy accept;
		iifname "abx-dev" ip daddr != 10.10.3.0/24 ct direction original goto refuse
	}

	chain forward {
		type filter hook forward priority -10; policy accept;
		iifname "abx-dev" goto from_bridge
		iifname "abx-deve" goto from_egress
		oifname "abx-dev" drop comment "nobody else talks to the sandbox"
		oifname "abx-deve" ip daddr 10.11.3.2 ct state established,related accept comment "answers to the pod"
		oifname "abx-deve" drop comment "nobody starts towards the pod"
	}

	chain from_bridge {
		meta nfproto != ipv4 drop comment "no IPv6"
		ct state invalid drop
		oifname "abx-dev" ip saddr 10.10.3.2 ip daddr 10.10.3.10 ct state established,related accept comment "answers to the agent"
		ip saddr != 10.10.3.10 drop comment "only the agent's own address"
		oifname "abx-dev" ip daddr 10.10.3.2 udp dport 53 accept comment "names"
		oifname "abx-dev" ip daddr 10.10.3.2 tcp dport 8080 accept comment "proxy"
		oifname "abx-dev" ip daddr 10.10.3.2 icmp type echo-request accept comment "diagnosis"
		goto refuse
	}

	chain from_egress {
		meta nfproto != ipv4 drop comment "no IPv6"
		ct state invalid drop
		oifname { "abx-dev", "abx-deve" } drop comment "no way back in"
		ip saddr != 10.11.3.2 drop comment "only the pod's own address"
		ip daddr { 192.168.1.1, 198.51.100.53 } meta l4proto { tcp, udp } th dport 53 accept comment "resolvers"
		ip daddr @special_purpose goto refuse comment "public or named networks only"
		tcp dport { 80, 443 } accept comment "ports of the allowlist"
		goto refuse
	}

	chain input {
		type filter hook input priority -10; policy accept;
		iifname { "abx-dev", "abx-deve" } goto to_host
	}

	chain to_host {
		meta nfproto != ipv4 drop comment "no IPv6, neighbour discovery included"
		ct state invalid drop
		ct state established,related ct direction reply accept comment "answers to the host"
		ip saddr != { 10.10.3.2, 10.10.3.10, 10.11.3.2 } drop comment "only their own addresses"
		goto refuse
	}

	chain refuse {
		meta l4proto tcp reject with tcp reset
		reject with icmp admin-prohibited
		drop
	}

	chain postrouting {
		type nat hook postrouting priority srcnat; policy accept;
		ip saddr 10.11.3.0/24 oifname != "abx-deve" masquerade
	}
}
"""  # noqa: E501


def test_a_small_table_is_exactly_this() -> None:
    assert render_table(SPEC) == EXPECTED


def test_the_order_of_the_input_does_not_show() -> None:
    shuffled = replace(
        SPEC,
        tcp_ports=(80, 443, 80),
        upstream_dns=tuple(reversed(SPEC.upstream_dns)),
        allow_private_cidrs=tuple(reversed(NETWORKS)),
    )
    assert render_table(shuffled) == render_table(replace(SPEC, allow_private_cidrs=NETWORKS))


NETWORKS = (
    IPv4Network("198.51.100.0/24"),
    IPv6Network("2001:db8::/32"),
    IPv6Network("2001:db8:1::/48"),
    IPv6Network("fd66::/32"),
)

WITH_IPV6 = """\
+	set named_ipv6 {
+		type ipv6_addr
+		flags constant, interval
+		elements = {
+			2001:db8::/32,
+			fd66::/32
+		}
+	}
+
-		iifname "abx-deve" meta nfproto ipv6 drop comment "no IPv6"
+		iifname "abx-deve" ip6 saddr != fdab:5c1e:7d04:3::2 drop comment "no forged sources"
+		oifname "abx-deve" ip6 daddr fdab:5c1e:7d04:3::2 ct state established,related accept comment "answers to the pod"
-		meta nfproto != ipv4 drop comment "no IPv6"
+		meta nfproto != ipv4 goto from_egress_v6 comment "IPv6"
+		tcp dport { 80, 443 } accept comment "ports of the allowlist"
+		goto refuse
+	}
+
+	chain from_egress_v6 {
+		ct state invalid drop
+		oifname { "abx-dev", "abx-deve" } drop comment "no way back in"
+		ip6 saddr != fdab:5c1e:7d04:3::2 drop comment "only the pod's own address"
+		ip6 daddr != @named_ipv6 goto refuse comment "named networks only"
+		iifname "abx-deve" ip6 saddr fdab:5c1e:7d04:3::2 ip6 hoplimit 255 icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert } accept comment "the pod finds its way out"
+		ip6 saddr fdab:5c1e:7d04:3::/64 oifname != "abx-deve" masquerade
"""  # noqa: E501


def test_networks_of_ipv6_add_exactly_this() -> None:
    """Nothing of IPv6 passes towards the agent, and of the pod's only what the stack names."""
    table = render_table(replace(SPEC, allow_private_cidrs=NETWORKS))
    compared = difflib.ndiff(EXPECTED.splitlines(), table.splitlines())
    changed = [line[0] + line[2:] for line in compared if line[0] in "+-"]
    assert "\n".join(changed) + "\n" == WITH_IPV6


def test_passive_mode_opens_every_tcp_port_and_nothing_else() -> None:
    passive = render_table(replace(SPEC, tcp_ports=None))
    assert "meta l4proto tcp accept" in passive
    assert passive.index("@special_purpose") < passive.index("meta l4proto tcp accept")


def test_without_ports_or_resolvers_the_pod_reaches_nothing() -> None:
    closed = render_table(replace(SPEC, tcp_ports=(), upstream_dns=()))
    chain = closed.split("chain from_egress {")[1].split("}\n\n")[0]
    assert "accept" not in chain
    assert chain.rstrip("\n\t} ").endswith("goto refuse")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("table", "a b"),
        ("table", 'a"'),
        ("table", "a;"),
        ("table", "a\n"),
        ("table", ""),
        ("table", "1a"),
        ("bridge", "abx-dev { }"),
        ("bridge", "abx-dev*"),
        ("bridge", "abx-deve"),
        ("bridge", "a" * 16),
        ("egress_bridge", "a\x00"),
        ("egress_bridge", "a" * 16),
        ("proxy_port", 0),
        ("proxy_port", 65536),
        ("proxy_port", True),
        ("proxy_port", "8080"),
        ("proxy_port", 8080.0),
        ("tcp_ports", (0,)),
        ("tcp_ports", (443, 70000)),
        ("tcp_ports", ("443 accept",)),
        ("gateway", "10.10.3.2"),
        ("gateway", IPv4Address("10.10.4.2")),
        ("gateway", IPv4Address("10.10.3.10")),
        ("agent", IPv4Address("10.10.3.1")),
        ("pod_egress", IPv4Address("10.10.3.2")),
        ("subnet", "10.10.3.0/24"),
        ("egress_subnet_v6", IPv4Network("10.11.3.0/24")),
        ("pod_egress_v6", IPv6Address("fd66::2")),
        ("pod_egress_v6", IPv4Address("10.11.3.2")),
        ("egress_subnet", IPv4Network("10.10.0.0/16")),
        ("upstream_dns", ("198.51.100.53",)),
        ("allow_private_cidrs", ("198.51.100.0/24",)),
    ],
    ids=str,
)
def test_a_value_of_another_kind_is_refused(field: str, value: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        replace(SPEC, **{field: value})


@given(st.sampled_from(["table", "bridge", "egress_bridge"]), st.text(max_size=20))
def test_no_text_adds_a_rule(field: str, hostile: str) -> None:
    try:
        values: dict[str, Any] = {field: hostile}
        rendered = render_table(replace(SPEC, **values))
    except ValueError:
        return
    assert re.fullmatch(r"[a-zA-Z][a-zA-Z0-9_-]*", hostile)
    assert rendered.count("\n") == EXPECTED.count("\n")


CIDRS = st.builds(
    lambda value, length: IPv4Network((value >> (32 - length) << (32 - length), length)),
    st.integers(0, 2**32 - 1),
    st.integers(8, 32),
)


@given(st.lists(CIDRS, max_size=5), st.lists(st.integers(1, 65535), max_size=5))
def test_lists_of_any_content_change_lists_only(cidrs: list[IPv4Network], ports: list[int]) -> None:
    spec = replace(SPEC, allow_private_cidrs=tuple(cidrs), tcp_ports=tuple(ports))
    kept = [line for line in render_table(spec).splitlines() if not line.startswith("\t\t\t")]
    expected = [line for line in EXPECTED.splitlines() if not line.startswith("\t\t\t")]
    differing = [line for line in kept if line not in expected]
    assert all(line.startswith("\t\ttcp dport {") for line in differing)
