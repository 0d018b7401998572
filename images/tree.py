"""Work on an unpacked root filesystem: cleaning, users, folders, bytecode.

Everything here leaves the same bytes for the same packages: no clock, no random, no trace of the
machine that built it.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from images.host import run

EMPTIED = (
    "dev",
    "proc",
    "sys",
    "run",
    "tmp",
    "var/tmp",
    "var/cache",
    "var/log",
    "var/backups",
    "var/lib/apt/lists",
    "usr/share/doc-base",
)
"""Folders of which only the folder itself stays."""

REMOVED = (
    ".dockerenv",
    "etc/.pwd.lock",
    "etc/hostname",  # of the building machine, as the next two
    "etc/hosts",
    "etc/resolv.conf",
    "etc/passwd-",
    "etc/group-",
    "etc/shadow-",
    "etc/gshadow-",
    "etc/subuid-",
    "etc/subgid-",
    "etc/apt/sources.list",
    "etc/apt/apt.conf.d/99mmdebstrap",
    "etc/apt/preferences.d/99abox",
    "etc/dpkg/dpkg.cfg.d/99mmdebstrap",
    "var/lib/dbus/machine-id",
    "var/lib/systemd/random-seed",
    "var/lib/ucf/cache",
)
"""Files that differ from build to build, tell about the building machine, or serve nobody."""

REMOVED_PATTERNS = (
    "etc/apt/sources.list.d/*",
    "etc/ssh/ssh_host_*",
    "var/lib/dpkg/*-old",
    "var/lib/dpkg/lock*",
    "var/lib/dpkg/triggers/Lock",
    "var/lib/ucf/*.[0-9]",
)
"""As `REMOVED`, for names with a part that varies."""

PRIVILEGED = stat.S_ISUID | stat.S_ISGID


@dataclass(frozen=True, kw_only=True)
class User:
    """An account of the image."""

    name: str
    uid: int
    gid: int
    group: str
    home: str
    login: str = "/usr/sbin/nologin"
    """The account's shell."""


def clean(root: Path) -> None:
    """Take away caches, logs, locks, host names, package sources and every bytecode file."""
    for name in EMPTIED:
        _empty(root / name)
    for name in REMOVED:
        (root / name).unlink(missing_ok=True)
    for pattern in REMOVED_PATTERNS:
        for path in sorted(root.glob(pattern)):
            path.unlink()
    for cache in sorted(root.rglob("__pycache__")):
        shutil.rmtree(cache)
    machine_id = root / "etc/machine-id"
    machine_id.write_bytes(b"")  # present and empty: to be filled at the first boot, if ever
    if (shadow := root / "etc/shadow").exists():
        _freeze_shadow(shadow)


def strip_privileges(root: Path) -> list[str]:
    """Take set-user-id and set-group-id from every file; returns the paths that had one."""
    found: list[str] = []
    for folder, _, names in os.walk(root):
        for name in names:
            path = Path(folder, name)
            mode = path.lstat().st_mode
            if stat.S_ISREG(mode) and mode & PRIVILEGED:
                path.chmod(stat.S_IMODE(mode) & ~PRIVILEGED)
                found.append(str(path.relative_to(root)))
    return sorted(found)


def add_user(root: Path, user: User) -> None:
    """Write the account and its group into the image's own files; nobody can log in with it."""
    _append(root / "etc/passwd", f"{user.name}:x:{user.uid}:{user.gid}::{user.home}:{user.login}")
    if (shadow := root / "etc/shadow").exists():  # not without the package passwd
        _append(shadow, f"{user.name}:*:{_LAST_CHANGE}:0:99999:7:::")
    _append(root / "etc/group", f"{user.group}:x:{user.gid}:")
    if (shadow := root / "etc/gshadow").exists():
        _append(shadow, f"{user.group}:!::")


def account_files(root: Path) -> list[Path]:
    """The image's files that hold one account or group a line."""
    names = ("passwd", "shadow", "group", "gshadow")
    return [path for name in names if (path := root / "etc" / name).exists()]


def make_folder(root: Path, path: str, *, mode: int = 0o755, uid: int = 0, gid: int = 0) -> Path:
    """Make a folder (parents belong to root); returns where it is on the building machine."""
    target = root / path.lstrip("/")
    target.mkdir(parents=True, exist_ok=True)
    os.chown(target, uid, gid)
    target.chmod(mode)  # after chown, which clears set-group-id
    return target


def write_file(
    root: Path, path: str, content: str, *, mode: int = 0o644, uid: int = 0, gid: int = 0
) -> None:
    """Write a text file with its owner and mode."""
    target = root / path.lstrip("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(content, encoding="utf-8")
    os.chown(target, uid, gid)
    target.chmod(mode)


def make_link(root: Path, path: str, target: str) -> None:
    """Make a symbolic link, in place of whatever file was there."""
    link = root / path.lstrip("/")
    link.parent.mkdir(parents=True, exist_ok=True)
    link.unlink(missing_ok=True)
    link.symlink_to(target)


def own_tree(path: Path, *, uid: int, gid: int) -> None:
    """Give a folder and all below it to one owner."""
    os.chown(path, uid, gid)
    for folder, folders, names in os.walk(path):
        for name in (*folders, *names):
            os.chown(Path(folder, name), uid, gid, follow_symlinks=False)


def in_tree(root: Path, *command: str, environment: Mapping[str, str] | None = None) -> str:
    """Run a program of the image inside the image."""
    settings = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8", "HOME": "/root"}
    return run(
        ["chroot", str(root), *command],
        timeout_s=600,
        environment={**settings, **(environment or {})},
    )


def compile_python(root: Path, paths: Iterable[str]) -> None:
    """Compile Python files inside the image, so that a read-only image starts fast.

    Bytecode that names its source by hash is the same in every build; the usual kind names it by
    time. One process, one hash seed: both show in the bytes otherwise.

    Args:
        root: the image's root filesystem.
        paths: folders inside the image whose sources can't change.
    """
    in_tree(
        root,
        *("python3", "-s", "-m", "compileall", "-q", "-f", "--invalidation-mode", "unchecked-hash"),
        *paths,
        environment={"PYTHONHASHSEED": "0"},
    )


def installed_packages(root: Path) -> dict[str, str]:
    """Debian packages of the image and their versions, by name."""
    packages: dict[str, str] = {}
    for paragraph in (root / "var/lib/dpkg/status").read_text(encoding="utf-8").split("\n\n"):
        fields = dict(
            line.split(": ", 1)
            for line in paragraph.splitlines()
            if line[:1] != " " and ": " in line
        )
        if fields.get("Status", "").endswith(" installed"):
            packages[fields["Package"]] = fields["Version"]
    return dict(sorted(packages.items()))


_LAST_CHANGE = 18262
"""Day of every password entry's last change, counted from 1970: 2020-01-01, as all else."""


def _freeze_shadow(path: Path) -> None:
    frozen = []
    for line in path.read_text().splitlines():
        fields = line.split(":")
        fields[2] = str(_LAST_CHANGE)
        frozen.append(":".join(fields) + "\n")
    path.write_text("".join(frozen))


def _append(path: Path, line: str) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(line + "\n")


def _empty(folder: Path) -> None:
    if not folder.is_dir():
        return
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
