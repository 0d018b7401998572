"""A VM's pool: which one is nobody's, and whose volumes go with it."""

from __future__ import annotations

import pytest

from provider import storage_pool
from provider.records import Record, Records
from provider.storage_pool import PoolCleanupResource, forget_pool, stray_pools
from tests.unit.provider.fake_libvirt import FakeLibvirt

OWN, OTHER = "p-vm-pool-1", "p-vm-pool-2"


@pytest.fixture
def libvirt(tmp_path, monkeypatch):
    """Two pools in the folder of the sandbox, and one that only sounds like it."""
    monkeypatch.setattr(storage_pool, "disk_folder", lambda sandbox: str(tmp_path / sandbox))
    targets = {OWN: "p", OTHER: "p", "p-else": "else", "q-vm-pool-1": "q"}
    pools = {name: str(tmp_path / folder) for name, folder in targets.items()}
    return FakeLibvirt(tmp_path, targets=pools, pools=list(pools))


def test_an_empty_pool_that_no_record_names_is_a_stray(libvirt):
    assert stray_pools(libvirt.virsh, "p", "") == [OWN, OTHER]
    assert stray_pools(libvirt.virsh, "p", OWN) == [OTHER]


def test_a_pool_with_a_file_is_somebodys_whatever_the_records_say(libvirt, tmp_path):
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "a-disk").write_text("days of work")
    assert stray_pools(libvirt.virsh, "p", "") == []


def test_a_stray_is_forgotten_with_its_empty_folder_alone(libvirt, tmp_path):
    (tmp_path / "p").mkdir()
    forget_pool(libvirt.virsh, OWN)
    assert OWN not in libvirt.pools
    assert not (tmp_path / "p").exists()
    forget_pool(libvirt.virsh, OTHER)  # without a folder
    assert libvirt.pools == ["p-else", "q-vm-pool-1"]


def test_with_the_pool_go_the_sandboxs_volumes_and_nobody_elses(libvirt, tmp_path):
    records = Records(tmp_path)
    cleanup = PoolCleanupResource(libvirt.virsh, lambda: records)
    inputs = {"sandbox": "p", "pool": OWN}
    resource_id, _ = cleanup.create(inputs)
    assert records.find("p", storage_pool.ROLE) == Record(OWN, {})
    libvirt.volumes = {name: tmp_path / name for name in ("p-vm-root-1", "a-users-file.iso")}
    cleanup.delete(resource_id, inputs)
    assert list(libvirt.volumes) == ["a-users-file.iso"]
    assert records.find("p", storage_pool.ROLE) is None
    cleanup.delete(resource_id, {**inputs, "pool": "gone"})
