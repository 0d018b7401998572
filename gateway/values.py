"""Values of secrets in control's private folder, each in a file that is named after its digest."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from gateway.files import read_file, write_file
from gateway.messages import Value

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*\.[0-9a-f]{64}")

Stamp = tuple[tuple[str, int, int], ...]


@dataclass(frozen=True)
class Values:
    """The folder; control alone may read it."""

    folder: Path

    def keep(self, values: Mapping[str, str]) -> None:
        """Write values, by the names that the proxy asks for."""
        self.folder.mkdir(mode=0o700, exist_ok=True)
        for name, text in values.items():
            write_file(self.folder / name, text, mode=0o600)

    def forget(self, keep: Collection[str]) -> None:
        """Remove all others."""
        for path in self._files():
            if path.name not in keep:
                path.unlink()

    def read(self, name: str) -> bytes | None:
        """A value; None if there is no such name."""
        return read_file(self.folder / name) if _NAME.fullmatch(name) else None

    def find(self, name: str) -> tuple[str, Value] | None:
        """Version and content for the proxy."""
        text = self.read(name)
        return None if text is None else (name.rpartition(".")[2], Value(text))

    def stamp(self) -> Stamp:
        """Changes when a value does."""
        found = [(path.name, path.stat()) for path in self._files()]
        return tuple(sorted((name, stat.st_ino, stat.st_mtime_ns) for name, stat in found))

    def _files(self) -> list[Path]:
        return list(self.folder.iterdir()) if self.folder.is_dir() else []
