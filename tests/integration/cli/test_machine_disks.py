"""Snapshots in real disks of a machine that is off: taken, listed, put back, undone, removed."""

from __future__ import annotations

from pathlib import Path

import pytest

from abox.errors import HostError
from abox.snapshots import Disk
from cli.machines import Machine
from tests import host

pytestmark = [pytest.mark.integration]


class OffMachine(Machine):
    """A machine without a process, whose disks lie in one folder."""

    def is_on(self) -> bool:
        return False

    def disks(self) -> list[Disk]:
        return [Disk(name, str(Path(self.uuid) / name)) for name in ("vda", "vdb")]


@pytest.fixture
def machine(tmp_path):
    base = tmp_path / "base"
    host.run(["qemu-img", "create", "-q", "-f", "qcow2", str(base), "8M"])
    below = ["-b", str(base), "-F", "qcow2"]
    for name, words in (("vda", below), ("vdb", [])):
        host.run(["qemu-img", "create", "-q", "-f", "qcow2", *words, str(tmp_path / name), "8M"])
    return OffMachine("dev", str(tmp_path))


def write(machine: OffMachine, text: str) -> None:
    for disk in machine.disks():
        host.run(["qemu-io", "-c", f"write -P {ord(text)} 0 64k", disk.path])


def reads(machine: OffMachine, text: str) -> bool:
    command = ["qemu-io", "-c", f"read -P {ord(text)} 0 64k"]
    done = [host.run([*command, disk.path], check=False).code for disk in machine.disks()]
    return done == [0, 0]


def test_both_disks_go_back_and_what_came_after_is_lost(machine):
    write(machine, "a")
    machine.take("one")
    write(machine, "b")
    assert reads(machine, "b")
    assert not reads(machine, "a")
    machine.put_back("one")
    assert reads(machine, "a")
    (found,) = machine.snapshots()
    assert (found.name, found.disks) == ("one", ("vda", "vdb"))
    machine.drop("one")
    assert machine.snapshots() == []
    assert reads(machine, "a")


def test_one_that_fails_at_a_disk_is_taken_of_none(machine):
    Path(machine.disks()[1].path).write_bytes(b"no disk")
    with pytest.raises(HostError, match="qemu-img failed"):
        machine.take("one")
    listed = host.run(["qemu-img", "snapshot", "-l", machine.disks()[0].path]).stdout
    assert "one" not in listed
