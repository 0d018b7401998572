"""The lock file: which images the program uses, by id."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from images.recipe import PROJECT

PATH = PROJECT / ".abox/images.lock.json"
"""Generated, never committed: see docs/decisions/0001-images.md."""

_ID = re.compile(r"sha256:[0-9a-f]{64}")
_HASH = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, kw_only=True)
class Locked:
    """One image of the lock file."""

    id: str
    """What the engine calls it: `sha256:…`."""
    recipe: str
    """Hash of the recipe that it was made by."""
    packages: dict[str, str]
    """Debian packages in it, and their versions."""


def read_lock(path: Path = PATH) -> dict[str, Locked]:
    """Images by name; a missing or damaged file, or entry, counts as absent: it is made again."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    if not isinstance(document, dict):
        return {}
    found = ((name, _parse(entry)) for name, entry in document.items())
    return {name: locked for name, locked in found if locked}


def write_lock(images: Mapping[str, Locked], path: Path = PATH) -> None:
    """Replace the lock file, in one step."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    document = {name: asdict(locked) for name, locked in images.items()}
    partial.write_text(json.dumps(document, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    partial.replace(path)


def _parse(entry: object) -> Locked | None:
    if not isinstance(entry, dict):
        return None
    identity, recipe, packages = (entry.get(key) for key in ("id", "recipe", "packages"))
    if not (isinstance(identity, str) and _ID.fullmatch(identity)):
        return None
    if not (isinstance(recipe, str) and _HASH.fullmatch(recipe)):
        return None
    return Locked(
        id=identity, recipe=recipe, packages=packages if isinstance(packages, dict) else {}
    )
