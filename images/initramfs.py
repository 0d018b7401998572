"""The initial root filesystem of a virtual machine: a few drivers, and a program that mounts.

Debian's own generators look at the machine that they run on and write its clock into the result.
What a virtual machine needs is known beforehand, so it is written here: Debian's tiny-initramfs
loads the modules of a list, mounts the root filesystem and starts its init.
"""

from __future__ import annotations

import stat
from pathlib import Path

from abox.errors import HostError

MODULES = (
    "virtio_ring",
    "virtio",
    "virtio_pci_legacy_dev",
    "virtio_pci_modern_dev",
    "virtio_pci",
    "virtio_blk",
    "virtio_console",
    "failover",
    "net_failover",
    "virtio_net",
)
"""Kernel modules in the order in which they need each other; ext4 is part of the kernel."""

INIT = "usr/lib/x86_64-linux-gnu/tiny-initramfs/init-static"

FOLDERS = ("dev", "proc", "target")
"""Where the program mounts things."""

_FOLDER = stat.S_IFDIR | 0o755
_PROGRAM = stat.S_IFREG | 0o755
_FILE = stat.S_IFREG | 0o644
_END = "TRAILER!!!"


def initramfs(root: Path) -> bytes:
    """The archive for the kernel that is installed below `root`.

    Raises:
        HostError: that kernel lacks a module, or the program isn't installed.
    """
    modules = {name: _module(root, name) for name in MODULES}
    listing = "".join(f"/{name}.ko\n" for name in MODULES)
    entries = [(name, _FOLDER, b"") for name in FOLDERS]
    entries.append(("init", _PROGRAM, _read(root / INIT)))
    entries.extend((f"{name}.ko", _FILE, path.read_bytes()) for name, path in modules.items())
    entries.append(("modules", _FILE, listing.encode()))
    return cpio(entries)


def cpio(entries: list[tuple[str, int, bytes]]) -> bytes:
    """An archive in the kernel's format (newc): name, mode and content of each entry, no clock."""
    archive = bytearray()
    for number, (name, mode, content) in enumerate([*entries, (_END, 0, b"")], start=1):
        encoded = name.encode() + b"\0"
        # inode, mode, uid, gid, links, mtime, size, 4 device numbers, length of the name, checksum
        fields = (number, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(encoded), 0)
        archive += b"070701" + "".join(f"{field:08x}" for field in fields).encode() + encoded
        archive += bytes(-len(archive) % 4) + content
        archive += bytes(-len(archive) % 4)
    return bytes(archive)


def _module(root: Path, name: str) -> Path:
    found = sorted((root / "usr/lib/modules").glob(f"*/kernel/**/{name}.ko"))
    if len(found) != 1:
        raise HostError(
            what=f"kernel module {name}: {len(found)} in the image",
            why="the initial root filesystem needs the one of the image's kernel",
            remedy="look at what Debian's kernel package holds, and at images/initramfs.py",
        )
    return found[0]


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise HostError(
            what=f"{path.name} is not in the image",
            why=f"{path}: {error.strerror}",
            remedy="look at what Debian's tiny-initramfs-core holds, and at images/initramfs.py",
        ) from error
