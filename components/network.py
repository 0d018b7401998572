"""The two bridges of a sandbox: host-only for agent and gateway, egress for the gateway alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulumi_docker as docker
from pulumi import ComponentResource, Input, Output, Resource, ResourceOptions

from abox.naming import FIRST_GENERATION, LABEL_GENERATION, LABEL_ROLE, LABEL_SANDBOX, Role
from components.host import NetworkPosture


@dataclass(frozen=True, kw_only=True)
class NetworkArgs:
    """What a Network is made of; all values come from the sandbox's SubnetLease."""

    sandbox: str
    """Name of the sandbox, for the labels."""
    subnet: Input[str]
    """Addresses of the host-only bridge: a /24 in CIDR notation."""
    host: Input[str]
    """The host's own address on the host-only bridge."""
    bridge: Input[str]
    """Interface name of the host-only bridge, at most 15 characters."""
    egress_subnet: Input[str]
    """Addresses of the egress bridge: a /24 in CIDR notation."""
    egress_host: Input[str]
    """The host's own address on the egress bridge, the gateway pod's way out."""
    egress_bridge: Input[str]
    """Interface name of the egress bridge."""
    egress_v6: tuple[Input[str], Input[str]] | None
    """A /64 for the egress bridge and the host's address in it; None: it has no IPv6 either."""
    generation: Input[str]
    """Another number makes the networks anew."""
    agent_connects: bool = True
    """Whether the agent is a container on the host-only bridge; a VM has a tap there."""
    after: Sequence[Resource] = ()
    """What must stand before the bridges, and until they have gone."""


class Network(ComponentResource):
    """Host-only bridge without any uplink (layer 3) and the gateway pod's egress bridge.

    The first never has IPv6, the second only where the policy names networks of it.

    Docker doesn't masquerade for the egress bridge: the sandbox's own table does, so that it is
    read back, and gone with the table.
    """

    def __init__(self, name: str, args: NetworkArgs, opts: ResourceOptions | None = None) -> None:
        super().__init__("abox:network:Network", name, {}, opts)
        internal = _bridge(
            self,
            f"{name}-internal",
            args,
            internal=True,
            subnets=[(args.subnet, args.host)],
            interface=args.bridge,
        )
        egress = _bridge(
            self,
            f"{name}-egress",
            args,
            internal=False,
            subnets=[(args.egress_subnet, args.egress_host), *filter(None, [args.egress_v6])],
            interface=args.egress_bridge,
        )
        inside = [Role.PAUSE, Role.AGENT] if args.agent_connects else [Role.PAUSE]
        self.internal_id: Output[str] = internal.id
        self.egress_id: Output[str] = egress.id
        self.postures: list[Resource] = [
            NetworkPosture(
                f"{name}-{kind}-posture",
                sandbox=args.sandbox,
                network=bridge.id,
                bridge=interface,
                internal=kind == "internal",
                ipv6=kind == "egress" and args.egress_v6 is not None,
                roles=roles,
                opts=ResourceOptions(parent=self),
            )
            for kind, bridge, interface, roles in (
                ("internal", internal, args.bridge, inside),
                ("egress", egress, args.egress_bridge, [Role.PAUSE]),
            )
        ]
        """Who connects to a bridge comes after these: strangers make room first."""
        self.register_outputs({"internal_id": self.internal_id, "egress_id": self.egress_id})


def _bridge(
    parent: ComponentResource,
    name: str,
    args: NetworkArgs,
    *,
    internal: bool,
    subnets: Sequence[tuple[Input[str], Input[str]]],
    interface: Input[str],
) -> docker.Network:
    return docker.Network(
        name,
        driver="bridge",
        internal=internal,
        ipv6=len(subnets) > 1,
        ipam_configs=[
            docker.NetworkIpamConfigArgs(subnet=subnet, gateway=host) for subnet, host in subnets
        ],
        labels=Output.from_input(args.generation).apply(
            lambda generation: _labels(
                {
                    LABEL_ROLE: "internal" if internal else "egress",
                    LABEL_SANDBOX: args.sandbox,
                    # Most are the first, and stay as they were made.
                    **({} if generation == FIRST_GENERATION else {LABEL_GENERATION: generation}),
                }
            )
        ),
        options={
            "com.docker.network.bridge.enable_ip_masquerade": "false",
            "com.docker.network.bridge.name": interface,
        },
        # A bridge can't change under its members: they are taken away first.
        opts=ResourceOptions(parent=parent, depends_on=args.after, delete_before_replace=True),
    )


def _labels(labels: Mapping[str, str]) -> list[docker.NetworkLabelArgs]:
    return [docker.NetworkLabelArgs(label=name, value=labels[name]) for name in sorted(labels)]
