"""The measured sandbox: a stack of its own, with a state of its own."""

from __future__ import annotations

import copy
import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests import host
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

CONNECT_PROBE = """
import socket, sys, time
address, port, name, wanted = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
end = time.monotonic() + 60
while time.monotonic() < end:
    with socket.create_connection((address, port), 5) as one:
        one.sendall(f"CONNECT {name}:443 HTTP/1.1\\r\\nHost: {name}:443\\r\\n\\r\\n".encode())
        if one.recv(64).split()[1:2] == [wanted.encode()]:
            print(time.time())
            sys.exit(0)
    time.sleep(0.05)
sys.exit(1)
"""


class Sandbox:
    """The stack and what is asked of it."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack

    def configure(self, *allow: str) -> None:
        """Write the settings, with more names allowed."""
        settings = copy.deepcopy(SETTINGS)
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
        agent = self.containers()["agent"]
        inspected = json.loads(host.run(["docker", "inspect", agent]).stdout)[0]
        variables = dict(one.split("=", 1) for one in inspected["Config"]["Env"])
        address, port = variables["HTTP_PROXY"].removeprefix("http://").split(":")
        words = ["docker", "exec", agent, "python3", "-c", CONNECT_PROBE]
        return host.run([*words, address, port, name, status], timeout_s=90).stdout.strip()


@contextmanager
def empty_stack() -> Iterator[Stack]:
    """A stack of a program that makes nothing: what Pulumi itself takes on this machine."""
    with tempfile.TemporaryDirectory(prefix="abxb-empty-") as folder:
        Path(folder, "__main__.py").write_text("import pulumi\n")
        with Project(program=Path(folder)) as project:
            stack = Stack(project, f"{NAME}-empty")
            try:
                stack.configure({})
                stack.up()
                yield stack
            finally:
                stack.remove()


@contextmanager
def sandbox() -> Iterator[Sandbox]:
    """The stack, not yet up; taken away at the end, whatever happens."""
    with Project() as project:
        stack = Stack(project, NAME)
        try:
            yield Sandbox(stack)
        finally:
            stack.remove()
