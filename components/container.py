"""One hardened container with everything that watches it: the shape of all abox containers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pulumi_docker as docker
from pulumi import ComponentResource, Input, Output, Resource, ResourceOptions

from abox.naming import LABEL_GENERATION, LABEL_ROLE, LABEL_SANDBOX
from abox.render.seccomp import render_seccomp
from components.host import (
    ContainerGeneration,
    ContainerPosture,
    ExpectedContainer,
    ExpectedMount,
    ExpectedNetwork,
)

NOT_APPLIED_LIVE = ["cpus", "healthcheck", "init", "mounts", "tmpfs"]
"""Properties whose change pulumi-docker 5.2.0 reports as updated without applying it."""

SECURITY_OPTIONS = ["no-new-privileges:true", f"seccomp={render_seccomp()}"]
"""The engine's own system call filter lets a container open vsock sockets, which no rule sees."""

LOG_LIMITS = {"max-file": "3", "max-size": "10m"}
"""Bounds of a container's log: three files of 10 MB."""


@dataclass(frozen=True, kw_only=True)
class HardenedContainerArgs:
    """What a container may differ in; everything else is the same hardened shape."""

    sandbox: str
    """Name of the sandbox."""
    role: str
    """agent, pause, dns, proxy or control."""
    image: Input[str]
    """Image id or name@sha256:…"""
    command: Sequence[Input[str]] | None = None
    """Arguments; None means the image's own."""
    user: Input[str] | None = None
    """uid:gid or name; None means the image's own."""
    hostname: str | None = None
    """None where the network namespace, and the name with it, is another container's."""
    working_dir: str = "/"
    """Always given: a container that leaves it to its image would be replaced at every up."""
    env: Mapping[str, Input[str]] = field(default_factory=dict)
    mounts: Sequence[ExpectedMount] = ()
    """Volumes and host paths."""
    tmpfs: Mapping[str, str] = field(default_factory=dict)
    """Path to mount options."""
    networks: Sequence[ExpectedNetwork] = ()
    """Networks with the container's addresses; empty together with ``joined``."""
    joined: Input[str] | None = None
    """Id of the container whose network namespace is shared."""
    dns: Sequence[Input[str]] = ()
    sysctls: Mapping[str, str] = field(default_factory=dict)
    group_adds: Sequence[str] = ()
    memory_mb: int
    """Megabytes; swap is none beside it."""
    pids_limit: int
    cpus: float | None = None
    """Cores; None means no limit."""
    restart: str
    """``no`` or ``unless-stopped``."""
    after: Sequence[Resource] = ()
    """What must stand before the container runs, and until it has gone.

    Given to the container itself: a component's own ``depends_on`` doesn't reach its children.
    """
    init: bool = False
    """Whether the engine puts an init process in front, which reaps what others leave."""


class HardenedContainer(ComponentResource):
    """No capabilities, no new privileges, read-only root, bounded, nothing published; watched.

    ContainerGeneration stands before the container and replaces it when it was damaged beyond
    repair; ContainerPosture stands behind it, compares, and repairs what can be repaired live.
    """

    def __init__(
        self, name: str, args: HardenedContainerArgs, opts: ResourceOptions | None = None
    ) -> None:
        super().__init__("abox:container:HardenedContainer", name, {}, opts)
        generation = ContainerGeneration(
            f"{name}-generation",
            sandbox=args.sandbox,
            role=args.role,
            opts=ResourceOptions(parent=self, depends_on=args.after),
        )
        container = docker.Container(
            name,
            image=args.image,
            command=args.command,
            user=args.user,
            working_dir=args.working_dir,
            hostname=args.hostname,
            envs=_env_lines(args.env),
            labels=[
                docker.ContainerLabelArgs(label=LABEL_GENERATION, value=generation.generation),
                docker.ContainerLabelArgs(label=LABEL_ROLE, value=args.role),
                docker.ContainerLabelArgs(label=LABEL_SANDBOX, value=args.sandbox),
            ],
            volumes=[_volume(mount) for mount in args.mounts],
            tmpfs=args.tmpfs or None,
            network_mode=args.joined and Output.concat("container:", args.joined),
            networks_advanced=[
                docker.ContainerNetworksAdvancedArgs(
                    name=leg.network,
                    ipv4_address=leg.address,
                    ipv6_address=leg.address_v6 or None,
                )
                for leg in args.networks
            ]
            or None,
            dns=args.dns or None,
            sysctls=args.sysctls or None,
            group_adds=args.group_adds or None,
            init=args.init or None,
            memory=args.memory_mb,
            memory_swap=args.memory_mb,  # equal, or every preview shows a difference
            cpus=None if args.cpus is None else str(args.cpus),  # "2.0": what is read back
            restart=args.restart,
            capabilities=docker.ContainerCapabilitiesArgs(drops=["ALL"]),
            security_opts=SECURITY_OPTIONS,
            read_only=True,
            privileged=False,
            log_driver="json-file",
            log_opts=LOG_LIMITS,
            must_run=True,
            destroy_grace_seconds=1,
            opts=ResourceOptions(
                parent=self,
                depends_on=args.after,
                delete_before_replace=True,
                replace_on_changes=NOT_APPLIED_LIVE,
            ),
        )
        posture = ContainerPosture(
            f"{name}-posture",
            sandbox=args.sandbox,
            role=args.role,
            container=container.id,
            expected=ExpectedContainer(
                image=args.image,
                command=args.command,
                networks=args.networks,
                joined=args.joined or "",
                env=_env_lines(args.env),
                mounts=args.mounts,
                tmpfs=args.tmpfs,
                user=args.user or "",
                dns=args.dns,
                sysctls=args.sysctls,
                group_add=args.group_adds,
                security_opts=SECURITY_OPTIONS,
                pids_limit=args.pids_limit,
                memory_mb=args.memory_mb,
                cpus=args.cpus or 0,
                restart=args.restart,
            ),
            opts=ResourceOptions(parent=self),
        )
        self.container_id: Output[str] = container.id
        self.container_name: Output[str] = container.name
        self.findings: Output[list[str]] = posture.findings
        self.register_outputs(
            {"container_id": self.container_id, "container_name": self.container_name}
        )


def _env_lines(env: Mapping[str, Input[str]]) -> list[Input[str]]:
    return [Output.concat(name, "=", value) for name, value in sorted(env.items())]


def _volume(mount: ExpectedMount) -> docker.ContainerVolumeArgs:
    """A named volume or a host path, told apart by the leading slash."""
    if isinstance(mount.source, str) and mount.source.startswith("/"):
        return docker.ContainerVolumeArgs(
            host_path=mount.source, container_path=mount.target, read_only=mount.read_only
        )
    return docker.ContainerVolumeArgs(
        volume_name=mount.source, container_path=mount.target, read_only=mount.read_only
    )
