"""Which folders of the host may be shared with an agent: pure path logic, no look at the disk."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence

from abox.host_state import STATE_DIR
from abox.refusals import RefusedError

CLOSED = (
    "/bin",
    "/boot",
    "/dev",
    "/etc",
    "/lib",
    "/lib32",
    "/lib64",
    "/proc",
    "/run",
    "/sbin",
    "/sys",
    "/usr",
    STATE_DIR,
    "/var/lib/containerd",
    "/var/lib/docker",
    "/var/lib/libvirt",
    "/var/run",
)
"""Never shared: nor what is below (keys, sockets, devices), nor what is above."""

HOMES = "/home"
"""Holds one home directory for each user; a project below one may be shared, a whole one not."""

ROOT_HOME = "/root"

SHARED_FOLDERS = ("/tmp", "/var/tmp")  # noqa: S108 - refused here, not used
"""Hold sockets and files of every program; a folder below may be shared, the whole not."""

CLOSED_TARGETS = (
    "/bin",
    "/boot",
    "/dev",
    "/etc",
    "/lib",
    "/lib64",
    "/proc",
    "/root",
    "/run",
    "/sbin",
    "/sys",
    "/usr",
    "/var/run",
)
"""Places in the agent that a mount may not cover: the trust store, the tools, the kernel's view."""

_TARGET_REMEDY = "mount below /workspace, /home/agent, /mnt or a top-level folder of your own"


def check_source(path: str) -> str:
    """A folder of the host that may be shared, in its normal form.

    Raises: RefusedError if it is, holds or lies in something that gives the host away.
    """
    normal = _normalise(path)
    if closed := _touches(normal, CLOSED):
        raise RefusedError(
            f"it would share {closed} of the host, which holds its keys, sockets or devices",
            "share one project folder, for example /srv/project",
        )
    if _holds(normal, (HOMES, ROOT_HOME)) or posixpath.dirname(normal) == HOMES:
        raise RefusedError(
            "it would share a whole home directory, with its keys and logins",
            "share one project folder below it",
        )
    if hidden := _hidden_below_home(normal):
        raise RefusedError(
            f"it lies in {hidden!r} of a home directory, where programs keep keys and logins",
            "share a folder whose name doesn't begin with a dot",
        )
    if normal in SHARED_FOLDERS:
        raise RefusedError(
            "it holds files and sockets of every program", "share one folder below it"
        )
    return normal


def check_target(path: str) -> str:
    """A place in the agent where a mount may appear, in its normal form.

    Raises: RefusedError if it would cover what the sandbox relies on.
    """
    normal = _normalise(path)
    if closed := _touches(normal, CLOSED_TARGETS):
        raise RefusedError(f"it would cover {closed} of the agent", _TARGET_REMEDY)
    return normal


def _normalise(path: str) -> str:
    if not path.startswith("/") or not path.isprintable() or ":" in path:
        raise RefusedError(
            "a path is absolute and holds no ':' and no control characters",
            "write for example /srv/project",
        )
    if ".." in path.split("/"):
        raise RefusedError(
            "'..' means something else where a part of the path is a symbolic link",
            "write the path without '..'",
        )
    return posixpath.normpath("/" + path.lstrip("/"))


def _touches(path: str, closed: Sequence[str]) -> str | None:
    """The closed path that equals, lies in or holds the path."""
    return next((c for c in closed if _within(path, c) or _within(c, path)), None)


def _holds(path: str, places: Sequence[str]) -> bool:
    return any(_within(place, path) for place in places)


def _within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _hidden_below_home(path: str) -> str | None:
    """The first hidden folder on the way from a home directory to the path."""
    if _within(path, ROOT_HOME):
        parts = path.split("/")[2:]
    elif _within(path, HOMES):
        parts = path.split("/")[3:]
    else:
        return None
    return next((part for part in parts if part.startswith(".")), None)
