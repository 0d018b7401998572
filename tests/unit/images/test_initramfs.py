"""The initial root filesystem: an archive that the kernel reads, the same for the same kernel."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from abox.errors import HostError
from images.initramfs import INIT, MODULES, cpio, initramfs

HEADER = 110


def unpacked(archive: bytes) -> dict[str, tuple[int, bytes]]:
    """Name → mode and content; reads the format by itself."""
    entries: dict[str, tuple[int, bytes]] = {}
    at = 0
    while True:
        assert archive[at : at + 6] == b"070701"
        fields = [int(archive[at + 6 + 8 * i : at + 14 + 8 * i], 16) for i in range(13)]
        mode, size, name_size = fields[1], fields[6], fields[11]
        name = archive[at + HEADER : at + HEADER + name_size - 1].decode()
        start = -(-(at + HEADER + name_size) // 4) * 4
        if name == "TRAILER!!!":
            return entries
        entries[name] = (mode, archive[start : start + size])
        at = -(-(start + size) // 4) * 4


@given(st.dictionaries(st.text("abc/", min_size=1, max_size=9), st.binary(max_size=9)))
def test_archive_holds_what_was_put_in(files: dict[str, bytes]) -> None:
    """Whatever the lengths: everything is padded to four bytes."""
    mode = stat.S_IFREG | 0o644
    archive = cpio([(name, mode, content) for name, content in files.items()])
    assert unpacked(archive) == {name: (mode, content) for name, content in files.items()}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root filesystem with a kernel's modules and the program."""
    folder = tmp_path / "usr/lib/modules/6.1.0/kernel/drivers/virtio"
    folder.mkdir(parents=True)
    for name in MODULES:
        (folder / f"{name}.ko").write_text(name)
    (tmp_path / INIT).parent.mkdir(parents=True)
    (tmp_path / INIT).write_text("program")
    return tmp_path


def test_modules_are_listed_in_the_order_of_loading(root: Path) -> None:
    """Each is in the archive, beside the program that loads them; equal input, equal bytes."""
    entries = unpacked(initramfs(root))
    assert entries["modules"][1].decode().splitlines() == [f"/{name}.ko" for name in MODULES]
    assert entries["init"] == (stat.S_IFREG | 0o755, b"program")
    assert {name for name, (mode, _) in entries.items() if stat.S_ISDIR(mode)} == {
        "dev",
        "proc",
        "target",
    }
    assert all(f"{name}.ko" in entries for name in MODULES)
    assert initramfs(root) == initramfs(root)


def test_missing_or_doubtful_module_is_an_error(root: Path) -> None:
    """A kernel without it, or two kernels: nothing is guessed."""
    other = root / "usr/lib/modules/6.1.1/kernel"
    other.mkdir(parents=True)
    (other / "virtio.ko").touch()
    with pytest.raises(HostError, match="kernel module virtio: 2 in the image"):
        initramfs(root)
    (other / "virtio.ko").unlink()
    next(root.rglob("virtio_net.ko")).unlink()
    with pytest.raises(HostError, match="kernel module virtio_net: 0 in the image"):
        initramfs(root)


def test_missing_program_is_an_error(root: Path) -> None:
    """The image's packages lack it."""
    (root / INIT).unlink()
    with pytest.raises(HostError, match="init-static is not in the image"):
        initramfs(root)
