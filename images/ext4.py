"""Writes a root filesystem into an ext4 image: equal trees give equal bytes.

`mke2fs -d` would take the folder's own order and the time of every inode's last change, which
nobody can set. So the tree is written piece by piece, in the order of its paths, by debugfs.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

from abox.errors import HostError
from images.archive import EPOCH_S, walk
from images.host import run, run_any

FILESYSTEM_ID = "5b0c1e5e-ab0a-4d0a-8a0a-000000000001"
HASH_SEED = "5b0c1e5e-ab0a-4d0a-8a0a-000000000002"
"""Fixed: random ones would make every image another one."""

TIMEOUT_S = 900.0

_FOLDER_MODE = 0o755
"""What debugfs gives a new folder."""


def write_ext4(root: Path, target: Path, *, size_bytes: int, label: str) -> None:
    """Write what `root` holds into a new image.

    Args:
        root: the tree; sockets and devices are left out, a booted system makes its own.
        target: the image; sparse.
        size_bytes: size of the filesystem, a multiple of 4096.
        label: name of the filesystem.

    Raises:
        HostError: it doesn't fit, or a file can't be read.
    """
    environment = {**os.environ, "E2FSPROGS_FAKE_TIME": str(EPOCH_S), "DEBUGFS_PAGER": "cat"}
    target.unlink(missing_ok=True)
    # With its tables zeroed and its journal made now, a guest has nothing to do at its first boot.
    options = f"hash_seed={HASH_SEED},lazy_itable_init=0,lazy_journal_init=0,root_owner=0:0"
    run(
        [
            *("mke2fs", "-q", "-t", "ext4", "-b", "4096", "-L", label, "-U", FILESYSTEM_ID),
            *("-E", options, str(target), str(size_bytes // 4096)),
        ],
        environment=environment,
    )
    with tempfile.NamedTemporaryFile("w", prefix="abox-ext4-", suffix=".txt") as script:
        script.writelines(f"{line}\n" for line in commands(root))
        script.flush()
        _, said, complaints = run_any(
            ["debugfs", "-w", "-f", script.name, str(target)],
            timeout_s=TIMEOUT_S,
            environment=environment,
        )
    _require_success(said + complaints)
    run(["e2fsck", "-f", "-n", str(target)], timeout_s=TIMEOUT_S)


def commands(root: Path) -> Iterator[str]:
    """What debugfs is told, in the order of the paths."""
    first: dict[tuple[int, int], str] = {}
    links: dict[str, int] = {}
    for path in walk(root):
        found = (root / path).lstat()
        quoted = _quoted(f"/{path}")
        original = first.setdefault((found.st_dev, found.st_ino), quoted)
        if original != quoted:
            links[original] = links.get(original, 1) + 1
            yield f"link {original} {quoted}"
            continue
        yield _creation(root / path, found.st_mode, quoted)
        if stat.S_ISDIR(found.st_mode) and stat.S_IMODE(found.st_mode) != _FOLDER_MODE:
            yield f"set_inode_field {quoted} mode 0{found.st_mode:o}"
        for field, value in (("uid", found.st_uid), ("gid", found.st_gid)):
            if value:
                yield f"set_inode_field {quoted} {field} {value}"
    for original, count in links.items():  # debugfs doesn't count them
        yield f"set_inode_field {original} links_count {count}"


def _creation(path: Path, mode: int, quoted: str) -> str:
    if stat.S_ISDIR(mode):
        return f"mkdir {quoted}"
    if stat.S_ISLNK(mode):
        return f"symlink {quoted} {_quoted(str(path.readlink()))}"
    return f"write {_quoted(str(path))} {quoted}"


def _quoted(path: str) -> str:
    """A path as one word of debugfs.

    Raises:
        HostError: it has a line break, which debugfs can't take.
    """
    if "\n" in path:
        raise HostError(
            what=f"{path!r} can't be written into an image",
            why="debugfs reads one command a line, and the name has two",
            remedy="leave the file out of the image",
        )
    escaped = path.replace('"', '""')
    return f'"{escaped}"'


def _require_success(said: str) -> None:
    """Refuse an image that debugfs has complained about: its exit code tells nothing."""
    expected = ("debugfs: ", "debugfs 1.", "Allocated inode: ")
    complaints = [line for line in said.splitlines() if line and not line.startswith(expected)]
    if complaints:
        raise HostError(
            what="the root filesystem was not written whole",
            why=" | ".join(complaints[:3]),
            remedy="make room on the disk, then try again; the image is made anew",
        )
