"""Files of the verdict log: appended whole lines, rotated by size, bounded in number."""

from __future__ import annotations

import os
from pathlib import Path

FILE_BYTES = 8 * 1024 * 1024
FILES = 8
"""Files of one kind, the one that is written to included."""

_FLAGS = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW


class RotatingFile:
    """One kind of lines: ``name``, then ``name.1`` and so on, the oldest with the highest number.

    Args:
        path: the file that is written to.
        file_bytes: size from which on a new one is begun.
        files: how many are kept.
    """

    def __init__(self, path: Path, *, file_bytes: int = FILE_BYTES, files: int = FILES) -> None:
        self._path, self._file_bytes, self._files = path, file_bytes, files
        self._handle = -1

    def append(self, data: bytes) -> None:
        """Append whole lines: all of them, or none.

        Raises: OSError if they can't be written.
        """
        size = self._ready()
        if size and size + len(data) > self._file_bytes:
            self._rotate()
            size = self._ready()
        try:
            written = os.write(self._handle, data)
            if written != len(data):
                raise OSError(f"{self._path.name}: {written} of {len(data)} bytes were written")
        except OSError:
            os.ftruncate(self._handle, size)
            raise

    def _ready(self) -> int:
        """Have the file open, ending in a whole line; its size."""
        if self._handle >= 0 and os.fstat(self._handle).st_nlink == 0:
            self._close()
        if self._handle < 0:
            self._handle = os.open(self._path, _FLAGS, 0o600)
            try:
                self._mend()
            except OSError:
                self._close()
                raise
        return os.fstat(self._handle).st_size

    def _mend(self) -> None:
        """End a line that a killed writer left unfinished."""
        size = os.fstat(self._handle).st_size
        if size and os.pread(self._handle, 1, size - 1) != b"\n":
            os.write(self._handle, b"\n")

    def _rotate(self) -> None:
        self._close()
        for number in range(self._files - 1, 0, -1):
            older = self._numbered(number - 1)
            if older.exists():
                older.rename(self._numbered(number))

    def _numbered(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}") if number else self._path

    def _close(self) -> None:
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1
