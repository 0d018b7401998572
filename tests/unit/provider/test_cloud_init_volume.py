"""CloudInitVolume: the name tells the content, and the content is read back."""

from __future__ import annotations

import pytest

from abox.render.nocloud import image_digest
from provider.cloud_init_volume import CloudInitVolumeResource
from provider.resource import UNKNOWN
from tests.unit.provider.fake_libvirt import FakeLibvirt

INPUTS = {
    "sandbox": "p",
    "pool": "pool1",
    "meta_data": "instance-id: a\n",
    "network_config": "version: 2\n",
    "user_data": "#cloud-config\n{}\n",
    "boot_script": "",
}


@pytest.fixture
def libvirt(tmp_path):
    return FakeLibvirt(tmp_path)


@pytest.fixture
def resource(libvirt):
    return CloudInitVolumeResource(libvirt.virsh, libvirt.read_file)


def test_the_name_holds_the_digest_of_the_content(resource, libvirt):
    path, state = resource.create(INPUTS)
    (name,) = libvirt.volumes
    assert state["digest"] == image_digest(libvirt.volumes[name].read_bytes())
    assert name == f"p-seed-{state['digest'][:16]}.img"
    assert path == str(libvirt.volumes[name])


def test_the_digest_is_known_in_preview(resource):
    assert resource.planned(INPUTS, None)["digest"] == resource.create(INPUTS)[1]["digest"]
    assert resource.planned({**INPUTS, "user_data": UNKNOWN}, None)["digest"] == UNKNOWN


def test_swapped_content_is_drift_and_written_again(resource, libvirt):
    path, state = resource.create(INPUTS)
    (volume,) = libvirt.volumes.values()
    volume.write_bytes(b"#cloud-config of somebody else")
    read = resource.read(path, {**INPUTS, **state})
    assert resource.drift(read, INPUTS)
    resource.update(path, state, INPUTS)
    assert not resource.drift(resource.read(path, {**INPUTS, **state}), INPUTS)


def test_a_removed_file_is_gone(resource, libvirt):
    path, state = resource.create(INPUTS)
    next(iter(libvirt.volumes.values())).unlink()
    assert resource.read(path, {**INPUTS, **state}) is None


def test_deleting_copes_with_parts_that_are_gone(resource, libvirt):
    path, state = resource.create(INPUTS)
    libvirt.pools.clear()
    resource.delete(path, {**INPUTS, **state})  # the pool went, and the volume with it
    libvirt.pools.append("pool1")
    libvirt.volumes.clear()
    resource.delete(path, {**INPUTS, **state})
