"""Which images this checkout built: the lock file that pins them by digest."""

from __future__ import annotations

import json
from pathlib import Path

from abox.errors import HostError

LOCK_FILE = Path(".abox/images.lock.json")
"""Written by ``make images``, relative to the project's folder."""


def read_image_ids(root: Path) -> dict[str, str]:
    """Image ids by role.

    Args:
        root: the project's folder.
    Raises: HostError if the lock file is missing or isn't what the build writes.
    """
    path = root / LOCK_FILE
    remedy = "run 'make images'"
    try:
        locked = json.loads(path.read_text())
        return {role: locked[role]["id"] for role in ("gateway", "agent")}
    except FileNotFoundError:
        raise HostError(
            what=f"{LOCK_FILE} is missing", why="no images were built here", remedy=remedy
        ) from None
    except (KeyError, TypeError, ValueError) as error:
        raise HostError(
            what=f"{LOCK_FILE} can't be read",
            why=f"it isn't a lock of images: {error}",
            remedy=remedy,
        ) from error
