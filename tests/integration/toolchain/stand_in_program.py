"""A small Pulumi program for the stand-ins' tests; it is run by Pulumi, not imported."""

from __future__ import annotations

import pulumi
import pulumi_command as command
import pulumi_docker as docker

config = pulumi.Config()
prefix = config.require("prefix")

network = docker.Network(
    f"{prefix}net",
    internal=True,
    options={"com.docker.network.bridge.name": config.require("bridge")},
    ipam_configs=[docker.NetworkIpamConfigArgs(subnet=config.require("subnet"))],
)
volume = docker.Volume(f"{prefix}vol")
image = docker.RemoteImage("image", name=config.require("image"), keep_locally=True)
first = docker.Container(
    f"{prefix}first",
    image=image.image_id,
    command=["sleep", "100000"],
    memory=64,
    memory_swap=64,
    cpus="0.5",
    restart="no",
    must_run=True,
    init=True,
    read_only=True,
    tmpfs={"/scratch": "rw,size=4m"},
    user="1000:1000",
    capabilities=docker.ContainerCapabilitiesArgs(drops=["ALL"]),
    security_opts=["no-new-privileges:true"],
    sysctls={"net.ipv4.ip_unprivileged_port_start": "0"},
    log_driver="json-file",
    log_opts={"max-size": "1m"},
    envs=["B=1", "A=2"],
    labels=[docker.ContainerLabelArgs(label="role", value="first")],
    networks_advanced=[docker.ContainerNetworksAdvancedArgs(name=network.id)],
    mounts=[docker.ContainerMountArgs(target="/data", source=volume.name, type="volume")],
)
joined = docker.Container(
    f"{prefix}joined",
    image=image.image_id,
    command=["sleep", "100000"],
    network_mode=pulumi.Output.concat("container:", first.id),
)
gate = command.local.Command(
    "gate",
    create=pulumi.Output.concat("docker inspect -f '{{.State.Running}}' ", joined.id),
    triggers=[joined.id],
)
pulumi.export("ready", gate.stdout)
pulumi.export("first", first.id)
pulumi.export("secret", pulumi.Output.secret("s3cr3t"))
