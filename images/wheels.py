"""Installs hash-locked Python wheels into an image with this machine's pip and its settings."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from images.host import run
from images.tree import own_tree

_GLIBC_OF_BOOKWORM = 36
_GLIBC_OF_MANYLINUX2014 = 17


def install_wheels(site: Path, requirements: Path) -> None:
    """Install what a requirement file locks into a folder, for the image's Python.

    Args:
        site: the folder, a site-packages of the image; belongs to root afterwards.
        requirements: file whose every line names a version and its hashes.
    """
    machine = run(["uname", "-m"]).strip()
    platforms = [f"--platform={tag}" for tag in wheel_platforms(machine)]
    run(
        [
            *(sys.executable, "-m", "pip", "install", "--quiet", "--no-input", "--no-deps"),
            *("--require-hashes", "--only-binary=:all:", "--no-compile"),
            *("--implementation=cp", "--python-version=3.11", *platforms),
            *("--root-user-action=ignore", f"--target={site}", f"--requirement={requirements}"),
        ],
        timeout_s=600,
    )
    shutil.rmtree(site / "bin", ignore_errors=True)  # scripts that name this machine's Python
    own_tree(site, uid=0, gid=0)


def wheel_platforms(machine: str) -> list[str]:
    """Platform tags of the wheels that run on Debian bookworm, most recent first."""
    newer = range(_GLIBC_OF_BOOKWORM, _GLIBC_OF_MANYLINUX2014 - 1, -1)
    return [f"manylinux_2_{minor}_{machine}" for minor in newer] + [f"manylinux2014_{machine}"]
