"""Whole stacks: one that stands for the folder's tests, more where a test breaks or ends them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest

from abox.naming import bridge_name, egress_bridge_name
from abox.settings import CONTAINER
from tests import host
from tests.cases.sandbox import Sandbox
from tests.stacks import Project
from tests.world import World

ALLOWED = "allowed.test"
ORIGIN = "198.51.100.10"
SETTINGS: dict[str, Any] = {
    "allow": [ALLOWED, "*.wild.test"],
    "allow_private_cidrs": ["198.51.100.0/24"],
    "agent": {"memory_mb": 1024, "pids_limit": 256},
}


@pytest.fixture(scope="session")
def project() -> Iterator[Project]:
    """A project folder with a state of its own."""
    with Project() as made:
        yield made


@pytest.fixture(scope="session")
def make_sandbox(
    session_world: World, project: Project, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[..., Sandbox]]:
    """Makes handles of sandboxes by a short suffix; all are taken away at the end."""
    made: list[Sandbox] = []

    def make(suffix: str, backend: str = CONTAINER) -> Sandbox:
        name = session_world.run.stack(suffix)
        # Before anything of it stands, however a test brings it up.
        session_world.join(bridge_name(name), egress_bridge_name(name))
        logs = tmp_path_factory.mktemp(name)
        made.append(Sandbox(session_world, project, name, logs, backend=backend))
        return made[-1]

    yield make
    for sandbox in made:
        sandbox.down()


@pytest.fixture(scope="session")
def standing(make_sandbox: Callable[[str], Sandbox]) -> Sandbox:
    """A sandbox that was brought up once; tests leave it as they found it."""
    sandbox = make_sandbox("s")
    sandbox.up(SETTINGS)
    return sandbox


@pytest.fixture
def sandbox_up(standing: Sandbox, world: World) -> Sandbox:
    """The standing sandbox in an upstream world with one allowed and one denied origin."""
    furnish(world)
    world.watch_pod(standing.pid("pause"))
    return standing


def furnish(world: World) -> None:
    """Names and origins that most tests need: one allowed, one not."""
    world.dns.set({ALLOWED: [ORIGIN], "a.wild.test": ["198.51.100.20"], "evil.test": [EVIL]})
    for address in (ORIGIN, "198.51.100.20", EVIL):
        world.origin(at=f"{address}:80", speaks="http")
        world.origin(at=f"{address}:443", speaks="https")


EVIL = "198.51.100.66"


def fetch_status(sandbox: Sandbox, url: str) -> str:
    """Status that curl in the agent gets for a URL, without any setting; 000 is none."""
    done = sandbox.exec(["curl", "-sS", "-o", "/dev/null", "-w", "%{http_code}", "-m", "15", url])
    return done.stdout


def started(sandbox: Sandbox) -> str:
    """When each container of the sandbox started."""
    names = [sandbox.facts.container(role) for role in ("pause", "dns", "proxy", "control")]
    names.append(sandbox.facts.agent_container)
    command = ["docker", "inspect", "-f", "{{.Id}} {{.State.StartedAt}} {{.RestartCount}}"]
    return host.run([*command, *names]).stdout


@pytest.fixture
def abox(sandbox_up: Sandbox, project: Project) -> Iterator[Abox]:
    """The command, working on the tests' own project; the settings are put back afterwards."""
    command = Abox(project, sandbox_up)
    before = command.settings.read_text()
    yield command
    if command.settings.read_text() != before:
        command.settings.write_text(before)
        project.pulumi("up", "--yes", "--skip-preview", "--stack", sandbox_up.name)


class Named(Protocol):
    """Whatever has the name of a stack."""

    name: str


class Abox:
    """Runs `abox` with the variables of the tests' project."""

    def __init__(self, project: Project, sandbox: Named) -> None:
        self.name = sandbox.name
        self.settings = project.path / "stacks" / f"Pulumi.{sandbox.name}.yaml"
        self._environment = {
            **project.environment,
            "ABOX_ROOT": str(project.path),
            "PYTHONPATH": str(host.ROOT),
        }

    def __call__(self, *words: str, text: str = "", timeout_s: float = 180) -> host.Completed:
        """Run one command to its end, whatever its exit code."""
        return host.run(
            [sys.executable, "-m", "cli", *words],
            env=self._environment, check=False, timeout_s=timeout_s, text=text,
        )  # fmt: skip

    def start(self, *words: str, log: Path) -> host.Process[bytes]:
        """Start one command; its errors go to a file."""
        command = [sys.executable, "-m", "cli", *words]
        return host.spawn(command, env=self._environment, stderr_path=log)

    def containers(self) -> dict[str, str]:
        """Start time of each container of the sandbox, by id."""
        ids = host.run(
            ["docker", "ps", "-aq", "--no-trunc", "--filter", f"label=abox.sandbox={self.name}"]
        ).stdout.split()
        started = ["docker", "inspect", "--format", "{{.Id}} {{.State.StartedAt}}", *ids]
        return dict(line.split() for line in host.run(started).stdout.splitlines())

    def status_of(self, name: str) -> str:
        """What the agent gets for a name: the status of the proxy or of the origin."""
        words = ["curl", "-sS", "-o", "/dev/null", "-w", "%{http_code}", f"http://{name}/"]
        return self("exec", self.name, "--", *words).stdout
