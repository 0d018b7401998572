"""The disk that hands cloud-init its documents: an ISO 9660 image, equal bytes for equal input."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Mapping

import pycdlib

LABEL = "cidata"
"""Volume label by which cloud-init knows the disk."""

SECTOR = 2048
_FIRST_DESCRIPTOR, _TERMINATOR, _WITH_ROOT = 16, 255, (1, 2)
_DATES, _ROOT = slice(813, 881), 156
_RECORD_DATE = slice(18, 25)
_NO_DATE = b"0000000000000000\0" * 4
_NO_RECORD_DATE = bytes([70, 1, 1, 0, 0, 0, 0])


def render_image(files: Mapping[str, str]) -> bytes:
    """An image with these files in its root.

    Args:
        files: name to content.
    Returns: the image; its Joliet directory holds the names as they are.
    """
    disc = pycdlib.PyCdlib()
    disc.new(interchange_level=3, joliet=3, vol_ident=LABEL, sys_ident="LINUX")
    for number, (name, content) in enumerate(sorted(files.items())):
        data = content.encode()
        disc.add_fp(io.BytesIO(data), len(data), f"/FILE{number}.;1", joliet_path=f"/{name}")
    out = io.BytesIO()
    disc.write_fp(out)
    disc.close()
    return _without_clock(bytearray(out.getvalue()))


def image_digest(image: bytes) -> str:
    """SHA-256 of an image in lower-case hex."""
    return hashlib.sha256(image).hexdigest()


def _without_clock(image: bytearray) -> bytes:
    """The image with every date that the library took from the clock replaced by a fixed one."""
    at = _FIRST_DESCRIPTOR * SECTOR
    while image[at] != _TERMINATOR:
        if image[at] in _WITH_ROOT:
            image[at + _DATES.start : at + _DATES.stop] = _NO_DATE
            root = at + _ROOT
            _fix_record(image, root)
            start = int.from_bytes(image[root + 2 : root + 6], "little") * SECTOR
            _fix_directory(image, start, int.from_bytes(image[root + 10 : root + 14], "little"))
        at += SECTOR
    return bytes(image)


def _fix_directory(image: bytearray, start: int, length: int) -> None:
    at = start
    while at < start + length:
        if image[at] == 0:  # no record crosses the border of a sector
            at += SECTOR - at % SECTOR
            continue
        _fix_record(image, at)
        at += image[at]


def _fix_record(image: bytearray, at: int) -> None:
    image[at + _RECORD_DATE.start : at + _RECORD_DATE.stop] = _NO_RECORD_DATE
