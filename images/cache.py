"""Finished layers, shared by every checkout of this user and kept between builds."""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from images.archive import Layer, Manifest, layer_file

KEPT_DAYS = 30
"""A layer that no build has asked for in so many days is removed."""


@dataclass(frozen=True, kw_only=True)
class Stored:
    """A layer of the cache."""

    diff_id: str
    size: int
    packages: dict[str, str]


def default_folder() -> Path:
    """The cache of the user who runs this."""
    home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(home) / "abox/images"


class LayerCache:
    """Layers by the hash of what they were made from."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.layers = folder / "layers"
        self.layers.mkdir(parents=True, exist_ok=True)

    @contextmanager
    def locked(self, on_wait: Callable[[], None]) -> Iterator[None]:
        """Hold the cache alone; `on_wait` is called once if somebody else has it."""
        with (self.folder / "lock").open("a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                on_wait()
                fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def find(self, key: str) -> Stored | None:
        """The layer of that key, None if there is none or a file of it is gone."""
        record = self.layers / f"{key}.json"
        try:
            stored = Stored(**json.loads(record.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return None
        files = (record, self._blob(stored.diff_id), self._manifest(stored.diff_id))
        if not all(path.is_file() for path in files):
            return None
        for path in files:
            os.utime(path)  # in use: see prune
        return stored

    def keep(self, key: str, layer: Layer, packages: dict[str, str]) -> Stored:
        """Record a layer whose file is in `layers` already."""
        stored = Stored(diff_id=layer.diff_id, size=layer.size, packages=packages)
        _write(self._manifest(layer.diff_id), json.dumps(layer.manifest))
        _write(self.layers / f"{key}.json", json.dumps(asdict(stored)))
        return stored

    def manifest(self, diff_id: str) -> Manifest:
        """What a layer and those below it hold."""
        content: Manifest = json.loads(self._manifest(diff_id).read_text(encoding="utf-8"))
        return content

    def prune(self) -> None:
        """Remove what nobody has asked for lately, and what an interrupted build left."""
        oldest = time.time() - KEPT_DAYS * 86400
        for path in self.layers.iterdir():
            if path.name.startswith(".partial-") or path.stat().st_mtime < oldest:
                path.unlink()

    def _blob(self, diff_id: str) -> Path:
        return self.layers / layer_file(diff_id)

    def _manifest(self, diff_id: str) -> Path:
        return self.layers / f"{diff_id.removeprefix('sha256:')}.manifest.json"


def _write(path: Path, text: str) -> None:
    partial = path.with_name(f".partial-{path.name}")
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)
