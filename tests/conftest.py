"""Fixtures that tests of several folders share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.world import World


@pytest.fixture(scope="session")
def session_world() -> Iterator[World]:
    """One upstream world for the whole session; `world` hands it out empty."""
    with World() as world:
        yield world
        assert world.escaped() == 0, "packets of tests would have left the machine"


@pytest.fixture
def world(session_world: World) -> World:
    """The upstream world, without names, origins or memories."""
    session_world.reset()
    return session_world
