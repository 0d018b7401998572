"""The lock file of images and disk images are read, or refused in three lines."""

import json

import pytest

from abox.errors import HostError
from abox.settings import VmSettings
from components.images import LOCK_FILE, read_image_ids, read_machine
from components.vm import GIGABYTE, Machine

GOOD = {role: {"id": "sha256:" + digit * 64} for role, digit in (("gateway", "a"), ("agent", "b"))}


def write(root, text):
    path = root / LOCK_FILE
    path.parent.mkdir(parents=True)
    path.write_text(text)


def test_ids_are_read_by_role(tmp_path):
    write(tmp_path, json.dumps(GOOD))
    assert read_image_ids(tmp_path) == {r: GOOD[r]["id"] for r in GOOD}


def test_a_missing_lock_says_what_to_run(tmp_path):
    with pytest.raises(HostError, match="make images"):
        read_image_ids(tmp_path)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"gateway": {}}', '{"gateway": 1}', "\x00"])
def test_anything_else_is_refused(tmp_path, text):
    write(tmp_path, text)
    with pytest.raises(HostError, match="can't be read"):
        read_image_ids(tmp_path)


def locked_vm(folder):
    disk = folder / "disk.qcow2"
    size = (4 * GIGABYTE).to_bytes(8, "big")
    disk.write_bytes((b"QFI\xfb" + (3).to_bytes(4, "big")).ljust(24, b"\0") + size + b"\0" * 99)
    entry = {
        "id": "sha256:" + "c" * 64,
        "files": {
            "disk": {"path": str(disk), "sha256": "c" * 64},
            "kernel": {"path": "/images/vmlinuz"},
            "initrd": {"path": "/images/initrd"},
        },
        "cmdlines": [{"root": "/dev/vda"}, {"_": "ro"}],
    }
    return json.dumps({"vm": entry})


def vm(**settings):
    return VmSettings(**settings)


def test_the_built_disk_boots_with_its_kernel(tmp_path):
    write(tmp_path, locked_vm(tmp_path))
    machine = read_machine(tmp_path, vm(), "qemu")
    assert machine == Machine(
        image=str(tmp_path / "disk.qcow2"),
        digest="c" * 64,
        format="qcow2",
        kernel="/images/vmlinuz",
        initrd="/images/initrd",
        cmdlines=({"root": "/dev/vda"}, {"_": "ro"}),
        acceleration="qemu",
    )


def test_a_disk_smaller_than_the_image_is_refused(tmp_path):
    write(tmp_path, locked_vm(tmp_path))
    with pytest.raises(HostError, match=r"vm\.disk_gb: 3 is refused") as caught:
        read_machine(tmp_path, vm(disk_gb=3), "qemu")
    assert "write 4 or more" in str(caught.value)


@pytest.mark.parametrize("text", [json.dumps(GOOD), "{", '{"vm": {"files": {}}}'])
def test_a_lock_without_the_vm_image_says_what_to_run(tmp_path, text):
    write(tmp_path, text)
    with pytest.raises(HostError, match="make vm"):
        read_machine(tmp_path, vm(), "qemu")


def test_a_built_disk_that_was_removed_says_what_to_run(tmp_path):
    write(tmp_path, locked_vm(tmp_path))
    (tmp_path / "disk.qcow2").unlink()
    with pytest.raises(HostError, match="make vm"):
        read_machine(tmp_path, vm(), "qemu")


def own(path):
    return vm(image=f"{path}@sha256:{'d' * 64}")


def test_an_image_of_the_users_own_boots_by_itself(tmp_path):
    disk = tmp_path / "disk.img"
    disk.write_bytes(b"\0" * 510 + b"\x55\xaa" + b"\0" * 512)
    machine = read_machine(tmp_path, own(disk), "kvm")
    assert (machine.image, machine.format, machine.digest) == (str(disk), "raw", "d" * 64)
    assert (machine.kernel, machine.initrd, machine.cmdlines) == ("", "", ())
    assert machine.acceleration == "kvm"


def test_an_image_that_is_no_disk_or_not_there_is_refused_in_three_lines(tmp_path):
    text = tmp_path / "notes.txt"
    text.write_text("no disk")
    for path, said in ((text, "neither a qcow2"), (tmp_path / "gone", "No such file")):
        with pytest.raises(HostError, match=said) as caught:
            read_machine(tmp_path, own(path), "qemu")
        assert len(str(caught.value).splitlines()) == 3
        assert "vm.image" in str(caught.value)
