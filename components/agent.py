"""The agent as a hardened container on the host-only bridge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulumi_command as command
import pulumi_docker as docker
from pulumi import ComponentResource, Input, Output, Resource, ResourceOptions

from abox.agent_environment import RESERVED, TRUST_DIR, agent_environment
from abox.naming import Role
from abox.pod import AGENT_HOME, AGENT_ID, AGENT_WORKSPACE
from abox.settings import AgentSettings
from components.container import HardenedContainer, HardenedContainerArgs
from components.host import ExpectedMount, ExpectedNetwork
from components.volumes import make_volume

TMPFS = {
    "/tmp": "rw,nosuid,nodev,exec,size=1g,mode=1777",  # noqa: S108  # a mount point
    "/run": "rw,nosuid,nodev,size=16m,mode=1777",
}
KEEP_RUNNING = ("sleep", "infinity")
"""What an agent without a command of its own does: wait for ``abox exec`` and ``abox shell``."""
USER = f"{AGENT_ID}:{AGENT_ID}"
"""The image's user ``agent``; a user's own image runs under the same ids unless it says other."""


@dataclass(frozen=True, kw_only=True)
class AgentArgs:
    """What an Agent is made of."""

    sandbox: str
    """Name of the sandbox."""
    image: Input[str]
    """Id of the image."""
    seed_image: str
    """Id of the gateway image, whose empty folders give a new volume the agent as its owner."""
    settings: AgentSettings
    """The stack's ``agent`` settings."""
    network: Input[str]
    """Id of the host-only network: the only one."""
    address: Input[str]
    """The agent's address there."""
    gateway: Input[str]
    """Address of the gateway pod: the only resolver."""
    proxy_url: Input[str]
    """The forward proxy."""
    trust_volume: Input[str]
    """Volume with the public roots and the sandbox's authority."""
    cleanup: Resource
    """Stands before each volume, and until it has gone."""
    after: Sequence[Resource]
    """All that confines the agent: it stands before the agent runs, and until it has gone."""


class Agent(ComponentResource):
    """Home and workspace are volumes and outlive the container; all else is read-only.

    It has no restart policy: after a reboot nothing of it runs until ``pulumi up`` has put the
    firewall back.
    """

    def __init__(self, name: str, args: AgentArgs, opts: ResourceOptions | None = None) -> None:
        super().__init__("abox:agent:Agent", name, {}, opts)
        settings = args.settings
        env: dict[str, Input[str]] = {
            variable: _pick(args.proxy_url, variable) for variable in sorted(RESERVED)
        }
        env.update({"HOME": AGENT_HOME, **settings.env})
        volumes = {AGENT_HOME: self._volume(name, "home", args)}
        if not settings.workspace:
            volumes[AGENT_WORKSPACE] = self._volume(name, "workspace", args)
        sources: dict[str, Input[str]] = {at: volume.name for at, volume in volumes.items()}
        after = [*args.after, *volumes.values()]
        if settings.image:
            after.append(_seed(f"{name}-seed", args.seed_image, sources, self))
        container = HardenedContainer(
            name,
            HardenedContainerArgs(
                sandbox=args.sandbox,
                role=Role.AGENT,
                image=args.image,
                command=settings.command or KEEP_RUNNING,
                user=settings.user or USER,
                hostname=args.sandbox.replace("_", "-"),
                # In an image without the folder the engine would make it, owned by root, and hand
                # that owner to the empty volume that is mounted there.
                working_dir="/" if settings.image else AGENT_WORKSPACE,
                env=env,
                mounts=[
                    ExpectedMount(source=sources[AGENT_HOME], target=AGENT_HOME),
                    ExpectedMount(
                        source=sources.get(AGENT_WORKSPACE, settings.workspace),
                        target=AGENT_WORKSPACE,
                    ),
                    ExpectedMount(source=args.trust_volume, target=TRUST_DIR, read_only=True),
                    *(
                        ExpectedMount(
                            source=mount.source, target=mount.target, read_only=mount.read_only
                        )
                        for mount in settings.mounts
                    ),
                ],
                tmpfs=TMPFS,
                networks=[ExpectedNetwork(network=args.network, address=args.address)],
                dns=[args.gateway],
                memory_mb=settings.memory_mb,
                pids_limit=settings.pids_limit,
                cpus=settings.cpus,
                restart="no",
                init=True,
                after=after,
            ),
            ResourceOptions(parent=self),
        )
        self.container_name: Output[str] = container.container_name
        self.register_outputs({"container_name": self.container_name})

    def _volume(self, name: str, purpose: str, args: AgentArgs) -> docker.Volume:
        return make_volume(
            f"{name}-{purpose}",
            sandbox=args.sandbox,
            purpose=purpose,
            opts=ResourceOptions(parent=self, depends_on=[args.cleanup]),
        )


def _seed(
    name: str, image: str, volumes: Mapping[str, Input[str]], parent: ComponentResource
) -> Resource:
    """Give empty volumes their owner, which a user's own image without these folders can't.

    The engine copies owner and mode of an image's folder to an empty volume that is mounted there.
    """
    mounts = [part for target, volume in volumes.items() for part in (" -v ", volume, f":{target}")]
    hardened = "--network none --read-only --cap-drop ALL --security-opt no-new-privileges:true"
    return command.local.Command(
        name,
        create=Output.concat(f"docker run --rm {hardened}", *mounts, f" {image} true"),
        triggers=list(volumes.values()),
        opts=ResourceOptions(parent=parent),
    )


def _pick(proxy_url: Input[str], variable: str) -> Output[str]:
    return Output.from_input(proxy_url).apply(lambda url: agent_environment(url)[variable])


def agent_image(name: str, wanted: str, built: str, opts: ResourceOptions) -> Input[str]:
    """Id of the agent's image: the one that was built here, or the user's own.

    Args:
        name: Pulumi name, if the image has to be looked for.
        wanted: the user's setting: ``name@sha256:…``, which the engine pulls if it hasn't got it,
            an id, or empty.
        built: id of the image that was built here.
        opts: options of the resource.
    """
    if "@" not in wanted:
        return wanted or built
    return docker.RemoteImage(name, name=wanted, keep_locally=True, opts=opts).image_id
