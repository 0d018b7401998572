"""Containers of sandboxes on this host, found by their labels and nothing else."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from abox.errors import HostError
from abox.naming import LABEL_ROLE, LABEL_SANDBOX, Role
from cli import host
from cli.checkout import Checkout, unknown_stack


@dataclass(frozen=True)
class Container:
    """One container of a sandbox, as the engine shows it."""

    id: str
    name: str
    sandbox: str
    role: str
    state: str
    """The engine's word: running, exited, paused, …"""
    image: str
    """Id of its image."""
    user: str
    addresses: Mapping[str, str]
    """Name of a network to the container's IPv4 address there; empty for a joined container."""
    environment: Mapping[str, str]
    """Variables that it was started with."""
    pid: int
    """Process id of its first process on the host; 0 if it doesn't run."""

    @property
    def running(self) -> bool:
        """Whether commands can run in it."""
        return self.state == "running"


def docker(*arguments: str, timeout_s: float = 30.0) -> str:
    """Standard output of a `docker` command.

    Raises:
        HostError: the engine doesn't answer, or refuses.
    """
    done = host.run(["docker", *arguments], timeout_s=timeout_s)
    if done.code != 0:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        raise HostError(
            what=f"docker {arguments[0]} failed",
            why=lines[0] if lines else f"exit code {done.code}",
            remedy="see that the engine runs (`make engine`) and that you may use it; "
            "`abox doctor` tells what is missing",
        )
    return done.stdout


def list_containers() -> list[Container]:
    """All containers of all sandboxes on this host, running or not, sorted."""
    ids = docker("ps", "--all", "--quiet", "--no-trunc", "--filter", f"label={LABEL_SANDBOX}")
    if not ids.split():
        return []
    done = host.run(["docker", "inspect", *ids.split()])
    # One that vanishes between the two calls makes inspect fail for itself alone.
    return sorted(parse_inspect(done.stdout), key=lambda one: (one.sandbox, one.role, one.name))


def parse_inspect(text: str) -> list[Container]:
    """Containers in the output of `docker inspect`; those without our labels are left out."""
    documents = json.loads(text or "[]")
    return [
        _container(document)
        for document in documents
        if (document["Config"].get("Labels") or {}).get(LABEL_SANDBOX)
    ]


def _container(document: Mapping[str, Any]) -> Container:
    """One container out of the engine's description."""
    labels = document["Config"]["Labels"]
    networks = document["NetworkSettings"].get("Networks") or {}
    return Container(
        id=document["Id"],
        name=document["Name"].removeprefix("/"),
        sandbox=labels[LABEL_SANDBOX],
        role=labels.get(LABEL_ROLE, ""),
        state=document["State"]["Status"],
        image=document["Image"],
        user=document["Config"].get("User") or "",
        addresses={
            name: one["IPAddress"] for name, one in networks.items() if one.get("IPAddress")
        },
        environment=dict(
            one.partition("=")[::2] for one in document["Config"].get("Env") or [] if "=" in one
        ),
        pid=document["State"].get("Pid") or 0,
    )


def of_role(containers: Iterable[Container], sandbox: str, role: Role) -> Container:
    """The sandbox's container with this role; a running one comes first.

    Raises:
        HostError: there is none.
    """
    found = [one for one in containers if one.sandbox == sandbox and one.role == role]
    if not found:
        raise HostError(
            what=f"sandbox {sandbox} has no {role} container on this host",
            why="it is not up, or its container was removed",
            remedy=f"run `pulumi up -s {sandbox}`",
        )
    return sorted(found, key=lambda one: not one.running)[0]


def running_of_role(containers: Iterable[Container], sandbox: str, role: Role) -> Container:
    """As `of_role`, and the container runs.

    Raises:
        HostError: there is none, or it doesn't run.
    """
    found = of_role(containers, sandbox, role)
    if not found.running:
        raise HostError(
            what=f"the {role} container of sandbox {sandbox} does not run (it is {found.state})",
            why="it was stopped, it ended by itself, or the host was restarted",
            remedy=f"run `pulumi up -s {sandbox}`, which puts its firewall up first",
        )
    return found


def check_known(checkout: Checkout, stack: str, containers: Iterable[Container] = ()) -> None:
    """Accept only the name of a stack of this checkout or of a sandbox on this host.

    Raises:
        SettingsError: it is neither; the message lists the known names.
    """
    known = {*checkout.stacks(), *(one.sandbox for one in containers)}
    if stack not in known:
        raise unknown_stack(stack, known)
