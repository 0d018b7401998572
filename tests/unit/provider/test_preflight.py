"""Preflight for VMs: everything that is missing, all at once, before anything is made."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from abox.errors import HostError
from provider.digests import file_digest
from provider.host import is_readable
from provider.preflight import VM_TOOLS, Preflight
from tests.unit.provider.samples import MACHINE, hypervisor


class Engine:
    def info(self):
        return {"DockerRootDir": "/"}

    def find_image(self, image):
        return {"Id": image}


def checks(free_mb=100_000, *, has_ipv6=True, **changes):
    machines = replace(hypervisor([]), **changes)
    return Preflight(Engine, lambda: 0, lambda _: free_mb, lambda: "/", machines, lambda: has_ipv6)


def told(preflight, machine=MACHINE, *, ipv6=False):
    return [str(error) for error in preflight.errors([], machine, ipv6=ipv6)]


def test_a_kernel_without_ipv6_is_told_where_ipv6_is_wanted():
    assert told(checks(has_ipv6=False)) == []
    assert told(checks(), ipv6=True) == []
    (error,) = told(checks(has_ipv6=False), ipv6=True)
    assert "allow_private_cidrs" in error


def fail(*_):
    raise HostError(what="virsh failed", why="no daemon listens", remedy="start it")


def missing(_):
    raise FileNotFoundError(2, "No such file or directory")


def test_a_host_that_has_all_is_fine():
    assert told(checks()) == []


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"has_tool": lambda name: name != "xsltproc"}, "needs xsltproc"),
        ({"has_tool": lambda _: False}, ", ".join(VM_TOOLS)),
        ({"virsh": fail}, "libvirt doesn't answer"),
        ({"memory_mb": lambda: 512}, "vm.memory_mb: 1024 is refused"),
        ({"file_digest": missing}, "can't be read"),
        ({"file_digest": lambda _: "1" * 64}, "isn't the one that was named"),
        ({"is_readable": lambda _: False}, "can't be read by QEMU"),
        ({"free_mb": 1000}, "/disks has 1000 MB left"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_whatever_is_missing_is_told_in_three_lines(changes, what):
    (error,) = told(checks(**changes))
    assert what in error
    assert len(error.splitlines()) == 3


def test_a_sandbox_without_a_vm_needs_none_of_it():
    assert told(checks(has_tool=lambda _: False, memory_mb=lambda: 0), {}) == []


def test_all_that_is_missing_is_told_at_once():
    preflight = checks(virsh=fail, memory_mb=lambda: 1, file_digest=missing)
    assert len(told(preflight)) == 3


def test_a_digest_is_remembered_until_the_file_changes(tmp_path):
    image, memory = tmp_path / "disk", tmp_path / "memory"
    image.write_bytes(b"one")
    first = file_digest(image, memory)
    assert file_digest(image, memory) == first
    image.write_bytes(b"two")
    second = file_digest(image, memory)
    assert second != first
    (entry,) = memory.glob("*.json")
    entry.unlink()
    assert file_digest(image, memory) == second


def test_a_file_behind_a_closed_folder_is_not_readable(tmp_path):
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    (closed / "disk").write_bytes(b"")
    assert not is_readable(str(closed / "disk"))
    assert not is_readable(str(tmp_path / "gone"))
    assert is_readable(str(Path("/etc/passwd")))
