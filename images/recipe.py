"""What an image is made of, and the hash that says whether it has to be made again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from images.apt import SUITE

PROJECT = Path(__file__).resolve().parent.parent
"""The checkout that the images are built from."""

BUILDER = tuple(
    PROJECT / "images" / name for name in ("archive.py", "tree.py", "recipe.py", "debian.py")
)
"""Modules whose change may change the bytes of every image."""

SLIM = (
    "/usr/share/doc/*",
    "/usr/share/info/*",
    "/usr/share/lintian/*",
    "/usr/share/locale/*",
    "/usr/share/man/*",
)
"""Paths that dpkg leaves out. Licences (`copyright` files) stay."""


@dataclass(frozen=True, kw_only=True)
class Overlay:
    """The project's own files: the last and smallest layer of an image."""

    files: Callable[[], Mapping[str, Path]]
    """Path in the image → file of the checkout."""
    write: Callable[[Path, Mapping[str, Path]], None]
    """Lays the files out below a folder."""
    extra: str = ""
    """Whatever else its bytes depend on."""


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """One image."""

    name: str
    variant: str
    """Which set of packages mmdebstrap starts from: `essential` or `minbase`."""
    packages: tuple[str, ...]
    """Debian packages on top of the variant, without recommended ones."""
    inputs: tuple[Path, ...]
    """Files of the checkout that `furnish` depends on, its own module first."""
    furnish: Callable[[Path], None]
    """Finishes the unpacked packages: users, folders, settings, bytecode."""
    config: Mapping[str, Any]
    """Environment, command, user and folder of a container, as the image format spells them."""
    parent: Recipe | None = None
    """Image whose layer lies below."""
    overlay: Overlay | None = None
    space_mb: int = field(default=1000)
    """Free megabytes that a build needs beside the engine's own."""

    @property
    def tag(self) -> str:
        """Name under which the engine lists the image; nothing but people read it."""
        return f"abox/{self.name}:local"

    def packages_hash(self) -> str:
        """Hash of all that the Debian layer depends on, save the versions in the archive."""
        return _hash(
            {
                "name": self.name,
                "suite": SUITE,
                "variant": self.variant,
                "packages": sorted(self.packages),
                "slim": SLIM,
                "inputs": [_hash_file(path) for path in (*BUILDER, *self.inputs)],
                "parent": self.parent.packages_hash() if self.parent else None,
            }
        )

    def overlay_hash(self) -> str | None:
        """Hash of the project's own files in the image, None if it has none."""
        if self.overlay is None:
            return None
        files = {name: _hash_file(path) for name, path in self.overlay.files().items()}
        return _hash({"files": files, "extra": self.overlay.extra})

    def hash(self) -> str:
        """Hash of the whole recipe: equal hashes need no second build."""
        return _hash(
            {
                "packages": self.packages_hash(),
                "overlay": self.overlay_hash(),
                "config": dict(self.config),
            }
        )


def _hash(document: object) -> str:
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


def _hash_file(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
