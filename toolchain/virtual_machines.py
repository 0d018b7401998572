"""What a host needs for virtual machines: packages, the image, a verdict on KVM, libvirt."""

import json
from pathlib import Path

from abox.errors import HostError
from toolchain import acceleration, hypervisor, packages, shell
from toolchain.layout import Checkout
from toolchain.progress import Step

PACKAGES = "packages-vm.txt"
"""List of the packages, in this folder."""

IMAGE = "vm"
"""Name of the image's recipe, and of its entry in the lock file."""


def is_wanted(checkout: Checkout, name: str) -> bool:
    """Whether a stack is a virtual machine."""
    # Here, not above: the other commands run before there is an environment with this library.
    import yaml

    try:
        document = yaml.safe_load(checkout.stack_file(name).read_text())
        return bool(document["config"]["abox:sandbox"]["backend"] == "vm")
    except (OSError, yaml.YAMLError, KeyError, TypeError):
        return False  # the program says what is wrong with it


def provide(checkout: Checkout, step: Step) -> None:
    """Install, build, probe and start what is missing.

    Raises:
        HostError: something can't be had; the reason is in the message.
    """
    packages.install([checkout.toolchain / PACKAGES], Step("packages"))
    _build_image(checkout)
    acceleration.ensure(*boot_files(checkout), step)
    hypervisor.ensure(step)


def _build_image(checkout: Checkout) -> None:
    """Build the image, unless this host has it."""
    command: list[str | Path] = [checkout.python, "-m", "images.build", "--only", IMAGE]
    if shell.foreground(command, directory=checkout.root) != 0:
        raise HostError(
            what="the image of virtual machines isn't there",
            why="its build failed, see above",
            remedy="repair what it names, then run this again",
        )


def boot_files(checkout: Checkout) -> tuple[Path | None, Path | None]:
    """Kernel and initial root file system of the image, None each if it isn't built."""
    try:
        lock = json.loads((checkout.state / "images.lock.json").read_text())
        files = lock[IMAGE]["files"]
        kernel, initrd = (Path(files[name]["path"]) for name in ("kernel", "initrd"))
    except (OSError, ValueError, KeyError, TypeError):
        return None, None
    return (kernel, initrd) if kernel.is_file() and initrd.is_file() else (None, None)
