"""From the pure description of a pod's container to the component that stands on the host."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from ipaddress import IPv4Address

import pulumi_docker as docker
from pulumi import Input, Output, Resource

from abox.pod import PodContainer
from components.container import HardenedContainerArgs
from components.host import ExpectedMount, ExpectedNetwork

_ANY_ADDRESS = str(IPv4Address(0))
"""Stands in for the leased address where only what doesn't depend on it is read."""


def pod_container(
    describe: Callable[[str], PodContainer],
    *,
    sandbox: str,
    image: str,
    gateway: Input[str],
    volumes: Mapping[str, docker.Volume],
    folders: Mapping[str, str] | None = None,
    joined: Input[str] | None = None,
    networks: Sequence[ExpectedNetwork] = (),
    after: Sequence[Resource] = (),
) -> HardenedContainerArgs:
    """Arguments of one of the pod's containers.

    Args:
        describe: gives the description for an address of the pod. Only the environment may depend
            on the address, so that all else is known in a first preview and to the policy pack.
        sandbox: name of the sandbox.
        image: id of the gateway image.
        gateway: address of the pod on the host-only bridge; unknown in a first preview.
        volumes: the pod's volumes by their names in the description. They stand before it, and
            until it has gone.
        folders: paths on the host by such names.
        joined: id of the container whose namespace is shared; None for the owner of the namespace.
        networks: networks of the owner, with its addresses.
        after: what must stand before the container runs.
    """
    shape = describe(_ANY_ADDRESS)
    sources: dict[str, Input[str]] = {name: volume.name for name, volume in volumes.items()}
    sources.update(folders or {})
    described = Output.from_input(gateway).apply(lambda address: dict(describe(address).env))
    return HardenedContainerArgs(
        sandbox=sandbox,
        role=shape.role,
        image=image,
        command=shape.command,
        user=shape.user,
        hostname=None if joined else "gateway",
        env={name: _pick(described, name) for name in shape.env},
        mounts=[
            ExpectedMount(
                source=sources[mount.volume], target=mount.target, read_only=mount.read_only
            )
            for mount in shape.mounts
        ],
        tmpfs=shape.tmpfs,
        networks=networks,
        after=[*after, *volumes.values()],
        joined=joined,
        sysctls=shape.sysctls,
        memory_mb=shape.memory_mb,
        pids_limit=shape.pids_limit,
        restart="unless-stopped",
    )


def _pick(env: Output[dict[str, str]], name: str) -> Output[str]:
    return env.apply(lambda got: got[name])
