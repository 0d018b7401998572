"""One sandbox: everything that stands on the host for one agent, in the order of safety."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import PurePosixPath
from typing import Any

from pulumi import ComponentResource, Input, Output, Resource, ResourceOptions

from abox.allowlist import Policy
from abox.host_state import monitor_socket, verdict_log
from abox.naming import Role
from abox.settings import Settings
from components.agent import Agent, AgentArgs, agent_image
from components.firewall import Firewall, FirewallArgs
from components.gateway import Gateway, GatewayArgs
from components.host import Cleanup, Preflight, SubnetLease
from components.network import Network, NetworkArgs
from components.proxy import Proxy, ProxyArgs
from components.readiness import Readiness
from components.vm import Machine, Vm, VmArgs, machine_needs


@dataclass(frozen=True, kw_only=True)
class SandboxArgs:
    """What a Sandbox is made of; all of it validated before the first resource."""

    settings: Settings
    """The stack's configuration."""
    images: Mapping[str, str]
    """Image ids by role: gateway, and agent where the agent is a container."""
    upstream_dns: tuple[IPv4Address, ...]
    """Resolvers of allowed names: the stack's own, or the host's."""
    state_dir: PurePosixPath
    """What abox keeps on the host; below it is the sandbox's verdict log."""
    machine: Machine | None = None
    """What this host boots, where the agent is a VM."""


class Sandbox(ComponentResource):
    """Network without uplink, firewall, gateway pod, agent: deny by default on three layers.

    Created in this order and deleted in the reverse one, so that no agent runs before its firewall
    stands or after it has gone.
    """

    def __init__(self, name: str, args: SandboxArgs, opts: ResourceOptions | None = None) -> None:
        super().__init__("abox:sandbox:Sandbox", name, {}, opts)
        child = ResourceOptions(parent=self)
        settings = args.settings
        policy: Policy = settings.policy
        ipv6 = bool(policy.ipv6_networks)
        machine = args.machine
        images: list[Input[str]] = [args.images["gateway"]]
        if machine is None:
            wanted, built = settings.agent.image, args.images["agent"]
            images.append(agent_image(f"{name}-agent-image", wanted, built, child))
        preflight = Preflight(
            f"{name}-preflight",
            images=images,
            machine=None if machine is None else machine_needs(machine, settings.vm),
            ipv6=ipv6,
            opts=child,
        )
        lease = SubnetLease(
            f"{name}-subnet",
            sandbox=name,
            subnet=settings.subnet,
            opts=ResourceOptions(parent=self, depends_on=[preflight]),
        )
        cleanup = Cleanup(
            f"{name}-cleanup",
            sandbox=name,
            machine=machine is not None,
            opts=ResourceOptions(parent=self, depends_on=[lease]),
        )
        firewall = Firewall(
            f"{name}-firewall",
            FirewallArgs(
                lease=lease,
                policy=policy,
                proxy_port=settings.proxy_port,
                upstream_dns=args.upstream_dns,
                after=[cleanup],
            ),
            child,
        )
        network = Network(
            f"{name}-network",
            NetworkArgs(
                sandbox=name,
                subnet=lease.subnet,
                host=lease.host,
                bridge=lease.bridge,
                egress_subnet=lease.egress_subnet,
                egress_host=lease.egress_host,
                egress_bridge=lease.egress_bridge,
                egress_v6=(lease.egress_subnet_v6, lease.egress_host_v6) if ipv6 else None,
                generation=lease.generation,
                agent_connects=machine is None,
                after=[firewall],
            ),
            child,
        )
        gateway = Gateway(
            f"{name}-gateway",
            GatewayArgs(
                sandbox=name,
                image=args.images["gateway"],
                internal_network=network.internal_id,
                egress_network=network.egress_id,
                gateway=lease.gateway,
                egress_gateway=lease.egress_gateway,
                egress_gateway_v6=lease.egress_gateway_v6 if ipv6 else None,
                proxy_port=settings.proxy_port,
                log_folder=str(verdict_log(args.state_dir, name)),
                cleanup=cleanup,
                after=network.postures,
            ),
            child,
        )
        proxy = Proxy(
            f"{name}-proxy",
            ProxyArgs(
                sandbox=name,
                image=args.images["gateway"],
                pause_id=gateway.pause_id,
                control_id=gateway.control_id,
                volumes=gateway.volumes,
                gateway=lease.gateway,
                proxy_port=settings.proxy_port,
                policy=policy,
                upstream_dns=args.upstream_dns,
                trusted_cas=settings.trusted_cas,
                secrets=settings.secrets,
                after=[gateway],
            ),
            child,
        )
        ready = Readiness(
            f"{name}-ready",
            control=gateway.container_names[Role.CONTROL],
            triggers=[*gateway.container_ids, proxy.container_id],
            after=[proxy],
            opts=child,
        )
        confines: list[Resource] = [firewall, *network.postures]
        if machine is None:
            agent = Agent(
                f"{name}-agent",
                AgentArgs(
                    sandbox=name,
                    image=images[-1],
                    seed_image=args.images["gateway"],
                    settings=settings.agent,
                    network=network.internal_id,
                    address=lease.agent,
                    gateway=lease.gateway,
                    proxy_url=proxy.url,
                    trust_volume=gateway.volumes["trust"].name,
                    cleanup=cleanup,
                    after=[*confines, gateway, proxy, ready],
                ),
                child,
            )
            of_agent: dict[str, Any] = {"agent_container": agent.container_name}
        else:
            monitor = monitor_socket(args.state_dir, name) if settings.monitor.enabled else ""
            vm = Vm(
                f"{name}-vm",
                VmArgs(
                    sandbox=name,
                    machine=machine,
                    settings=settings.vm,
                    lease=lease,
                    proxy_port=settings.proxy_port,
                    proxy_url=proxy.url,
                    ca_certificate=proxy.ca_certificate,
                    trusted_cas=settings.trusted_cas,
                    monitor=str(monitor),
                    cleanup=cleanup,
                    before_domain=confines,
                    before_ready=[ready],
                ),
                child,
            )
            of_agent = {"domain": vm.domain, "ssh_config": vm.ssh_config}
        self.outputs: dict[str, Any] = {
            "sandbox": name,
            "backend": settings.backend,
            "shell": f"abox shell {name}",
            "proxy": proxy.url,
            "gateway": lease.gateway,
            "subnet": lease.subnet,
            "bridge": lease.bridge,
            "ca_fingerprint": proxy.ca_fingerprint,
            "policy_hash": proxy.policy_hash,
            **of_agent,
            "gateway_containers": {
                **gateway.container_names,
                Role.PROXY: proxy.container_name,
            },
            "firewall_table": Output.from_input(firewall.table),
        }
        self.register_outputs(self.outputs)
