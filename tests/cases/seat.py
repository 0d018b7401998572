"""How the tests get into an agent: a container by the engine, a VM by its ssh and as its root."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from ipaddress import IPv4Network, ip_address
from pathlib import Path
from typing import Any, Protocol

from abox.host_state import ssh_config, state_dir
from abox.naming import default_mac
from cli.guests import Guest
from tests import host


class Seat(Protocol):
    """One agent. What runs a program is a command line for the host; nothing is added to it."""

    def inside(self, args: list[str]) -> list[str]:
        """Runs a program as the agent."""

    def strongest(self, args: list[str]) -> list[str]:
        """Runs a program as the most privileged user that the agent can become."""

    def beside(self, args: list[str]) -> list[str]:
        """Runs a program as root in the agent's network: an agent that broke out."""

    def python_beside(self, archive: str, args: list[str]) -> list[str]:
        """Runs a Python archive that lies in the agent, as root in the agent's network."""

    def mac(self) -> str:
        """The agent's hardware address."""


def put(seat: Seat, path: str, content: bytes) -> None:
    """Write a file in the agent."""
    host.pipe(seat.inside(["sh", "-c", f"cat > {path}"]), content, timeout_s=120)


@dataclass(frozen=True)
class ContainerSeat:
    """An agent in a container."""

    container: str
    subnet: IPv4Network

    def inside(self, args: list[str]) -> list[str]:
        """By the engine."""
        return ["docker", "exec", "-i", self.container, *args]

    def strongest(self, args: list[str]) -> list[str]:
        """The agent itself: it has no way to become anybody else."""
        return self.inside(args)

    def beside(self, args: list[str]) -> list[str]:
        """The host's root with the host's programs."""
        return ["nsenter", f"--net=/proc/{self.pid()}/ns/net", "--", *args]

    def python_beside(self, archive: str, args: list[str]) -> list[str]:
        """By the host's Python."""
        return self.beside([sys.executable, f"/proc/{self.pid()}/root{archive}", *args])

    def mac(self) -> str:
        """As the engine says."""
        networks = self._inspect()["NetworkSettings"]["Networks"].values()
        return next(
            str(network["MacAddress"])
            for network in networks
            if network["IPAddress"] and ip_address(network["IPAddress"]) in self.subnet
        )

    def pid(self) -> int:
        """The first process, as the host counts."""
        return int(self._inspect()["State"]["Pid"])

    def _inspect(self) -> dict[str, Any]:
        shown = host.run(["docker", "inspect", self.container]).stdout
        listed: list[dict[str, Any]] = json.loads(shown)
        return listed[0]


@dataclass(frozen=True)
class VmSeat:
    """An agent in a VM, which has one user more: its own root."""

    sandbox: str

    def _guest(self) -> Guest:
        return Guest(self.sandbox, ssh_config(Path(state_dir(os.environ)), self.sandbox))

    def inside(self, args: list[str]) -> list[str]:
        """By the ssh that the packet filter lets in."""
        return self._guest().run(args)

    def strongest(self, args: list[str]) -> list[str]:
        """The guest's root."""
        return self.inside(["sudo", "-n", "-E", *args])

    def beside(self, args: list[str]) -> list[str]:
        """The guest's root: all that is in the guest is the agent's."""
        return self.strongest(args)

    def python_beside(self, archive: str, args: list[str]) -> list[str]:
        """By the guest's Python."""
        return self.beside(["python3", archive, *args])

    def mac(self) -> str:
        """It follows from the sandbox's name."""
        return default_mac(self.sandbox).lower()
