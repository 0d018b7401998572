"""Snapshots of a VM as they stand in its disks: names, lists, commands for QEMU.

A snapshot is one entry of the same name in every disk that the guest can write. The disks hold all
there is to know of it, so it outlives a machine that is made anew and goes with the disks.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from xml.etree import ElementTree

from abox.errors import HostError, SettingsError
from abox.naming import NAME_PATTERN, is_name

FORMAT = "qcow2"
"""The one format of disks that can hold snapshots."""


@dataclass(frozen=True)
class Source:
    """Where libvirt has a disk from: a file, or a volume of a pool."""

    target: str
    """Name of the disk in the guest, for example vda."""
    file: str
    pool: str
    volume: str


@dataclass(frozen=True)
class Disk:
    """A disk that the guest can write."""

    target: str
    path: str


@dataclass(frozen=True)
class Snapshot:
    """One name in some of a machine's disks."""

    name: str
    made: datetime
    """When the first of its disks was taken."""
    disks: tuple[str, ...]
    """Targets of the disks that hold it."""

    def to_document(self) -> dict[str, Any]:
        """The snapshot for programs."""
        return {"name": self.name, "made": self.made.isoformat(), "disks": list(self.disks)}


def check_snapshot_name(name: str) -> str:
    """The name itself.

    Raises: SettingsError if no snapshot can be called so.
    """
    if not is_name(name):
        raise SettingsError(
            what=f"snapshot name {name!r} is refused",
            why="it begins with a letter, so that it can't be taken for QEMU's number of another, "
            "and has no letters that a command could misread",
            remedy=f"choose a name that matches {NAME_PATTERN}, for example before-upgrade",
        )
    return name


def default_name(now: datetime) -> str:
    """A name that says when.

    Args:
        now: the time, in any zone.
    """
    return f"at-{now.astimezone(UTC):%Y%m%d-%H%M%S}"


def writable_disks(xml: str) -> list[Source]:
    """The disks of a domain that its guest can write, in the domain's order.

    Raises: HostError if one of them can't hold snapshots.
    """
    # libvirt's own dump: the parser meets no hostile document.
    disks = ElementTree.fromstring(xml).findall("devices/disk")  # noqa: S314
    return [_source(disk) for disk in disks if disk.find("readonly") is None]


def _source(disk: ElementTree.Element) -> Source:
    target, driver, source = (disk.find(tag) for tag in ("target", "driver", "source"))
    name = "" if target is None else target.get("dev", "")
    kind = "" if driver is None else driver.get("type", "")
    found = {} if source is None else source.attrib
    if kind != FORMAT or not ("file" in found or {"pool", "volume"} <= found.keys()):
        raise HostError(
            what=f"disk {name} can't hold snapshots",
            why=f"it is no {FORMAT} file but {kind or 'of an unknown format'}",
            remedy=f"give the machine disks of the format {FORMAT} in vm.domain_template",
        )
    return Source(name, *(found.get(key, "") for key in ("file", "pool", "volume")))


def parse_disk(text: str) -> dict[str, datetime]:
    """Snapshots in one disk, by name.

    Args:
        text: what `qemu-img info --output json` prints.
    Raises: HostError if it is something else.
    """
    try:
        listed = json.loads(text).get("snapshots", [])
        return {
            str(one["name"]): datetime.fromtimestamp(int(one["date-sec"]), UTC) for one in listed
        }
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
        raise HostError(
            what="the disk's snapshots can't be read",
            why=f"qemu-img answers something else: {error}",
            remedy="see what `qemu-img info` says of the disk",
        ) from error


def gather(by_disk: Mapping[str, Mapping[str, datetime]]) -> list[Snapshot]:
    """The snapshots of a machine, oldest first.

    Args:
        by_disk: what `parse_disk` found, by target.
    """
    names = {name for found in by_disk.values() for name in found}
    snapshots = [_gathered(name, by_disk) for name in names]
    return sorted(snapshots, key=lambda one: (one.made, one.name))


def _gathered(name: str, by_disk: Mapping[str, Mapping[str, datetime]]) -> Snapshot:
    holding = {target: found[name] for target, found in by_disk.items() if name in found}
    return Snapshot(name, min(holding.values()), tuple(holding))


def nodes_of(answer: Mapping[str, Any], disks: Sequence[Disk]) -> list[str]:
    """QEMU's names of disks, in their order.

    Args:
        answer: what QEMU returns to `query-block`.
        disks: the disks that are looked for.
    Raises: HostError if QEMU doesn't have one of them open.
    """
    open_ = [one.get("inserted") or {} for one in answer.get("return", [])]
    nodes = {each.get("file"): each.get("node-name") for each in open_ if not each.get("ro")}
    for disk in disks:
        if not nodes.get(disk.path):
            raise HostError(
                what=f"disk {disk.target} is not open in the running machine",
                why=f"QEMU names {', '.join(sorted(map(str, nodes))) or 'no disk'}",
                remedy="run `pulumi up`, which puts the machine's disks right",
            )
    return [str(nodes[disk.path]) for disk in disks]


def render_take(nodes: Iterable[str], name: str) -> str:
    """QEMU's command that takes a snapshot of all disks at one moment, or of none."""
    taken = [
        {"type": "blockdev-snapshot-internal-sync", "data": {"device": node, "name": name}}
        for node in nodes
    ]
    return json.dumps({"execute": "transaction", "arguments": {"actions": taken}})


def render_drop(node: str, name: str) -> str:
    """QEMU's command that removes a snapshot from one disk."""
    told = {"device": node, "name": name}
    return json.dumps({"execute": "blockdev-snapshot-delete-internal-sync", "arguments": told})


QUERY_BLOCK = json.dumps({"execute": "query-block"})
"""QEMU's command that lists its disks."""
