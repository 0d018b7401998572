"""Fixtures that tests of several folders share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests.cases.sandbox import Sandbox
from tests.stacks import Project
from tests.world import World

# Time says something about the machine, not about the code: speed is measured in bench/.
settings.register_profile("abox", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("abox")


@pytest.fixture(scope="session")
def session_world() -> Iterator[World]:
    """One upstream world for the whole session; `world` hands it out empty."""
    with World() as world:
        yield world
        assert world.escaped() == 0, f"packets of tests would have left: {world.escapees()}"


@pytest.fixture
def world(session_world: World) -> World:
    """The upstream world, without names, origins or memories."""
    session_world.reset()
    return session_world


@pytest.fixture(scope="session")
def session_sandbox(
    session_world: World, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Sandbox]:
    """One stack of the session, made by the project's program with Pulumi."""
    with Project() as project:
        name = session_world.run.stack("s")
        sandbox = Sandbox(session_world, project, name, tmp_path_factory.mktemp("sandbox"))
        try:
            sandbox.up({"allow": ["allowed.test"]})
            yield sandbox
        finally:
            sandbox.down()


@pytest.fixture
def sandbox_up(session_sandbox: Sandbox, world: World) -> Sandbox:
    """A sandbox that stands, with ``allowed.test`` at 198.51.100.10 on its list and empty caches.

    Tests change its policy with ``sandbox_up.apply(settings)``.
    """
    world.dns.set({"allowed.test": ["198.51.100.10"], "evil.test": ["198.51.100.66"]})
    session_sandbox.apply({"allow": ["allowed.test"], "allow_private_cidrs": ["198.51.100.0/24"]})
    return session_sandbox
