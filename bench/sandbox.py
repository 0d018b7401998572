"""The measured sandboxes: stacks of their own, with a state of their own."""

from __future__ import annotations

import copy
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from tests import host
from tests.cases.seat import VmSeat
from tests.stacks import Project, Stack

NAME = "abxb-bench"
PROBE = "abox-bench.example.com"
"""Name that is allowed and denied again; its requests are never sent on (CONNECT is answered)."""

SETTINGS: dict[str, Any] = {
    "backend": "container",
    "mode": "active",
    "allow": ["example.com", "*.example.org", {"host": "api.example.net", "ports": [443]}],
    "upstream_dns": ["198.51.100.53"],
    "agent": {"cpus": 1, "memory_mb": 512, "pids_limit": 256},
}

VM_SETTINGS: dict[str, Any] = {
    key: value for key, value in SETTINGS.items() if key not in ("backend", "agent")
} | {"backend": "vm", "vm": {"cpus": 2, "memory_mb": 1024, "disk_gb": 5}}

AS_USERS = {"PYTHONDONTWRITEBYTECODE": ""}
"""Modules are compiled once, as on a user's machine."""

SSH_S = 300
"""Seconds that a booting machine is waited for."""

CONNECT_PROBE = """
import os, socket, sys, time
name, wanted = sys.argv[1], sys.argv[2]
address, port = os.environ["HTTP_PROXY"].removeprefix("http://").split(":")
end = time.monotonic() + 60
while time.monotonic() < end:
    with socket.create_connection((address, int(port)), 5) as one:
        one.sendall(f"CONNECT {name}:443 HTTP/1.1\\r\\nHost: {name}:443\\r\\n\\r\\n".encode())
        if one.recv(64).split()[1:2] == [wanted.encode()]:
            print(time.time())
            sys.exit(0)
    time.sleep(0.05)
sys.exit(1)
"""


class Sandbox:
    """A stack whose agent is a container, and what is asked of it."""

    settings = SETTINGS

    def __init__(self, stack: Stack) -> None:
        self._stack = stack

    def configure(self, *allow: str) -> None:
        """Write the settings, with more names allowed."""
        settings = copy.deepcopy(self.settings)
        settings["allow"] += allow
        self._stack.configure(settings)

    def up(self) -> None:
        """Bring it to what the settings say."""
        self._stack.up()

    def destroy(self) -> None:
        """Take it away."""
        self._stack.destroy()

    def drift_check(self) -> None:
        """Compare with the host.

        Raises:
            RuntimeError: there is drift, so what was measured is something else.
        """
        if self._stack.drifted():
            raise RuntimeError(f"{NAME} drifted while it was measured")

    def containers(self) -> dict[str, str]:
        """Full container ids by role."""
        listed = host.run(
            ["docker", "ps", "--no-trunc", "--filter", f"label=abox.sandbox={NAME}",
             "--format", '{{.Label "abox.role"}} {{.ID}}'],
        ).stdout  # fmt: skip
        return dict(line.split() for line in listed.splitlines())

    def first_answer(self) -> None:
        """Wait until a request of the agent is answered: the health name through the proxy."""
        self._ask("healthcheck.abox.local", "200")

    def wait_for(self, name: str, status: int) -> float:
        """When (seconds since the epoch) CONNECT to a name is first answered with a status."""
        return float(self._ask(name, str(status)))

    def _ask(self, name: str, status: str) -> str:
        """Run the probe in the agent."""
        probe = self._inside(["python3", "-c", CONNECT_PROBE, name, status])
        return host.run(probe, timeout_s=90).stdout.strip()

    def _inside(self, args: list[str]) -> list[str]:
        """The command line for a program as the agent."""
        return ["docker", "exec", self.containers()["agent"], *args]


class Machine(Sandbox):
    """The same with a VM as the agent."""

    settings = VM_SETTINGS

    def start_bare(self) -> None:
        """Power it off, start it by libvirt alone, and wait until its ssh answers."""
        domain = str(self._stack.outputs()["domain"])
        for command in ("destroy", "start"):
            host.run(["virsh", "-q", "-c", "qemu:///system", command, domain], timeout_s=120)
        end = time.monotonic() + SSH_S
        while host.run(self._inside(["true"]), check=False, timeout_s=60).code:
            if time.monotonic() > end:
                raise RuntimeError(f"{NAME} doesn't answer after {SSH_S} s")
            time.sleep(0.2)

    def _inside(self, args: list[str]) -> list[str]:
        return VmSeat(NAME).inside(args)


@contextmanager
def empty_stack() -> Iterator[Stack]:
    """A stack of a program that makes nothing: what Pulumi itself takes on this machine."""
    with tempfile.TemporaryDirectory(prefix="abxb-empty-") as folder:
        Path(folder, "__main__.py").write_text("import pulumi\n")
        with Project(program=Path(folder)) as project:
            project.extra.update(AS_USERS)
            stack = Stack(project, f"{NAME}-empty")
            try:
                stack.configure({})
                stack.up()
                yield stack
            finally:
                stack.remove()


Kind = TypeVar("Kind", bound=Sandbox)


@contextmanager
def stack_of(kind: type[Kind]) -> Iterator[Kind]:
    """The stack, not yet up; taken away at the end, whatever happens."""
    with Project() as project:
        project.extra.update(AS_USERS)
        stack = Stack(project, NAME)
        try:
            yield kind(stack)
        finally:
            stack.remove()
