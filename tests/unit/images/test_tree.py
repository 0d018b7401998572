"""Work on an unpacked root filesystem."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from images.tree import (
    User,
    add_user,
    clean,
    installed_packages,
    make_folder,
    make_link,
    strip_privileges,
    write_file,
)

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="owners and modes need root")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root filesystem with the files that every Debian has."""
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/passwd").write_text("root:x:0:0::/root:/bin/sh\n")
    (tmp_path / "etc/group").write_text("root:x:0:\n")
    (tmp_path / "etc/shadow").write_text("root:*:20605:0:99999:7:::\n")
    (tmp_path / "etc/gshadow").write_text("root:*::\n")
    return tmp_path


@pytest.mark.parametrize(
    "path",
    [
        "etc/resolv.conf",
        "etc/hostname",
        "etc/apt/sources.list.d/0000sources.list",
        "etc/apt/apt.conf.d/99mmdebstrap",
        "var/log/apt/history.log",
        "var/cache/ldconfig/aux-cache",
        "var/lib/apt/lists/mirror.test_Packages",
        "var/lib/dpkg/status-old",
        "usr/lib/python3.11/__pycache__/os.cpython-311.pyc",
        "etc/ssh/ssh_host_ed25519_key",
    ],
)
def test_traces_of_the_build_are_gone(root: Path, path: str) -> None:
    """Nothing of the building machine, of its clock or of the package manager's cache stays."""
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text("trace")
    kept = root / "usr/lib/os-release"
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_text("kept")
    clean(root)
    assert not (root / path).exists()
    assert kept.read_text() == "kept"


def test_day_of_the_build_is_not_in_the_password_file(root: Path) -> None:
    """The day of a password's last change is the same in every build."""
    clean(root)
    assert (root / "etc/shadow").read_text() == "root:*:18262:0:99999:7:::\n"


def test_no_file_keeps_a_privilege_bit(root: Path) -> None:
    """Set-user-id and set-group-id go from files and stay on folders, where they are harmless."""
    for name, mode in [("su", 0o4755), ("wall", 0o2755), ("both", 0o6755), ("ls", 0o755)]:
        (root / name).touch()
        (root / name).chmod(mode)
    make_folder(root, "/var/mail", mode=0o2775)
    assert strip_privileges(root) == ["both", "su", "wall"]
    modes = {name: stat.S_IMODE((root / name).stat().st_mode) for name in ("su", "wall", "both")}
    assert set(modes.values()) == {0o755}
    assert stat.S_IMODE((root / "var/mail").stat().st_mode) == 0o2775


def test_account_can_not_log_in(root: Path) -> None:
    """An account has no password, by which nobody could log in with it."""
    add_user(root, User(name="agent", uid=1000, gid=1000, group="agent", home="/home/agent"))
    assert (root / "etc/passwd").read_text().splitlines()[1] == (
        "agent:x:1000:1000::/home/agent:/usr/sbin/nologin"
    )
    assert (root / "etc/shadow").read_text().splitlines()[1].startswith("agent:*:")
    assert (root / "etc/group").read_text().splitlines()[1] == "agent:x:1000:"


def test_account_without_shadow_file(root: Path) -> None:
    """Where Debian has no shadow file none is made up."""
    (root / "etc/shadow").unlink()
    (root / "etc/gshadow").unlink()
    add_user(root, User(name="a", uid=1, gid=2, group="g", home="/"))
    assert not (root / "etc/shadow").exists()
    assert "a:x:1:2:" in (root / "etc/passwd").read_text()


def test_folders_have_the_mode_asked_for(root: Path) -> None:
    """Owner and set-group-id arrive together, although the one clears the other."""
    folder = make_folder(root, "/run/abox/sds", mode=0o2750, uid=10001, gid=10002)
    found = folder.stat()
    assert (stat.S_IMODE(found.st_mode), found.st_uid, found.st_gid) == (0o2750, 10001, 10002)


def test_link_replaces_what_was_there(root: Path) -> None:
    """A link can be made twice, and over a file."""
    write_file(root, "/usr/local/bin/envoy", "old")
    for _ in range(2):
        make_link(root, "/usr/local/bin/envoy", "/opt/envoy")
    assert str((root / "usr/local/bin/envoy").readlink()) == "/opt/envoy"


def test_packages_are_read_from_dpkgs_own_record(root: Path) -> None:
    """Installed packages count, removed ones don't, long descriptions don't confuse."""
    (root / "var/lib/dpkg").mkdir(parents=True)
    (root / "var/lib/dpkg/status").write_text(
        "Package: b\nStatus: install ok installed\nVersion: 1:2-3\nDescription: x\n Version: 9\n\n"
        "Package: gone\nStatus: deinstall ok config-files\nVersion: 1\n\n"
        "Package: a\nStatus: install ok installed\nVersion: 0\n"
    )
    assert list(installed_packages(root).items()) == [("a", "0"), ("b", "1:2-3")]
