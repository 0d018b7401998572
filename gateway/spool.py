"""A file in memory that a filter appends to and that is given back as it is read.

The filter never waits: where the small file system is full its write fails, and it goes on. What
was read is punched out of the file, so that the file's end can grow while its body stays small.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from pathlib import Path

SLICE_BYTES = 32 * 1024
"""Read at once: bounds the memory that a flood takes here."""
FULL_BYTES = 64 * 1024
"""Less free space than this, and lines may have been lost."""

_PAGE = os.sysconf("SC_PAGESIZE")
_KEEP_SIZE, _PUNCH_HOLE = 0x01, 0x02
_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)


class Spool:
    """The reader's end of one file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._handle = -1
        self._offset = self._released = 0

    def slices(self) -> Iterator[bytes]:
        """Whole lines that came since the last call, in slices."""
        if not self._open():
            return
        while data := os.pread(self._handle, SLICE_BYTES, self._offset):
            end = data.rfind(b"\n") + 1
            if not end and len(data) < SLICE_BYTES:
                return
            # A line that fills a slice is none; what was punched out reads as zero bytes.
            yield data[:end].lstrip(b"\0")
            self._offset += end or len(data)

    def release(self) -> None:
        """Give back the space of what was read."""
        if self._offset == self._released:
            return
        # A page is only freed by a call that covers all of it, so its read beginning is included.
        start = self._released - self._released % _PAGE
        flags = _KEEP_SIZE | _PUNCH_HOLE
        if _LIBC.fallocate(self._handle, flags, start, self._offset - start) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), str(self._path))
        self._released = self._offset

    @property
    def is_full(self) -> bool:
        """Whether the filter's writes may fail."""
        if self._handle < 0:
            return False
        found = os.fstatvfs(self._handle)
        return found.f_bavail * found.f_frsize < FULL_BYTES

    def _open(self) -> bool:
        """Have the file open that is there now; False if there is none."""
        try:
            found = self._path.stat()
            if self._handle >= 0:
                mine = os.fstat(self._handle)
                if (mine.st_dev, mine.st_ino) == (found.st_dev, found.st_ino):
                    return True
                os.close(self._handle)
                self._handle = -1
            self._handle = os.open(self._path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            return False
        self._offset = self._released = _first_data(self._handle)
        return True


def _first_data(handle: int) -> int:
    """Where what wasn't punched out begins."""
    try:
        return os.lseek(handle, 0, os.SEEK_DATA)
    except OSError:  # there is none
        return os.fstat(handle).st_size
