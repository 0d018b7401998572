"""The gateway pod's description, where its containers must fit one another."""

from __future__ import annotations

from pathlib import PurePosixPath

import pytest

from abox import pod

GATEWAY = "198.51.100.2"
LATER = (
    pod.control_container(GATEWAY, 3128, "project-a"),
    pod.dns_container(GATEWAY),
    pod.proxy_container(GATEWAY, 3128, "project-a"),
)
"""Made at once, after pause."""


def test_some_volume_starts_with_folders() -> None:
    """The control of the next test: without such a volume it would compare nothing."""
    assert "run" in _shared_volumes_with_folders()


@pytest.mark.parametrize("ipv6", [False, True])
def test_a_shared_volume_with_folders_is_filled_before_its_users_are_made(ipv6: bool) -> None:
    """The engine fails when two containers, made at once, both find it empty and fill it."""
    filled = {mount.volume for mount in pod.pause_container(ipv6=ipv6).mounts}
    assert _shared_volumes_with_folders() == filled


def test_pause_can_write_to_no_volume() -> None:
    """It mounts one for its folders alone."""
    assert all(mount.read_only for mount in pod.pause_container().mounts)


def _shared_volumes_with_folders() -> set[str]:
    """Volumes of several containers whose place in the image isn't empty."""
    users: dict[str, list[str]] = {}
    for container in LATER:
        for mount in container.mounts:
            if any(PurePosixPath(mount.target) in _above(f) for f in pod.IMAGE_FOLDERS):
                users.setdefault(mount.volume, []).append(container.role)
    return {volume for volume, roles in users.items() if len(roles) > 1}


def _above(folder: pod.ImageFolder) -> set[PurePosixPath]:
    return set(PurePosixPath(folder.path).parents)
