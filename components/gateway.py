"""The gateway pod without its proxy: namespace, DNS filter, control, their volumes and log."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pulumi import ComponentResource, Input, Output, Resource, ResourceOptions

from abox.naming import Role
from abox.pod import (
    LOG_FOLDER,
    VOLUMES,
    PodContainer,
    control_container,
    dns_container,
    pause_container,
)
from components.container import HardenedContainer
from components.host import ExpectedNetwork, LogFolder
from components.pod import pod_container
from components.volumes import make_volume


@dataclass(frozen=True, kw_only=True)
class GatewayArgs:
    """What a Gateway is made of."""

    sandbox: str
    """Name of the sandbox."""
    image: str
    """Id of the gateway image."""
    internal_network: Input[str]
    """Id of the host-only network."""
    egress_network: Input[str]
    """Id of the egress network."""
    gateway: Input[str]
    """Address of the pod on the host-only bridge."""
    egress_gateway: Input[str]
    """Address of the pod on the egress bridge."""
    egress_gateway_v6: Input[str] | None
    """Its IPv6 address there; None: the pod has no IPv6."""
    proxy_port: int
    """TCP port of the forward proxy."""
    log_folder: str
    """Path on the host of the verdict log."""
    cleanup: Resource
    """Stands before each volume and folder, and until it has gone."""
    after: Sequence[Resource] = ()
    """What must stand before the pod connects to the bridges."""


class Gateway(ComponentResource):
    """One network namespace with a leg on each bridge, held by ``pause``, joined by the others.

    Each process is a container with restart policy, user and memory limit of its own. Before its
    first policy the pod denies everything.
    """

    def __init__(self, name: str, args: GatewayArgs, opts: ResourceOptions | None = None) -> None:
        super().__init__("abox:gateway:Gateway", name, {}, opts)
        child = ResourceOptions(parent=self)
        kept = ResourceOptions(parent=self, depends_on=[args.cleanup])
        self.volumes = {
            volume: make_volume(
                f"{name}-{volume}",
                sandbox=args.sandbox,
                purpose=volume,
                driver_opts=options,
                opts=kept,
            )
            for volume, options in VOLUMES.items()
        }
        logs = LogFolder(f"{name}-logs", sandbox=args.sandbox, opts=kept)

        def container(
            describe: Callable[[str], PodContainer],
            joined: Input[str] | None = None,
        ) -> HardenedContainer:
            legs = (
                ExpectedNetwork(network=args.internal_network, address=args.gateway),
                ExpectedNetwork(
                    network=args.egress_network,
                    address=args.egress_gateway,
                    address_v6=args.egress_gateway_v6 or "",
                ),
            )
            spec = pod_container(
                describe,
                sandbox=args.sandbox,
                image=args.image,
                gateway=args.gateway,
                volumes=self.volumes,
                folders={LOG_FOLDER: args.log_folder},
                joined=joined,
                networks=() if joined else legs,
                after=[*args.after, logs],
            )
            return HardenedContainer(f"{name}-{spec.role}", spec, child)

        ipv6 = args.egress_gateway_v6 is not None
        pause = container(lambda _: pause_container(ipv6=ipv6))
        self.pause_id: Output[str] = pause.container_id
        control = container(
            lambda address: control_container(address, args.proxy_port, args.sandbox),
            self.pause_id,
        )
        dns = container(dns_container, self.pause_id)
        self.control_id: Output[str] = control.container_id
        self.container_names: dict[str, Output[str]] = {
            Role.CONTROL: control.container_name,
            Role.DNS: dns.container_name,
            Role.PAUSE: pause.container_name,
        }
        self.container_ids: list[Output[str]] = [
            each.container_id for each in (pause, control, dns)
        ]
        self.register_outputs({"container_names": self.container_names})
