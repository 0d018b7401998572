"""What the stand-ins' tests share: an image, names of their own, and a clean engine."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests import host
from tests.busybox_image import busybox_image

PREFIX = "abxtw-"
"""Every name that these tests make on the host starts so."""


@pytest.fixture(scope="session")
def image() -> str:
    """Id of an image with BusyBox."""
    return busybox_image()


@pytest.fixture
def engine() -> Iterator[None]:
    """The engine without anything of these tests, before and after."""
    sweep()
    yield
    sweep()


def sweep() -> None:
    """Remove containers, networks and volumes of these tests."""
    listing = {
        "container": ["docker", "ps", "-aq", "--filter", f"name={PREFIX}"],
        "network": ["docker", "network", "ls", "-q", "--filter", f"name={PREFIX}"],
        "volume": ["docker", "volume", "ls", "-q", "--filter", f"name={PREFIX}"],
    }
    for kind, command in listing.items():
        for name in host.run(command).stdout.split():
            force = ["-f"] if kind != "network" else []
            host.run(["docker", kind, "rm", *force, name], check=False)
