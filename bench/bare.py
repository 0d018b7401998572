"""The comparison: the same five containers by a script, without everything that watches them."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator

from abox.pod import (
    VOLUMES,
    PodContainer,
    control_container,
    dns_container,
    pause_container,
    proxy_container,
)
from tests import host

NAME = "abxb-bare"
SUBNET, GATEWAY, AGENT = "10.10.254.0/24", "10.10.254.2", "10.10.254.10"
EGRESS_SUBNET, EGRESS_GATEWAY = "10.11.254.0/24", "10.11.254.2"
PROXY_PORT = 8080

ENVOY = "admin: {address: {pipe: {path: /tmp/admin.sock}}}"
UNBOUND = "server:\\n directory: /tmp\\n chroot: ''\\n username: ''\\n interface: 127.0.0.1@5353\\n"


def image_ids() -> dict[str, str]:
    """The images that the program uses, by name."""
    lock = json.loads((host.ROOT / ".abox" / "images.lock.json").read_text())
    return {name: str(one["id"]) for name, one in lock.items()}


def start() -> None:
    """Two networks and five containers, one `docker run` after the other."""
    images = image_ids()
    network("create", "--internal", "--subnet", SUBNET, f"{NAME}-net")
    network("create", "--subnet", EGRESS_SUBNET, f"{NAME}-egress")
    pause = ["--network", f"{NAME}-net", "--ip", GATEWAY]
    run_container(pause_container(), images["gateway"], pause)
    network("connect", "--ip", EGRESS_GATEWAY, f"{NAME}-egress", f"{NAME}-pause")
    joined = ["--network", f"container:{NAME}-pause"]
    for volume, options in VOLUMES.items():
        opts = [f"--opt={key}={value}" for key, value in options.items()]
        docker("volume", "create", *opts, f"{NAME}-{volume}")
    run_container(dns_container(GATEWAY), images["gateway"], joined)
    run_container(proxy_container(GATEWAY, PROXY_PORT, NAME), images["gateway"], joined)
    run_container(control_container(GATEWAY, PROXY_PORT, NAME), images["gateway"], joined)
    docker(
        "run", "--detach", "--name", f"{NAME}-agent", *HARDENED, "--memory", "2g",
        "--network", f"{NAME}-net", "--ip", AGENT, images["agent"], "sleep", "infinity",
    )  # fmt: skip


HARDENED = ["--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--read-only"]


def run_container(shape: PodContainer, image: str, network_options: list[str]) -> None:
    """Run one container of the pod."""
    options = [*HARDENED, "--user", shape.user, "--memory", f"{shape.memory_mb}m"]
    options += ["--pids-limit", str(shape.pids_limit), *network_options]
    for key, value in shape.env.items():
        options += ["--env", f"{key}={value}"]
    for mount in shape.mounts:
        flag = ":ro" if mount.read_only else ""
        options += ["--volume", f"{NAME}-{mount.volume}:{mount.target}{flag}"]
    for target, flags in shape.tmpfs.items():
        options += ["--tmpfs", f"{target}:{flags}"]
    for key, value in shape.sysctls.items():
        options += ["--sysctl", f"{key}={value}"]
    docker(
        "run", "--detach", "--name", f"{NAME}-{shape.role}", *options, image, *shape.command
    )  # fmt: skip


def stop() -> None:
    """Take everything of `start` and `servers` away; no error if there is nothing."""
    containers = docker("ps", "-aq", "--filter", f"name=^{NAME}-").split()
    if containers:
        docker("rm", "--force", "--volumes", *containers)
    for kind in ("network", "volume"):
        names = docker(kind, "ls", "-q", "--filter", f"name={NAME}-").split()
        if names:
            docker(kind, "rm", *names)


@contextlib.contextmanager
def servers() -> Iterator[list[str]]:
    """A bare Envoy and a bare Unbound from the same image; their container ids."""
    image = image_ids()["gateway"]
    script = f'printf "{UNBOUND}" > /tmp/u && exec unbound -d -c /tmp/u'
    commands = {
        "envoy": ["envoy", "--config-yaml", ENVOY, "--concurrency", "2", "--log-level", "error"],
        "unbound": ["sh", "-c", script],
    }
    options = [*HARDENED, "--tmpfs", "/tmp", "--user", "10003:10003"]  # noqa: S108  a mount
    try:
        yield [
            docker("run", "--detach", "--name", f"{NAME}-{role}", *options, image, *command).strip()
            for role, command in commands.items()
        ]
    finally:
        stop()


def docker(*words: str) -> str:
    """Standard output of a `docker` command."""
    return host.run(["docker", *words], timeout_s=120).stdout


def network(*words: str) -> None:
    """A `docker network` command."""
    docker("network", *words)
