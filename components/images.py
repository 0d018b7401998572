"""Which images a sandbox is made of: the lock file that pins those of this checkout by digest."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from abox.disk_image import HEADER_BYTES, DiskImage, parse_header
from abox.errors import HostError
from abox.settings import VM, VmSettings
from abox.vm_settings import split_image
from components.vm import GIGABYTE, Machine

LOCK_FILE = Path(".abox/images.lock.json")
"""Written by ``make images``, relative to the project's folder."""


def read_image_ids(root: Path, roles: Sequence[str] = ("gateway", "agent")) -> dict[str, str]:
    """Image ids by role.

    Args:
        root: the project's folder.
        roles: those that are needed: gateway, agent.
    Raises: HostError if the lock file is missing or isn't what the build writes.
    """
    with _lock_errors("run 'make images'"):
        locked = json.loads((root / LOCK_FILE).read_text())
        return {role: str(locked[role]["id"]) for role in roles}


def read_machine(root: Path, settings: VmSettings, acceleration: str) -> Machine:
    """What a VM boots: the image that was built here, or the user's own.

    Args:
        root: the project's folder.
        settings: the stack's ``vm`` settings.
        acceleration: type of the domain.
    Raises: HostError if there is no such image, it isn't a disk, or the disk is too small for it.
    """
    if settings.image:
        path, digest = split_image(settings.image)
        image = _read_header(Path(path), _OWN_REMEDY)
        machine = Machine(image=path, digest=digest, format=image.format, acceleration=acceleration)
    else:
        with _lock_errors("run 'make vm'"):
            locked = json.loads((root / LOCK_FILE).read_text())[VM]
            files = locked["files"]
            image = _read_header(Path(files["disk"]["path"]), "run 'make vm'")
            machine = Machine(
                image=files["disk"]["path"],
                digest=files["disk"]["sha256"],
                format=image.format,
                kernel=files["kernel"]["path"],
                initrd=files["initrd"]["path"],
                cmdlines=tuple(locked["cmdlines"]),
                acceleration=acceleration,
            )
    needed_gb = -(-image.size // GIGABYTE)
    if needed_gb > settings.disk_gb:
        raise HostError(
            what=f"abox:sandbox.vm.disk_gb: {settings.disk_gb} is refused",
            why=f"the image {machine.image} is a disk of {needed_gb} GB",
            remedy=f"write {needed_gb} or more",
        )
    return machine


_OWN_REMEDY = (
    "name the absolute path of a disk image on this host; `qemu-img convert -O qcow2` makes one"
)


def _read_header(path: Path, remedy: str) -> DiskImage:
    try:
        with path.open("rb") as file:
            return parse_header(file.read(HEADER_BYTES), path.stat().st_size)
    except (OSError, ValueError) as error:
        raise HostError(
            what=f"disk image {path} (vm.image) can't be used",
            why=getattr(error, "strerror", None) or str(error),
            remedy=remedy,
        ) from error


@contextmanager
def _lock_errors(remedy: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise HostError(
            what=f"{LOCK_FILE} is missing", why="no images were built here", remedy=remedy
        ) from None
    except (KeyError, TypeError, ValueError) as error:
        raise HostError(
            what=f"{LOCK_FILE} can't be read",
            why=f"it isn't a lock of images: {error}",
            remedy=remedy,
        ) from error
