"""Layer 2: the sandbox's nftables table, and the kernel switch without which it sees nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

from pulumi import ComponentResource, Input, Output, Resource, ResourceOptions

from abox.allowlist import Policy
from abox.render.nftables import TableSpec, render_table
from components.host import BridgeFiltering, FirewallTable, SubnetLease


@dataclass(frozen=True, kw_only=True)
class FirewallArgs:
    """What a Firewall is made of."""

    lease: SubnetLease
    """Addresses and interface names of the sandbox."""
    policy: Policy
    """Its ports and private networks are all that the egress bridge lets out."""
    proxy_port: int
    """TCP port of the forward proxy."""
    upstream_dns: tuple[IPv4Address, ...]
    """Resolvers that the gateway pod may ask."""
    after: Sequence[Resource] = ()
    """What must be true before anything is changed on the host."""


class Firewall(ComponentResource):
    """Default deny for both bridges, loaded before anything is connected to them.

    The agent reaches DNS, proxy and echo of the gateway; the gateway pod reaches its resolvers and
    the allowlist's ports at addresses that are public or named; nothing reaches the host.
    """

    def __init__(self, name: str, args: FirewallArgs, opts: ResourceOptions | None = None) -> None:
        super().__init__("abox:firewall:Firewall", name, {}, opts)
        filtering = BridgeFiltering(
            f"{name}-bridge-filtering", opts=ResourceOptions(parent=self, depends_on=args.after)
        )
        table = FirewallTable(
            f"{name}-table",
            table=args.lease.table,
            rules=_rules(args),
            opts=ResourceOptions(parent=self, depends_on=[filtering]),
        )
        self.table: Output[str] = args.lease.table
        self.findings: Output[list[str]] = table.findings
        self.register_outputs({"table": self.table})


def _rules(args: FirewallArgs) -> Input[str]:
    lease = args.lease
    leased = {
        "table": lease.table,
        "bridge": lease.bridge,
        "egress_bridge": lease.egress_bridge,
        "subnet": lease.subnet,
        "gateway": lease.gateway,
        "agent": lease.agent,
        "host": lease.host,
        "egress_subnet": lease.egress_subnet,
        "egress_gateway": lease.egress_gateway,
        "egress_subnet_v6": lease.egress_subnet_v6,
        "egress_gateway_v6": lease.egress_gateway_v6,
    }

    def render(got: Mapping[str, str]) -> str:
        return render_table(
            TableSpec(
                table=got["table"],
                bridge=got["bridge"],
                egress_bridge=got["egress_bridge"],
                subnet=IPv4Network(got["subnet"]),
                gateway=IPv4Address(got["gateway"]),
                agent=IPv4Address(got["agent"]),
                host=IPv4Address(got["host"]),
                egress_subnet=IPv4Network(got["egress_subnet"]),
                pod_egress=IPv4Address(got["egress_gateway"]),
                egress_subnet_v6=IPv6Network(got["egress_subnet_v6"]),
                pod_egress_v6=IPv6Address(got["egress_gateway_v6"]),
                proxy_port=args.proxy_port,
                upstream_dns=args.upstream_dns,
                tcp_ports=args.policy.tcp_ports,
                allow_private_cidrs=args.policy.allow_private_cidrs,
            )
        )

    return Output.all(**leased).apply(render)
