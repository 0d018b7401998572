"""The gateway image: Envoy, Unbound and the control program, for the four containers of the pod."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from abox.pod import IMAGE_FOLDERS
from abox.render.paths import TRUST_DIR
from images.base import BASE, PYTHON_FOLDERS
from images.host import run
from images.recipe import PROJECT, Overlay, Recipe
from images.tree import (
    User,
    account_files,
    add_user,
    compile_python,
    make_folder,
    make_link,
    own_tree,
    write_file,
)
from images.wheels import install_wheels

ACCOUNTS = {"control": 10001, "proxy": 10002, "dns": 10003}
"""User and group id of each container's account; the pod runs them by number."""

VENV = "/opt/abox/venv"
LIB = "/opt/abox/lib"
LAUNCHER = "/opt/abox/bin/abox-gateway"
SITE_PACKAGES = f"{VENV}/lib/python3.11/site-packages"
ENVOY = f"{SITE_PACKAGES}/envoy/_bin/envoy"

REQUIREMENTS = PROJECT / "requirements/gateway.txt"

COPIED = ("abox", "gateway")
"""Packages of the checkout that run in `control`."""

# Made by Unbound's installation scripts, different every time; the pod makes what it needs.
UNBOUND_MADE = (
    "etc/unbound/unbound_control.key",
    "etc/unbound/unbound_control.pem",
    "etc/unbound/unbound_server.key",
    "etc/unbound/unbound_server.pem",
    "var/lib/unbound/root.key",
)

_CERTIFICATE = re.compile(r".+\.pem|[0-9a-f]{8}\.[0-9]+|ca-certificates\.crt")


def furnish(root: Path) -> None:
    """Add the Python venv, Envoy's link, the accounts and the public roots."""
    for name in UNBOUND_MADE:
        (root / name).unlink(missing_ok=True)
    _accounts(root)
    _copy_roots(root)
    _venv(root)
    make_link(root, "/usr/local/bin/envoy", ENVOY)
    make_link(root, "/usr/local/bin/abox-gateway", LAUNCHER)
    compile_python(root, (*PYTHON_FOLDERS, SITE_PACKAGES))


def copied_files() -> dict[str, Path]:
    """The project's modules that go into the image: path in the image → file of the checkout."""
    return {
        f"{LIB}/{path.relative_to(PROJECT)}": path
        for package in COPIED
        for path in sorted((PROJECT / package).rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".pyc"
    }


def write_overlay(root: Path, files: Mapping[str, Path]) -> None:
    """Lay out the project's modules, the launcher and the places of the pod's volumes.

    A volume takes content, owner and mode from its place when it is first used.
    """
    for name in ("/opt", "/opt/abox", LIB, "/opt/abox/bin"):
        make_folder(root, name)
    for name, source in files.items():
        target = root / name.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
        target.chmod(0o644)
    for path in (root / LIB.lstrip("/")).rglob("*"):
        if path.is_dir():
            path.chmod(0o755)
    for folder in IMAGE_FOLDERS:
        make_folder(root, folder.path, mode=folder.mode, uid=folder.owner, gid=folder.group)
    write_file(root, LAUNCHER, f'#!/bin/sh\nexec {VENV}/bin/python3 -m gateway "$@"\n', mode=0o755)
    if sys.version_info[:2] == (3, 11):
        _compile_here(root)


def _compile_here(root: Path) -> None:
    """Compile with this Python, whose bytecode is the image's: only where the versions agree."""
    lib = f"{root}{LIB}"
    run(
        [
            *(sys.executable, "-s", "-m", "compileall", "-q", "-f"),
            *("--invalidation-mode", "unchecked-hash", "-s", lib, "-p", LIB, lib),
        ],
        environment={"PYTHONHASHSEED": "0", "LC_ALL": "C.UTF-8"},
    )


def _accounts(root: Path) -> None:
    for name, number in ACCOUNTS.items():
        _drop_account(root, name)
        add_user(root, User(name=name, uid=number, gid=number, group=name, home="/nonexistent"))


def _drop_account(root: Path, name: str) -> None:
    """Take away Debian's own account of that name (there is a `proxy`, which nothing here uses)."""
    for path in account_files(root):
        kept = [line for line in path.read_text().splitlines() if not line.startswith(f"{name}:")]
        path.write_text("".join(f"{line}\n" for line in kept))


def _copy_roots(root: Path) -> None:
    """Copy the public roots to where the trust volume takes its first content from.

    Only that folder is mounted in the agent: links within it stay links, links that lead out of
    it become files.
    """
    trust = make_folder(root, TRUST_DIR)
    for path in sorted((root / "etc/ssl/certs").iterdir()):
        if not _CERTIFICATE.fullmatch(path.name):
            continue
        if path.is_symlink() and "/" not in str(path.readlink()):
            (trust / path.name).symlink_to(path.readlink())
            continue
        source = root / str(path.readlink()).lstrip("/") if path.is_symlink() else path
        shutil.copyfile(source, trust / path.name)
        (trust / path.name).chmod(0o644)
    own_tree(trust, uid=ACCOUNTS["control"], gid=ACCOUNTS["control"])


def _venv(root: Path) -> None:
    """A venv of the image's Python, made by hand: the tool writes paths of the building machine."""
    make_folder(root, f"{VENV}/bin")
    make_link(root, f"{VENV}/bin/python3", "/usr/bin/python3.11")
    write_file(
        root,
        f"{VENV}/pyvenv.cfg",
        "home = /usr/bin\ninclude-system-site-packages = false\nversion = 3.11\n",
    )
    site = make_folder(root, SITE_PACKAGES)
    install_wheels(site, REQUIREMENTS)
    (root / ENVOY.lstrip("/")).chmod(0o755)


GATEWAY = Recipe(
    name="gateway",
    variant="essential",
    packages=(*BASE.packages, "libstdc++6", "python3-unbound", "unbound"),  # libstdc++6: for grpcio
    inputs=(PROJECT / "images/gateway.py", PROJECT / "images/wheels.py", REQUIREMENTS),
    furnish=furnish,
    config={
        "Cmd": ["/usr/bin/tini", "--", "sleep", "infinity"],
        "Env": [
            "LANG=C.UTF-8",
            f"PATH={VENV}/bin:/opt/abox/bin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "PYTHONDONTWRITEBYTECODE=1",
            f"PYTHONPATH={LIB}",
            "PYTHONUNBUFFERED=1",
        ],
        "User": "65534:65534",
        "WorkingDir": "/",
    },
    parent=BASE,
    overlay=Overlay(
        files=copied_files,
        write=write_overlay,
        extra=f"{IMAGE_FOLDERS} {sys.version}",
    ),
)
