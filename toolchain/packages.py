"""Debian packages: installs what is missing, and only that."""

import contextlib
import importlib.util
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from abox.errors import HostError, SettingsError
from toolchain import shell
from toolchain.layout import HOST_RUN
from toolchain.locks import exclusive
from toolchain.progress import Step

LOCK_TIMEOUT_S = 600
"""Seconds to wait while another process installs packages."""

LOCK_RETRY_S = 5.0
"""Seconds between two tries where apt-get doesn't wait by itself."""

SERVICE_COMMANDS = ("invoke-rc.d", "deb-systemd-invoke", "deb-systemd-helper", "update-rc.d")
"""What packages call to start their services, now and at the next boot."""


@dataclass(frozen=True)
class Package:
    """A Debian package and what makes it unnecessary."""

    name: str
    provides: str
    """A command on PATH, `module:` and the name of a Python module, or `file:` and a path."""


def parse_packages(text: str, path: str) -> list[Package]:
    """Packages of a list: one a line, `#` starts a comment.

    Raises:
        SettingsError: a line that isn't a package and what it provides.
    """
    packages = []
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        if len(words) != 2:
            raise SettingsError(
                what=f"{path}:{number}: {line.strip()!r} is refused",
                why="a line holds a package and the command or module that it provides",
                remedy="write for example 'nftables  nft'",
            )
        packages.append(Package(*words))
    return packages


def is_present(package: Package) -> bool:
    """Whether what a package provides is there, whoever installed it."""
    kind, _, name = package.provides.partition(":")
    if kind == "module":
        return importlib.util.find_spec(name) is not None
    if kind == "file":
        return Path(name).exists()
    return shell.which(package.provides) is not None


def install(
    lists: list[Path],
    step: Step,
    *,
    services: bool = True,
    present: Callable[[Package], bool] = is_present,
) -> None:
    """Install the packages of some lists that are missing.

    Args:
        lists: files with a package a line.
        step: what tells the progress.
        services: whether services that come with a package may start.
        present: says whether a package is unnecessary.

    Raises:
        HostError: packages are missing and can't be installed.
    """
    wanted = [each for path in lists for each in parse_packages(path.read_text(), path.name)]
    missing = [package for package in wanted if not present(package)]
    if not missing:
        step.done(f"all {len(wanted)} present")
        return
    _require_apt(" ".join(package.name for package in missing))
    with exclusive(HOST_RUN / "packages.lock", lambda: step.say("waiting for another run")):
        missing = [package for package in missing if not present(package)]
        names = [package.name for package in missing]
        if names:
            step.say(f"installing {' '.join(names)}")
            _apt(["update"], step)
            with contextlib.ExitStack() as stack:
                options = [] if services else stack.enter_context(_no_services())
                _apt(["install", "--no-install-recommends", *options, *names], step)
    _require_present(missing, present)
    step.done(f"installed {' '.join(names)}" if names else "installed by another run")


@contextlib.contextmanager
def _no_services() -> Iterator[list[str]]:
    """Options of apt-get with which packages find commands that start nothing."""
    with tempfile.TemporaryDirectory(prefix="abox-") as folder:
        for name in SERVICE_COMMANDS:
            Path(folder, name).symlink_to("/bin/true")
        path = os.pathsep.join([folder, os.environ.get("PATH", os.defpath), *shell.SYSTEM_FOLDERS])
        yield ["-o", f"DPkg::Path={path}"]


def _require_present(packages: list[Package], present: Callable[[Package], bool]) -> None:
    """Refuse to go on with a package that hasn't brought what it should."""
    for package in packages:
        if not present(package):
            raise HostError(
                what=f"{package.name} is installed, yet {package.provides} was not found",
                why="the package doesn't provide it on this machine",
                remedy=f"install {package.provides} by hand and make sure it is on PATH",
            )


def _require_apt(names: str) -> None:
    """Refuse where packages can't be installed."""
    if shutil.which("apt-get") is None:
        raise HostError(
            what=f"missing: {names}",
            why="this is no Debian machine: apt-get was not found",
            remedy="install their equivalents by hand; abox is made for Debian 12",
        )
    if os.geteuid() != 0:
        raise HostError(
            what=f"missing packages: {names}",
            why="only root can install them",
            remedy=f"run as root: apt-get install {names}",
        )


def _apt(arguments: list[str], step: Step) -> None:
    """Run apt-get without questions; waits for another one that holds a lock."""
    deadline = time.monotonic() + LOCK_TIMEOUT_S
    finished = _apt_once(arguments, step)
    while "Could not get lock" in finished.stdout and time.monotonic() < deadline:
        # apt-get itself waits for the lock of the packages, but not for that of their lists.
        step.say("another apt-get is at work; waiting for it")
        time.sleep(LOCK_RETRY_S)
        finished = _apt_once(arguments, step)
    shell.require(
        finished,
        what=f"apt-get {' '.join(arguments)} failed",
        remedy="run it by hand to see all of its output, repair that, then run this again",
    )


def _apt_once(arguments: list[str], step: Step) -> shell.Finished:
    """Run apt-get once; says what it is at."""
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"}
    command = ["apt-get", "-q", "-y", "-o", f"DPkg::Lock::Timeout={LOCK_TIMEOUT_S}"]
    latest = [""]

    def remember(line: str) -> None:
        latest[0] = line.strip() or latest[0]

    return shell.stream(
        [*command, *arguments],
        remember,
        on_tick=lambda: step.tick(f"apt-get {arguments[0]}: {latest[0][:80]}"),
        environment=environment,
    )
