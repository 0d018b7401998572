"""The images, built if they are not there, and containers of them as a sandbox runs them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from images.build import build
from images.lock import Locked
from tests import host

Run = Callable[..., host.Completed]

HARDENED = (
    *("--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges"),
    *("--network", "none", "--tmpfs", "/tmp:exec,mode=1777"),  # noqa: S108 - of a container
)
"""How a sandbox runs its containers, without a network: these tests need none."""


@pytest.fixture(scope="session")
def images() -> dict[str, Locked]:
    """Every image, by name."""
    return build([])


def run_in(
    image: str,
    script: str,
    *,
    options: Sequence[str] = (),
    check: bool = True,
    timeout_s: float = 120,
) -> host.Completed:
    """Run a shell script in a hardened container, which is gone afterwards, volumes included."""
    command = ["docker", "run", "--rm", "-i", *HARDENED, *options, image, "bash", "-s"]
    return host.run(command, text=f"set -eu\n{script}\n", check=check, timeout_s=timeout_s)


@pytest.fixture(scope="session")
def agent(images: dict[str, Locked]) -> Run:
    """Runs a script in the agent's image with a new home and workspace."""
    volumes = ["-v", "/home/agent", "-v", "/workspace"]

    def run(script: str, *, options: Sequence[str] = (), check: bool = True) -> host.Completed:
        return run_in(images["agent"].id, script, options=[*volumes, *options], check=check)

    return run


@pytest.fixture(scope="session")
def gateway(images: dict[str, Locked]) -> Run:
    """Runs a script in the gateway's image, as one of its users."""

    def run(
        script: str, *, user: int = 10001, options: Sequence[str] = (), check: bool = True
    ) -> host.Completed:
        identity = ["--user", f"{user}:{user}"]
        return run_in(images["gateway"].id, script, options=[*identity, *options], check=check)

    return run
