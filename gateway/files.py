"""Files of the pod's volumes, written so that a reader sees the old or the new one, whole."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def write_file(path: Path, text: str | bytes, *, mode: int = 0o644) -> bool:
    """Put a file in place by renaming; nothing happens if it holds these bytes already.

    Returns: whether the file was replaced.
    """
    data = text.encode() if isinstance(text, str) else text
    if read_file(path) == data and path.stat().st_mode & 0o777 == mode:
        return False
    fresh = path.with_name(f".{path.name}.new")
    fresh.unlink(missing_ok=True)
    fresh.touch(mode=mode)
    fresh.chmod(mode)
    fresh.write_bytes(data)
    fresh.rename(path)
    return True


def read_file(path: Path) -> bytes | None:
    """The file's bytes; None if there is no such file."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def read_json(path: Path) -> Mapping[str, Any] | None:
    """An object in a JSON file; None if it isn't there or isn't one."""
    data = read_file(path)
    try:
        found = json.loads(data) if data is not None else None
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
