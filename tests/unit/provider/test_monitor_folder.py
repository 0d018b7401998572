"""The folder of the monitor port: root's, with a way in for QEMU's group alone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from abox.errors import HostError
from provider import host
from provider.host import FolderFacts
from provider.monitor_folder import MODE, MonitorFolder, MonitorFolderResource, qemu_group
from provider.resource import Failure
from tests.unit.provider.fake_libvirt import CAPABILITIES, QEMU_GROUP, FakeLibvirt

WANTED = FolderFacts(owner=0, group=QEMU_GROUP, mode=MODE)


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "sandboxes" / "p" / "monitor"
    return MonitorFolder(path, FakeLibvirt(tmp_path).virsh, lambda _: True)


def test_qemus_group_may_reach_what_is_in_it_and_nobody_else(folder):
    folder.apply()
    assert folder.findings() == []
    assert host.read_folder(folder.path) == WANTED
    assert MODE == 0o710


def test_others_may_pass_through_the_instance_directory_and_not_list_it(folder):
    folder.path.parent.mkdir(mode=0o700, parents=True)
    folder.apply()
    assert folder.path.parent.stat().st_mode & 0o777 == 0o701


@pytest.mark.parametrize(
    "spoil",
    [lambda p: p.chmod(0o777), lambda p: os.chown(p, 5, QEMU_GROUP), lambda p: os.chown(p, 0, 5),
     lambda p: p.rmdir()],
)  # fmt: skip
def test_a_changed_folder_is_seen_and_mended(folder, spoil):
    folder.apply()
    spoil(folder.path)
    assert len(folder.findings()) == 1
    folder.apply()
    assert folder.findings() == []


def test_folders_above_that_keep_qemu_out_are_told(folder):
    closed = MonitorFolder(folder.path, folder.virsh, lambda _: False)
    with pytest.raises(HostError, match="can't reach") as caught:
        closed.apply()
    assert "pass through" in caught.value.why


def test_every_folder_on_the_way_counts(tmp_path):
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    for path in (tmp_path / "a", inner):
        path.chmod(0o711)
    outside = host.can_be_entered(tmp_path)
    assert host.can_be_entered(inner) is outside
    (tmp_path / "a").chmod(0o710)
    assert not host.can_be_entered(inner)
    assert not host.can_be_entered(tmp_path / "nowhere")
    assert host.can_be_entered(Path("/usr/bin"))  # control


def test_it_goes_with_its_sandbox_whatever_is_in_it(folder):
    folder.apply()
    (folder.path / "last.json").write_text("{}")
    others = folder.path.parent.parent / "q"
    folder.remove()
    assert not folder.path.parent.exists()
    assert others.parent.exists()
    folder.remove()


def test_a_path_that_no_socket_can_have_is_refused_at_preview(tmp_path):
    def problems(state: Path) -> list[Failure]:
        virsh = FakeLibvirt(tmp_path).virsh
        resource = MonitorFolderResource(virsh, lambda _: True, lambda: state)
        return list(resource.problems({"sandbox": "p"}, {}))

    assert problems(Path("/var/lib/abox")) == []
    (told,) = problems(tmp_path / ("x" * 100))
    assert "shorten" in told.reason


@pytest.mark.parametrize(
    ("text", "group"),
    [(CAPABILITIES, QEMU_GROUP), ("<capabilities><host/></capabilities>", 0)],
)
def test_the_group_is_libvirts(text, group):
    assert qemu_group(text) == group
