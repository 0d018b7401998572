"""A value in a file that somebody else replaces."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

T = TypeVar("T")
_LOG = logging.getLogger(__name__)


@dataclass
class WatchedFile(Generic[T]):
    """A value read from a file, and read again after the file was replaced."""

    path: Path
    read: Callable[[Path], T]
    absent: T
    _stamp: tuple[int, int] | None = None
    _value: T = field(init=False)

    def __post_init__(self) -> None:
        self._value = self.absent

    def value(self) -> T:
        """The value; ``absent`` if the file isn't there or can't be read."""
        try:
            found = self.path.stat()
            stamp = (found.st_ino, found.st_mtime_ns)
            if stamp != self._stamp:
                self._value, self._stamp = self.read(self.path), stamp
        except (OSError, ValueError, KeyError, TypeError) as error:
            if self._stamp is not None:
                _LOG.warning("%s: %s", self.path.name, error)
            self._value, self._stamp = self.absent, None
        return self._value
