"""The sandbox's nftables table: who may talk to whom, judged by the kernel, default deny.

The table judges only what comes from or goes to the sandbox's two bridges; everything else passes
its base chains untouched. Frames that stay on a bridge pass the forward hook too, because the
kernel's br_netfilter is on. An accept here is not the last word: the engine's own chains at
priority 0 judge after it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, collapse_addresses

from abox.addresses import Network, refused_networks_v4
from abox.naming import INTERFACE_NAME_MAX

PRIORITY = -10
"""Of the forward and input chains: before the engine's chains at 0."""

SOURCES_PRIORITY = -450
"""Of the chain that judges source addresses: before fragments are put together at -400."""

BEYOND_PRIORITY = -150
"""Of the chain that refuses what leaves the bridge: behind connection tracking at -200, before
addresses are translated at -100."""

DNS_PORT = 53

PORT_MAX = 65535

_IDENTIFIER = re.compile(r"[a-zA-Z][a-zA-Z0-9_-]{0,62}")


@dataclass(frozen=True, kw_only=True)
class TableSpec:
    """What the table is made of; every field is typed or matched, so that none can add a rule."""

    table: str
    """Name of the table, family inet."""
    bridge: str
    """Host-only bridge: agent, gateway pod, host."""
    egress_bridge: str
    """Bridge with a way out: gateway pod, host."""
    subnet: IPv4Network
    """Addresses of the host-only bridge."""
    gateway: IPv4Address
    """The pod on the host-only bridge."""
    agent: IPv4Address
    host: IPv4Address
    """The host on the host-only bridge."""
    egress_subnet: IPv4Network
    """Addresses of the egress bridge."""
    pod_egress: IPv4Address
    """The pod on the egress bridge."""
    egress_subnet_v6: IPv6Network
    """Addresses of the egress bridge in IPv6, which it has if the policy names such networks."""
    pod_egress_v6: IPv6Address
    proxy_port: int
    """TCP port of the forward proxy, 1 to 65535."""
    upstream_dns: tuple[IPv4Address, ...]
    """Resolvers that the pod may ask, whatever block they lie in."""
    tcp_ports: tuple[int, ...] | None
    """Destination ports that the pod may use; None: all (passive mode)."""
    allow_private_cidrs: tuple[Network, ...] = ()
    """Special-purpose networks that the pod may reach after all."""

    def __post_init__(self) -> None:
        _check_identifiers(self.table, self.bridge, self.egress_bridge)
        for port in (self.proxy_port, *(self.tcp_ports or ())):
            _check_port(port)
        self._check_addresses()

    def _check_addresses(self) -> None:
        members = [self.gateway, self.agent, self.host]
        for address in (*members, self.pod_egress, *self.upstream_dns):
            _check_type(address, IPv4Address)
        for network in (self.subnet, self.egress_subnet):
            _check_type(network, IPv4Network)
        _check_type(self.egress_subnet_v6, IPv6Network)
        _check_type(self.pod_egress_v6, IPv6Address)
        for cidr in self.allow_private_cidrs:
            _check_type(cidr, (IPv4Network, IPv6Network))
        if len(set(members)) < len(members) or any(m not in self.subnet for m in members):
            raise ValueError(f"gateway, agent and host: three addresses of {self.subnet}")
        if self.pod_egress not in self.egress_subnet:
            raise ValueError(f"{self.pod_egress}: not in {self.egress_subnet}")
        if self.pod_egress_v6 not in self.egress_subnet_v6:
            raise ValueError(f"{self.pod_egress_v6}: not in {self.egress_subnet_v6}")
        if self.subnet.overlaps(self.egress_subnet):
            raise ValueError(f"{self.subnet} overlaps {self.egress_subnet}")

    @property
    def ipv6_networks(self) -> list[IPv6Network]:
        """Networks of IPv6 that the pod may reach; none: every packet of IPv6 is dropped."""
        named = [cidr for cidr in self.allow_private_cidrs if isinstance(cidr, IPv6Network)]
        return list(collapse_addresses(named))


def render_table(spec: TableSpec) -> str:
    """A complete `nft -f` script that puts the table in place of an earlier one, atomically.

    Args:
        spec: addresses, names and ports; equal specs give equal bytes.
    Returns: the script, newline at the end.
    """
    parts = (
        _special_purpose_set(spec),
        *_named_ipv6_set(spec),
        _sources_chain(spec),
        _beyond_chain(spec),
        _forward_chain(spec),
        _from_bridge_chain(spec),
        _from_egress_chain(spec),
        *_from_egress_v6_chain(spec),
        _input_chain(spec),
        _to_host_chain(spec),
        _refuse_chain(),
        _postrouting_chain(spec),
    )
    table = f"table inet {spec.table}"
    # The first line makes the table if there is none, so that the second one can't fail.
    return f"{table}\ndelete {table}\n{table} {{\n" + "\n\n".join(parts) + "\n}\n"


def _special_purpose_set(spec: TableSpec) -> str:
    networks = refused_networks_v4(spec.allow_private_cidrs)
    elements = ",\n".join(f"\t\t\t{network}" for network in networks)
    lines = ("type ipv4_addr", "flags constant, interval", f"elements = {{\n{elements}\n\t\t}}")
    return _block("set special_purpose", lines)


def _named_ipv6_set(spec: TableSpec) -> list[str]:
    if not spec.ipv6_networks:
        return []
    elements = ",\n".join(f"\t\t\t{network}" for network in spec.ipv6_networks)
    lines = ("type ipv6_addr", "flags constant, interval", f"elements = {{\n{elements}\n\t\t}}")
    return [_block("set named_ipv6", lines)]


def _sources_chain(spec: TableSpec) -> str:
    """Drops forged sources before the kernel remembers, routes or answers them.

    A broadcast frame is confirmed by connection tracking although a later chain drops it, so a
    forged question of the host would make its forged answer "established"; and a packet that can't
    be routed is answered, to whomever it claims to come from, before any forward chain sees it. So
    is a fragment for the host whose others never come: it is kept before other chains see it.
    """
    bridge, egress_bridge = f'iifname "{spec.bridge}"', f'iifname "{spec.egress_bridge}"'
    members = _set((spec.agent, spec.gateway))
    why = "no forged sources"
    not_v6 = (
        f"{egress_bridge} ip6 saddr != {spec.pod_egress_v6}"
        if spec.ipv6_networks
        else f"{egress_bridge} meta nfproto ipv6"
    )
    return _block(
        "chain sources",
        (
            f"type filter hook prerouting priority {SOURCES_PRIORITY}; policy accept;",
            _rule(f"{bridge} ip saddr != {members}", "drop", why),
            _rule(f"{bridge} meta nfproto ipv6", "drop", "no IPv6"),
            _rule(f"{egress_bridge} ip saddr != {spec.pod_egress}", "drop", why),
            _rule(not_v6, "drop", why if spec.ipv6_networks else "no IPv6"),
        ),
    )


def _beyond_chain(spec: TableSpec) -> str:
    """Refuses what goes beyond the bridge before the kernel looks for a way.

    It routes nothing that comes in by the bridge (the interface's own setting, which holds without
    this table), and drops without a word: the forward chain never sees it, and a tool would hang.
    """
    match = f'iifname "{spec.bridge}" ip daddr != {spec.subnet} ct direction original'
    return _block(
        "chain beyond",
        (
            f"type filter hook prerouting priority {BEYOND_PRIORITY}; policy accept;",
            f"{match} goto refuse",
        ),
    )


def _forward_chain(spec: TableSpec) -> str:
    bridge, egress_bridge = f'"{spec.bridge}"', f'"{spec.egress_bridge}"'
    answer = f"oifname {egress_bridge} ip daddr {spec.pod_egress} ct state established,related"
    answer_v6 = answer.replace(f"ip daddr {spec.pod_egress}", f"ip6 daddr {spec.pod_egress_v6}")
    answers_v6 = [_rule(answer_v6, "accept", "answers to the pod")] if spec.ipv6_networks else []
    return _block(
        "chain forward",
        (
            f"type filter hook forward priority {PRIORITY}; policy accept;",
            f"iifname {bridge} goto from_bridge",
            f"iifname {egress_bridge} goto from_egress",
            _rule(f"oifname {bridge}", "drop", "nobody else talks to the sandbox"),
            _rule(answer, "accept", "answers to the pod"),
            *answers_v6,
            _rule(f"oifname {egress_bridge}", "drop", "nobody starts towards the pod"),
        ),
    )


def _from_bridge_chain(spec: TableSpec) -> str:
    inside = f'oifname "{spec.bridge}"'
    answer = f"{inside} ip saddr {spec.gateway} ip daddr {spec.agent} ct state established,related"
    to_gateway = f"{inside} ip daddr {spec.gateway}"
    return _block(
        "chain from_bridge",
        (
            _rule("meta nfproto != ipv4", "drop", "no IPv6"),
            "ct state invalid drop",
            _rule(answer, "accept", "answers to the agent"),
            _rule(f"ip saddr != {spec.agent}", "drop", "only the agent's own address"),
            _rule(f"{to_gateway} udp dport {DNS_PORT}", "accept", "names"),
            _rule(f"{to_gateway} tcp dport {spec.proxy_port}", "accept", "proxy"),
            _rule(f"{to_gateway} icmp type echo-request", "accept", "diagnosis"),
            "goto refuse",
        ),
    )


def _from_egress_chain(spec: TableSpec) -> str:
    inside = f'oifname {{ "{spec.bridge}", "{spec.egress_bridge}" }}'
    ipv6 = ("goto from_egress_v6", "IPv6") if spec.ipv6_networks else ("drop", "no IPv6")
    rules = [
        _rule("meta nfproto != ipv4", *ipv6),
        "ct state invalid drop",
        _rule(inside, "drop", "no way back in"),
        _rule(f"ip saddr != {spec.pod_egress}", "drop", "only the pod's own address"),
    ]
    if spec.upstream_dns:
        asked = (
            f"ip daddr {_set(spec.upstream_dns)} meta l4proto {{ tcp, udp }} th dport {DNS_PORT}"
        )
        rules.append(_rule(asked, "accept", "resolvers"))
    rules.append(_rule("ip daddr @special_purpose", "goto refuse", "public or named networks only"))
    rules += _allowed_ports(spec)
    return _block("chain from_egress", (*rules, "goto refuse"))


def _from_egress_v6_chain(spec: TableSpec) -> list[str]:
    """IPv6 is for the networks that the stack names, and for nothing else, public or not."""
    if not spec.ipv6_networks:
        return []
    inside = f'oifname {{ "{spec.bridge}", "{spec.egress_bridge}" }}'
    rules = [
        "ct state invalid drop",
        _rule(inside, "drop", "no way back in"),
        _rule(f"ip6 saddr != {spec.pod_egress_v6}", "drop", "only the pod's own address"),
        _rule("ip6 daddr != @named_ipv6", "goto refuse", "named networks only"),
    ]
    rules += _allowed_ports(spec)
    return [_block("chain from_egress_v6", (*rules, "goto refuse"))]


def _allowed_ports(spec: TableSpec) -> list[str]:
    if spec.tcp_ports is None:
        return [_rule("meta l4proto tcp", "accept", "passive mode: every port")]
    if spec.tcp_ports:
        return [_rule(f"tcp dport {_set(spec.tcp_ports)}", "accept", "ports of the allowlist")]
    return []


def _input_chain(spec: TableSpec) -> str:
    return _block(
        "chain input",
        (
            f"type filter hook input priority {PRIORITY}; policy accept;",
            f'iifname {{ "{spec.bridge}", "{spec.egress_bridge}" }} goto to_host',
        ),
    )


def _to_host_chain(spec: TableSpec) -> str:
    own = _set((spec.agent, spec.gateway, spec.pod_egress))
    return _block(
        "chain to_host",
        (
            *_neighbour_rules(spec),
            _rule("meta nfproto != ipv4", "drop", "no IPv6, neighbour discovery included"),
            "ct state invalid drop",
            # What the sandbox itself began is never an answer, whatever was remembered of it.
            _rule(
                "ct state established,related ct direction reply", "accept", "answers to the host"
            ),
            _rule(f"ip saddr != {own}", "drop", "only their own addresses"),
            "goto refuse",
        ),
    )


def _neighbour_rules(spec: TableSpec) -> list[str]:
    """What the pod needs to find the host on a link of IPv6, from its own address alone."""
    if not spec.ipv6_networks:
        return []
    match = (
        f'iifname "{spec.egress_bridge}" ip6 saddr {spec.pod_egress_v6} ip6 hoplimit 255 '
        "icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert }"
    )
    return [_rule(match, "accept", "the pod finds its way out")]


def _refuse_chain() -> str:
    """At once and with an answer, so that tools fail instead of hanging."""
    return _block(
        "chain refuse",
        ("meta l4proto tcp reject with tcp reset", "reject with icmp admin-prohibited", "drop"),
    )


def _postrouting_chain(spec: TableSpec) -> str:
    out = f'oifname != "{spec.egress_bridge}" masquerade'
    masquerade_v6 = [f"ip6 saddr {spec.egress_subnet_v6} {out}"] if spec.ipv6_networks else []
    return _block(
        "chain postrouting",
        (
            "type nat hook postrouting priority srcnat; policy accept;",
            f"ip saddr {spec.egress_subnet} {out}",
            *masquerade_v6,
        ),
    )


def _block(head: str, lines: tuple[str, ...]) -> str:
    return f"\t{head} {{\n" + "".join(f"\t\t{line}\n" for line in lines) + "\t}"


def _rule(match: str, verdict: str, comment: str) -> str:
    return f'{match} {verdict} comment "{comment}"'


def _set(members: tuple[int, ...] | tuple[IPv4Address, ...]) -> str:
    return "{ " + ", ".join(str(member) for member in sorted({*members}, key=int)) + " }"


def _check_identifiers(table: str, *bridges: str) -> None:
    for name in (table, *bridges):
        if not _IDENTIFIER.fullmatch(name):
            raise ValueError(f"{name!r}: letters, digits, '-' and '_' only")
    if len(set(bridges)) < len(bridges) or any(len(b) > INTERFACE_NAME_MAX for b in bridges):
        raise ValueError(f"{bridges}: different names of at most {INTERFACE_NAME_MAX} characters")


def _check_port(port: int) -> None:
    if isinstance(port, bool) or not isinstance(port, int) or not 1 <= port <= PORT_MAX:
        raise ValueError(f"port {port!r}: must be 1 to {PORT_MAX}")


def _check_type(value: object, kind: type | tuple[type, ...]) -> None:
    if not isinstance(value, kind):
        raise TypeError(f"{value!r}: not an address of the right kind")
