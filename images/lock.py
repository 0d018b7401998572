"""The lock file: which images the program uses, by id."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from images.recipe import PROJECT

PATH = PROJECT / ".abox/images.lock.json"
"""Generated, never committed: see docs/decisions/0001-images.md."""

_ID = re.compile(r"sha256:[0-9a-f]{64}")
_HASH = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, kw_only=True)
class LockedFile:
    """A file of an image that isn't the engine's."""

    path: str
    sha256: str
    size: int


@dataclass(frozen=True, kw_only=True)
class Locked:
    """One image of the lock file."""

    id: str
    """What the engine calls it: `sha256:…`."""
    recipe: str
    """Hash of the recipe that it was made by."""
    packages: dict[str, str]
    """Debian packages in it, and their versions."""
    files: dict[str, LockedFile] = field(default_factory=dict)
    """Of a virtual machine: `disk`, `kernel` and `initrd`; its id is the disk's SHA-256."""
    cmdlines: list[dict[str, str]] = field(default_factory=list)
    """Of a virtual machine: kernel parameters, as pulumi-libvirt takes them."""


def read_lock(path: Path = PATH) -> dict[str, Locked]:
    """Images by name; a missing or damaged file, or entry, counts as absent: it is made again."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    if not isinstance(document, dict):
        return {}
    found = ((name, parse_entry(entry)) for name, entry in document.items())
    return {name: locked for name, locked in found if locked}


def write_lock(images: Mapping[str, Locked], path: Path = PATH) -> None:
    """Replace the lock file, in one step."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    document = {name: _shown(locked) for name, locked in images.items()}
    partial.write_text(json.dumps(document, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    partial.replace(path)


def parse_entry(entry: object) -> Locked | None:
    """One image, None if the entry isn't whole."""
    if not isinstance(entry, dict):
        return None
    identity, recipe, packages = (entry.get(key) for key in ("id", "recipe", "packages"))
    if not (isinstance(identity, str) and _ID.fullmatch(identity)):
        return None
    if not (isinstance(recipe, str) and _HASH.fullmatch(recipe)):
        return None
    files = _parse_files(entry.get("files") or {})
    cmdlines = entry.get("cmdlines") or []
    if files is None or not isinstance(cmdlines, list):
        return None
    return Locked(
        id=identity,
        recipe=recipe,
        packages=packages if isinstance(packages, dict) else {},
        files=files,
        cmdlines=cmdlines,
    )


def _parse_files(entry: object) -> dict[str, LockedFile] | None:
    if not isinstance(entry, dict):
        return None
    try:
        return {name: LockedFile(**file) for name, file in entry.items()}
    except TypeError:
        return None


def _shown(locked: Locked) -> dict[str, object]:
    """An entry of the file: what only virtual machines have is left out of the others."""
    return {key: value for key, value in asdict(locked).items() if value or key == "packages"}
