"""The base image: Debian's essential packages, Python, TLS roots and an init; no apt."""

from __future__ import annotations

from pathlib import Path

from images.recipe import PROJECT, Recipe
from images.tree import compile_python

PYTHON_FOLDERS = ("/usr/lib/python3", "/usr/lib/python3.11")
"""Where Debian's packages keep Python modules."""


def furnish(root: Path) -> None:
    """Compile the standard library."""
    compile_python(root, PYTHON_FOLDERS)


BASE = Recipe(
    name="base",
    variant="essential",
    packages=(
        "ca-certificates",
        "openssl",
        "python3",
        "tini",
    ),
    inputs=(PROJECT / "images/base.py",),
    furnish=furnish,
    config={
        "Cmd": ["/usr/bin/python3"],
        "Env": [
            "LANG=C.UTF-8",
            "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        ],
        "User": "65534:65534",
        "WorkingDir": "/",
    },
)
