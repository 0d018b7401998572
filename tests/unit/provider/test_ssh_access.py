"""SshAccess: files for root's eyes alone, and noticed when somebody changes them."""

from __future__ import annotations

import pytest

from provider import host
from provider.ssh_access import SshAccessResource
from provider.ssh_key import make_key


@pytest.fixture
def inputs():
    key = make_key()
    return {
        "sandbox": "p",
        "address": "10.10.0.10",
        "user": "agent",
        "host_public": key.public,
        "private_key": key.private,
    }


@pytest.fixture
def resource(tmp_path):
    return SshAccessResource(lambda: tmp_path, host.write_private)


def test_the_files_are_their_owners_alone(resource, inputs, tmp_path):
    resource.create(inputs)
    folder = tmp_path / "sandboxes" / "p" / "ssh"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {path.name: path.stat().st_mode & 0o777 for path in folder.iterdir()} == {
        "config": 0o600,
        "id_ed25519": 0o600,
        "known_hosts": 0o600,
    }


def test_the_guest_is_known_before_the_first_login(resource, inputs, tmp_path):
    resource.create(inputs)
    known = (tmp_path / "sandboxes" / "p" / "ssh" / "known_hosts").read_text()
    assert known == f"guest {inputs['host_public']}\n"


@pytest.mark.parametrize("name", ["config", "id_ed25519", "known_hosts"])
def test_a_changed_file_is_drift_and_repaired(resource, inputs, tmp_path, name):
    resource_id, state = resource.create(inputs)
    path = tmp_path / "sandboxes" / "p" / "ssh" / name
    path.write_text("Host *\n  ProxyCommand evil\n")
    read = resource.read(resource_id, {**inputs, **state})
    assert resource.drift(read, inputs)
    resource.update(resource_id, state, inputs)
    assert resource.drift(resource.read(resource_id, {**inputs, **state}), inputs) == {}


@pytest.mark.parametrize("name", ["config", "id_ed25519", "known_hosts"])
def test_a_lost_file_makes_it_gone(resource, inputs, tmp_path, name):
    resource_id, state = resource.create(inputs)
    (tmp_path / "sandboxes" / "p" / "ssh" / name).unlink()
    assert resource.read(resource_id, {**inputs, **state}) is None


def test_nothing_is_left(resource, inputs, tmp_path):
    resource_id, state = resource.create(inputs)
    resource.delete(resource_id, {**inputs, **state})
    assert not (tmp_path / "sandboxes" / "p").exists()
