"""The checkout's virtual environment, from hash-locked requirements."""

import shutil
import sys
import sysconfig
from pathlib import Path

from abox.errors import HostError
from toolchain import shell, stamps
from toolchain.layout import Checkout
from toolchain.locks import exclusive
from toolchain.progress import Step

MINIMUM = (3, 11)
"""Oldest Python that the requirements are locked for."""


def require_python(version: tuple[int, ...] = tuple(sys.version_info[:3])) -> None:
    """Refuse a Python that is too old.

    Raises:
        HostError: the running Python is older than `MINIMUM`.
    """
    if version < MINIMUM:
        raise HostError(
            what=f"python3 on PATH is {'.'.join(map(str, version))}",
            why=f"abox needs Python {'.'.join(map(str, MINIMUM))}",
            remedy="install it and put it first on PATH, or run `make PYTHON=/path/to/python3`",
        )


def install(checkout: Checkout, step: Step, *, dev: bool) -> None:
    """Make the virtual environment, or bring it to the locked requirements.

    Args:
        checkout: where it stands.
        step: told how far it is.
        dev: with what lint, types and tests need.

    Raises:
        HostError: pip can't install something.
    """
    require_python()
    lock = checkout.requirements / ("dev.txt" if dev else "runtime.txt")
    digest = stamps.content_hash([lock], sys.version, str(checkout.venv))
    stamp = checkout.stamps / f"venv-{lock.stem}"
    with exclusive(checkout.state / "venv.lock", lambda: step.say("waiting for another run")):
        _remove_broken(checkout)
        if stamps.is_current(stamp, digest):
            step.done(f"{lock.name} is installed")
            return
        stamps.forget(stamp)
        _make(checkout, step)
        _pip(checkout, lock, step)
        stamps.record(stamp, digest)
    step.done(f"installed {lock.name}")


def _remove_broken(checkout: Checkout) -> None:
    """Remove an environment whose interpreter is gone or another than this one, and its stamps."""
    if checkout.venv.exists() and not is_ours(checkout.venv):
        shutil.rmtree(checkout.venv)
    if not checkout.venv.exists():
        for stamp in checkout.stamps.glob("venv-*"):
            stamp.unlink()


def is_ours(venv: Path) -> bool:
    """Whether an environment was made from the running interpreter, checked without a start."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    try:
        lines = (venv / "pyvenv.cfg").read_text().splitlines()
    except OSError:
        return False
    home = f"home = {sysconfig.get_config_var('BINDIR')}"
    return home in lines and (venv / "bin/python").exists() and (venv / "lib" / version).is_dir()


def _make(checkout: Checkout, step: Step) -> None:
    """Make the environment if it is missing; pip is in it, because Pulumi asks it what is there."""
    if checkout.python.exists():
        return
    step.say("making .abox/venv")
    shell.require(
        shell.run([sys.executable, "-m", "venv", checkout.venv], timeout_s=300),
        what=f"{sys.executable} can't make a virtual environment",
        remedy="on Debian: apt-get install python3-venv; then run this again",
    )


def _pip(checkout: Checkout, lock: Path, step: Step) -> None:
    """Install a lock file; wheels only, each with the recorded hash."""
    wanted = sum(1 for line in lock.read_text().splitlines() if "==" in line)
    seen = [0]

    def count(line: str) -> None:
        seen[0] += line.startswith(("Collecting ", "Requirement already satisfied"))
        step.tick(f"{lock.name}: package {min(seen[0], wanted)} of {wanted}")

    step.say(f"installing {wanted} packages of {lock.name}")
    finished = shell.stream(
        [
            *(checkout.python, "-m", "pip", "install", "--no-input", "--progress-bar", "off"),
            *("--disable-pip-version-check", "--require-hashes", "--only-binary", ":all:"),
            *("-r", lock),
        ],
        count,
        on_tick=lambda: step.tick(f"{lock.name}: package {min(seen[0], wanted)} of {wanted}"),
    )
    shell.require(
        finished,
        what=f"pip can't install {lock}",
        remedy="check that the package index is reachable and the disk isn't full, then try again",
    )
