"""Builds the image of virtual machines: a disk, a kernel and an initial root filesystem.

The files belong to the host, not to a user: QEMU reads them, without the right to look into
anybody's home. A disk that was built stays, since disks of virtual machines lie on top of it.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from abox.errors import HostError
from images.debian import remove_tree, unpack
from images.ext4 import write_ext4
from images.host import require, run
from images.initramfs import initramfs
from images.lock import Locked, LockedFile, parse_entry
from images.progress import Progress
from images.recipe import Recipe
from images.tree import clean, installed_packages

FOLDER = Path("/var/lib/abox/images/vm")
"""Disks, kernels and initial root filesystems of this host."""

SIZE_BYTES = 4 * 1024**3
"""Size of the disk as a guest sees it; a virtual machine's own disk is at least as large."""

LABEL = "root"

ENDINGS = {"disk": ".qcow2", "kernel": "", "initrd": ".cpio"}
"""Files of an image → endings of their names."""


def find(recipe_hash: str, folder: Path = FOLDER) -> Locked | None:
    """The image that was built by a recipe, None if it or a file of it isn't there."""
    try:
        entry = json.loads((folder / f"{recipe_hash}.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    found = parse_entry(entry)
    return found if found and found.files and are_there(found.files) else None


def are_there(files: Mapping[str, LockedFile]) -> bool:
    """Whether the files exist, in their sizes: their content was hashed when they were made."""
    return all(
        Path(file.path).is_file() and Path(file.path).stat().st_size == file.size
        for file in files.values()
    )


def build(
    recipe: Recipe, work: Path, log: Path, progress: Progress, folder: Path = FOLDER
) -> Locked:
    """Build an image, and record it for every checkout of this host.

    Args:
        recipe: what it is made of.
        work: takes the unpacked root filesystem; removed afterwards.
        log: takes what the packages say.
        progress: told how far it is.
        folder: where the files go.

    Raises:
        HostError: the machine lacks something, or a step fails.
    """
    _require_architecture()
    for program in ("mke2fs", "debugfs", "qemu-img"):
        require(program)
    recipe_hash = recipe.hash()
    make_reachable(folder)
    remove_tree(work)
    try:
        unpack(
            work,
            variant=recipe.variant,
            packages=recipe.packages,
            progress=progress,
            log=log,
        )
        progress.say("finishing the root filesystem")
        packages = installed_packages(work)
        shutil.rmtree(work / "var/lib/ucf/cache", ignore_errors=True)  # of openssh-server, dated
        clean(work)
        recipe.furnish(work)
        built = _files(work, folder, progress)
    finally:
        remove_tree(work)
    image = Locked(
        id=f"sha256:{built['disk'].sha256}",
        recipe=recipe_hash,
        packages=packages,
        files=built,
        cmdlines=[dict(group) for group in recipe.config["cmdlines"]],
    )
    _write(folder / f"{recipe_hash}.json", json.dumps(asdict(image)).encode())
    return image


def make_reachable(folder: Path) -> None:
    """Make a folder that QEMU's user can enter, through parents that nobody else can list."""
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o755)
    for parent in folder.parents:
        if parent.name == "abox" or parent.parent.name == "abox":
            parent.chmod(parent.stat().st_mode | 0o111)


def _files(work: Path, folder: Path, progress: Progress) -> dict[str, LockedFile]:
    """Write the disk and what it is booted with, each named by its content."""
    initrd, kernel = folder / ".partial-initrd", folder / ".partial-kernel"
    _write(initrd, initramfs(work))
    (kernel_file,) = (work / "boot").glob("vmlinuz-*")
    shutil.copyfile(kernel_file, kernel)
    kernel_file.unlink()
    progress.say("writing the disk")
    raw, disk = folder / ".partial-raw", folder / ".partial-disk"
    try:
        write_ext4(work, raw, size_bytes=SIZE_BYTES, label=LABEL)
        run(["qemu-img", "convert", "-O", "qcow2", str(raw), str(disk)], timeout_s=600)
    finally:
        raw.unlink(missing_ok=True)
    partial = {"disk": disk, "kernel": kernel, "initrd": initrd}
    return {name: _named_by_content(name, path) for name, path in partial.items()}


def _named_by_content(name: str, partial: Path) -> LockedFile:
    with partial.open("rb") as content:
        digest = hashlib.file_digest(content, "sha256").hexdigest()
    partial.chmod(0o444)
    target = partial.with_name(f"{name}-{digest[:12]}{ENDINGS[name]}")
    if target.exists():  # of equal content, and perhaps below a disk in use: it stays
        partial.unlink()
    else:
        partial.replace(target)
    return LockedFile(path=str(target), sha256=digest, size=target.stat().st_size)


def _write(path: Path, content: bytes) -> None:
    partial = path.with_name(f"{path.name}.{os.getpid()}")
    partial.write_bytes(content)
    partial.replace(path)


def _require_architecture() -> None:
    machine = platform.machine()
    if machine != "x86_64":
        raise HostError(
            what="the image of virtual machines isn't built",
            why=f"its kernel and its boot are those of x86_64, and this machine is {machine}",
            remedy="use `backend: container` here",
        )
