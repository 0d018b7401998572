"""Whole stacks: one that stands for the folder's tests, more where a test breaks or ends them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from abox.naming import bridge_name, egress_bridge_name
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
) -> Iterator[Callable[[str], Sandbox]]:
    """Makes handles of sandboxes by a short suffix; all are taken away at the end."""
    made: list[Sandbox] = []

    def make(suffix: str) -> Sandbox:
        name = session_world.run.stack(suffix)
        # Before anything of it stands, however a test brings it up.
        session_world.join(bridge_name(name), egress_bridge_name(name))
        made.append(Sandbox(session_world, project, name, tmp_path_factory.mktemp(name)))
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
