"""The libvirt domain of a sandbox: its state, its disks, and the snapshots that these hold."""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from abox.errors import HostError
from abox.filter_race import again_if_lost
from abox.host_state import LIBVIRT_URI, instance_dir, state_dir
from abox.render.domain import sandbox_of
from abox.snapshots import (
    QUERY_BLOCK,
    Disk,
    Snapshot,
    Source,
    gather,
    nodes_of,
    parse_disk,
    render_drop,
    render_take,
    writable_disks,
)
from cli import host

OFF = ("shut off", "crashed")
"""libvirt's words for a machine that has no process."""

DISK_TIMEOUT_S = 600.0
"""Seconds for one step on one disk."""


def virsh(*arguments: str) -> str:
    """Standard output of a `virsh` command.

    Raises: HostError if libvirt doesn't answer, or refuses.
    """
    call, remedy = (
        ["virsh", "-q", "-c", LIBVIRT_URI, *arguments],
        "see with `abox doctor` what is missing",
    )
    return again_if_lost(lambda: _done(call, remedy), HostError, time.sleep)


def _qemu_img(*arguments: str) -> str:
    return _done(
        ["qemu-img", *arguments], "see that the disk isn't in use otherwise and that there is room"
    )


def _done(command: list[str], remedy: str) -> str:
    done = host.run(command, timeout_s=DISK_TIMEOUT_S, environment={**os.environ, "LC_ALL": "C"})
    if done.code != 0:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        raise HostError(
            what=f"{command[0]} failed",
            why=lines[-1] if lines else f"exit code {done.code}",
            remedy=remedy,
        )
    return done.stdout


@dataclass(frozen=True)
class Machine:
    """The domain of one sandbox."""

    sandbox: str
    uuid: str

    def is_on(self) -> bool:
        """Whether it has a process, running or paused."""
        return virsh("domstate", self.uuid).strip() not in OFF

    def taps(self) -> list[str]:
        """Names of its interfaces on the host; none if it is off."""
        rows = [line.split() for line in virsh("domiflist", self.uuid).splitlines()]
        return [row[0] for row in rows if row and row[0] != "-"]

    def disks(self) -> list[Disk]:
        """What its guest can write."""
        sources = writable_disks(virsh("dumpxml", self.uuid, "--inactive"))
        return [Disk(source.target, _path(source)) for source in sources]

    def snapshots(self) -> list[Snapshot]:
        """All that its disks hold, oldest first."""
        return gather({disk.target: _listed(disk) for disk in self.disks()})

    def take(self, name: str) -> None:
        """Take a snapshot of all disks, or of none."""
        disks = self.disks()
        if self.is_on():
            self._tell(render_take(self._nodes(disks), name))
            return
        taken: list[Disk] = []
        try:
            for disk in disks:
                _qemu_img("snapshot", "-c", name, disk.path)
                taken.append(disk)
        except HostError:
            for disk in taken:
                _qemu_img("snapshot", "-d", name, disk.path)
            raise

    def drop(self, name: str) -> None:
        """Remove a snapshot from every disk that holds it."""
        holding = [disk for disk in self.disks() if name in _listed(disk)]
        if self.is_on():
            for node in self._nodes(holding):
                self._tell(render_drop(node, name))
        else:
            for disk in holding:
                _qemu_img("snapshot", "-d", name, disk.path)

    def put_back(self, name: str) -> None:
        """Make the disks of a machine that is off what they were."""
        for disk in self.disks():
            _qemu_img("snapshot", "-a", name, disk.path)

    def switch_off(self) -> None:
        """End its process at once."""
        virsh("destroy", self.uuid)

    def switch_on(self) -> None:
        """Boot it as its definition says, under its filters."""
        virsh("start", self.uuid)

    def _nodes(self, disks: list[Disk]) -> list[str]:
        return nodes_of(self._tell(QUERY_BLOCK), disks)

    def _tell(self, command: str) -> dict[str, Any]:
        """What QEMU answers to a command."""
        answer: dict[str, Any] = json.loads(virsh("qemu-monitor-command", self.uuid, command))
        if "error" in answer:
            raise HostError(
                what="QEMU refuses",
                why=str(answer["error"].get("desc")),
                remedy="see that there is room on the disk, then run again",
            )
        return answer


def _path(source: Source) -> str:
    if source.file:
        return source.file
    return virsh("vol-path", source.volume, "--pool", source.pool).strip()


def _listed(disk: Disk) -> dict[str, Any]:
    # It is only looked at, so a running machine's lock is no reason to wait.
    return {**parse_disk(_qemu_img("info", "--force-share", "--output", "json", disk.path))}


def find_machine(sandbox: str) -> Machine:
    """The domain that bears a sandbox's name.

    Raises: HostError if there is none, or more than one.
    """
    uuids = virsh("list", "--all", "--uuid").split()
    found = [uuid for uuid in uuids if _sandbox_of(uuid) == sandbox]
    if len(found) != 1:
        raise HostError(
            what=f"sandbox {sandbox} has {len(found) or 'no'} machines on this host",
            why="it is not up, or a run of Pulumi was interrupted",
            remedy=f"run `pulumi up -s {sandbox}`",
        )
    return Machine(sandbox, found[0])


def _sandbox_of(uuid: str) -> str:
    """The sandbox that a domain belongs to; of one that has gone meanwhile, none."""
    try:
        return sandbox_of(virsh("dumpxml", uuid, "--inactive"))
    except HostError:
        return ""


@contextmanager
def alone(sandbox: str) -> Iterator[None]:
    """Keep a second such command of a sandbox out.

    Raises: HostError if there is one.
    """
    folder = os.open(instance_dir(Path(state_dir(os.environ)), sandbox), os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError as error:
        raise HostError(
            what=f"the disks of sandbox {sandbox} are being worked on",
            why="another `abox snapshot` runs",
            remedy="wait until it has ended",
        ) from error
    finally:
        os.close(folder)
