"""Files of the image of virtual machines: named by content, found again, reachable for QEMU."""

from __future__ import annotations

import json
import stat
from dataclasses import asdict
from pathlib import Path

import pytest

from abox.errors import HostError
from images import disk
from images.lock import Locked, LockedFile, read_lock, write_lock
from images.vm import CMDLINES, VM
from toolchain.plugins.libvirt.domain_document import command_line, split_command_line

ID = f"sha256:{'a' * 64}"
RECIPE = "b" * 64


@pytest.fixture
def image(tmp_path: Path) -> Locked:
    """A recorded image whose files are there."""
    files = {}
    for name in disk.ENDINGS:
        path = tmp_path / name
        path.write_text(name)
        files[name] = LockedFile(path=str(path), sha256="c" * 64, size=len(name))
    made = Locked(id=ID, recipe=RECIPE, packages={"bash": "5"}, files=files, cmdlines=[{"a": "1"}])
    (tmp_path / f"{RECIPE}.json").write_text(json.dumps(asdict(made)))
    return made


def test_built_image_is_found_by_its_recipe(image: Locked, tmp_path: Path) -> None:
    """Another checkout of the host takes it from there."""
    assert disk.find(RECIPE, tmp_path) == image
    assert disk.find("d" * 64, tmp_path) is None


@pytest.mark.parametrize("name", disk.ENDINGS)
def test_image_with_a_lost_or_cut_file_is_none(image: Locked, tmp_path: Path, name: str) -> None:
    """It is built anew."""
    (tmp_path / name).write_text("")
    assert disk.find(RECIPE, tmp_path) is None
    (tmp_path / name).unlink()
    assert disk.find(RECIPE, tmp_path) is None


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"files": {"disk": 1}}', '{"files": []}'])
def test_damaged_record_is_none(tmp_path: Path, text: str) -> None:
    """It is built anew."""
    (tmp_path / f"{RECIPE}.json").write_text(text)
    assert disk.find(RECIPE, tmp_path) is None


def test_lock_file_keeps_what_virtual_machines_need(image: Locked, tmp_path: Path) -> None:
    """Files and kernel parameters go there and back; the other images' entries stay short."""
    path = tmp_path / "lock.json"
    plain = Locked(id=ID, recipe=RECIPE, packages={})
    write_lock({"vm": image, "base": plain}, path)
    assert read_lock(path) == {"vm": image, "base": plain}
    assert json.loads(path.read_text())["base"].keys() == {"id", "recipe", "packages"}


@pytest.mark.parametrize("change", [{"files": {"disk": {}}}, {"files": 7}, {"cmdlines": "ro"}])
def test_damaged_entry_counts_as_absent(image: Locked, tmp_path: Path, change: object) -> None:
    """Only whole entries are believed."""
    path = tmp_path / "lock.json"
    assert isinstance(change, dict)
    path.write_text(json.dumps({"vm": {**asdict(image), **change}}))
    assert read_lock(path) == {}


def test_folder_can_be_entered_and_its_parents_not_listed(tmp_path: Path) -> None:
    """QEMU's user gets to the files; leases and other state beside them stay private."""
    state = tmp_path / "abox"
    state.mkdir(mode=0o700)
    (state / "leases").mkdir(mode=0o700)
    folder = state / "images" / "vm"
    disk.make_reachable(folder)
    assert stat.S_IMODE(state.stat().st_mode) == 0o711
    assert stat.S_IMODE((state / "leases").stat().st_mode) == 0o700
    assert stat.S_IMODE(folder.stat().st_mode) == 0o755
    assert stat.S_IMODE((state / "images").stat().st_mode) & 0o111 == 0o111


def test_other_architectures_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything is downloaded."""
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    with pytest.raises(HostError, match="this machine is aarch64"):
        disk.build(VM, Path("/nonexistent"), Path("/nonexistent"), None)  # type: ignore[arg-type]


def test_kernel_parameters_come_back_as_they_are_written() -> None:
    """In this form a refresh of the domain shows no difference."""
    given = [dict(group) for group in CMDLINES]
    assert split_command_line(command_line(given)) == given
