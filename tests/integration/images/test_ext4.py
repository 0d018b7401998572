"""The writer of root filesystems, with the real e2fsprogs."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from abox.errors import HostError
from images.ext4 import write_ext4
from tests import host

pytestmark = pytest.mark.integration

MB = 1024 * 1024


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A root filesystem with one of each kind that an image holds."""
    root = tmp_path / "root"
    (root / "etc").mkdir(parents=True)
    (root / "etc/plain").write_text("content\n")
    (root / 'etc/a "b" c').write_text("quoted")
    (root / "etc/link").symlink_to("plain")
    (root / "etc/again").hardlink_to(root / "etc/plain")
    (root / "bin").mkdir(mode=0o755)
    (root / "bin/sudo").write_text("x")
    (root / "bin/sudo").chmod(0o4755)
    (root / "tmp").mkdir()
    (root / "tmp").chmod(0o1777)
    (root / "home").mkdir()
    os.chown(root / "home", 1000, 1001)
    return root


def debugfs(image: Path, request: str) -> str:
    return host.run(["debugfs", "-R", request, str(image)]).stdout


def test_equal_trees_give_equal_bytes(tree: Path, tmp_path: Path) -> None:
    """Whatever the order of a folder and the times of its files, and whenever it is written."""
    first, second = tmp_path / "first.img", tmp_path / "second.img"
    write_ext4(tree, first, size_bytes=32 * MB, label="root")
    copy = tmp_path / "copy"
    for path in sorted(tree.rglob("*"), reverse=True):
        os.utime(path, (1, 1), follow_symlinks=False)
    host.run(["cp", "-a", "--reflink=never", str(tree), str(copy)])
    write_ext4(copy, second, size_bytes=32 * MB, label="root")
    assert first.read_bytes() == second.read_bytes()
    (copy / "etc/plain").write_text("content!")
    write_ext4(copy, second, size_bytes=32 * MB, label="root")
    assert first.read_bytes() != second.read_bytes()  # control


def test_everything_is_in_it(tree: Path, tmp_path: Path) -> None:
    """Contents, modes, owners, links, names with quotes; and e2fsck finds no fault."""
    image = tmp_path / "root.img"
    write_ext4(tree, image, size_bytes=32 * MB, label="root")
    assert debugfs(image, "cat /etc/plain") == "content\n"
    assert debugfs(image, 'cat "/etc/a ""b"" c"') == "quoted"
    assert 'Fast link dest: "plain"' in debugfs(image, "stat /etc/link")
    assert "Links: 2" in debugfs(image, "stat /etc/again")
    assert "Mode:  04755" in debugfs(image, "stat /bin/sudo")
    assert "Mode:  01777" in debugfs(image, "stat /tmp")
    owners = debugfs(image, "stat /home")
    assert "User:  1000" in owners
    assert "Group:  1001" in owners
    host.run(["e2fsck", "-f", "-n", str(image)])


def test_tree_that_does_not_fit_is_an_error(tree: Path, tmp_path: Path) -> None:
    """Debugfs itself ends with 0 all the same."""
    (tree / "large").write_bytes(os.urandom(8 * MB))
    with pytest.raises(HostError, match="was not written whole"):
        write_ext4(tree, tmp_path / "small.img", size_bytes=8 * MB, label="root")


def test_sockets_and_devices_are_left_out(tree: Path, tmp_path: Path) -> None:
    """A booted system makes its own."""
    os.mknod(tree / "tmp/null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
    os.mkfifo(tree / "tmp/pipe")
    image = tmp_path / "root.img"
    write_ext4(tree, image, size_bytes=32 * MB, label="root")
    listed = debugfs(image, "ls /tmp")
    assert "null" not in listed
    assert "pipe" not in listed
