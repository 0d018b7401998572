"""What a disk image says about itself in its first bytes; nothing of it is trusted blindly."""

from __future__ import annotations

import struct
from dataclasses import dataclass

HEADER_BYTES = 4096
"""As much of a file as `parse_header` looks at."""

_QCOW2 = b"QFI\xfb"
_BOOT_SIGNATURE, _BOOT_SIGNATURE_AT = b"\x55\xaa", 510
_VERSIONS = (2, 3)
_EXTERNAL_DATA = 1 << 2
"""Incompatible feature: the data lies in another file."""


@dataclass(frozen=True)
class DiskImage:
    """A disk that a VM can be based on."""

    format: str
    """qcow2 or raw."""
    size: int
    """Bytes of the disk that a guest sees."""


def parse_header(head: bytes, file_size: int) -> DiskImage:
    """The image that a file begins with.

    Args:
        head: the first `HEADER_BYTES` of the file, or all of it.
        file_size: bytes of the whole file.
    Raises: ValueError with the reason, in words, why no VM can be based on it.
    """
    if head.startswith(_QCOW2):
        return DiskImage("qcow2", _qcow2_size(head))
    if head[_BOOT_SIGNATURE_AT : _BOOT_SIGNATURE_AT + 2] == _BOOT_SIGNATURE:
        return DiskImage("raw", file_size)
    raise ValueError("it is neither a qcow2 image nor a raw disk with a boot sector")


def _qcow2_size(head: bytes) -> int:
    try:
        version, backing = struct.unpack_from(">IQ", head, 4)
        size, encryption = struct.unpack_from(">QI", head, 24)
        features = struct.unpack_from(">Q", head, 72)[0] if version == _VERSIONS[1] else 0
    except struct.error as error:
        raise ValueError("its header ends too early") from error
    if version not in _VERSIONS:
        raise ValueError(f"its version of qcow2 is {version}")
    if backing:
        # QEMU would open whatever file it names, on the host.
        raise ValueError("it is an overlay of another file")
    if features & _EXTERNAL_DATA:
        raise ValueError("its data lies in another file")
    if encryption:
        raise ValueError("it is encrypted")
    return int(size)
