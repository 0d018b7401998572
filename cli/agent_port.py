"""The port of a sandbox's bridge that its agent is on, where all that it sends is seen."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from abox.errors import HostError
from abox.naming import Role
from cli import host
from cli.containers import Container, running_of_role
from cli.machines import find_machine

INTERFACES = Path("/sys/class/net")
"""The kernel's list of interfaces, a folder each."""


def port_of_container(stack: str, containers: Iterable[Container], bridge: str) -> str:
    """Name of the interface that leads to the agent's container.

    Raises: HostError if the container doesn't run, or isn't on the bridge.
    """
    agent = running_of_role(containers, stack, Role.AGENT)
    ports = {_index(port.name): port.name for port in (INTERFACES / bridge / "brif").glob("*")}
    for index in _far_ends(agent.pid):
        if index in ports:
            return ports[index]
    raise _not_there(stack, bridge)


def port_of_machine(stack: str, bridge: str) -> str:
    """Name of the tap that leads to the agent's VM.

    Raises: HostError if the machine is off, or isn't on the bridge.
    """
    for tap in find_machine(stack).taps():
        if (INTERFACES / bridge / "brif" / tap).exists():
            return tap
    raise _not_there(stack, bridge)


def _index(interface: str) -> int:
    return int((INTERFACES / interface / "ifindex").read_text())


def _far_ends(pid: int) -> list[int]:
    """Indices of the interfaces at the other ends of a container's cables."""
    # Asked from outside, with the host's own tools: the agent's might say anything.
    enter = ["nsenter", f"--net=/proc/{pid}/ns/net", "--"]
    done = host.run([*enter, "ip", "-json", "link", "show", "type", "veth"])
    if done.code != 0:
        raise HostError(
            what="the agent's interfaces can't be listed",
            why=done.stderr.strip() or f"exit code {done.code}",
            remedy="run it as root",
        )
    return [link["link_index"] for link in json.loads(done.stdout or "[]") if "link_index" in link]


def _not_there(stack: str, bridge: str) -> HostError:
    return HostError(
        what=f"the agent of sandbox {stack} has no port at its bridge {bridge}",
        why="it is switched off, or was taken off its network",
        remedy=f"run `pulumi up -s {stack}`",
    )
