"""Whether KVM runs a guest on this host: proven by one that boots, and remembered.

`/dev/kvm` may be there and still run nothing: nested in another virtual machine, a guest may die
at once, or never print a character. So a kernel is booted with it, in bounded time, and the
result holds for this kernel and this QEMU.
"""

import json
import platform
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from toolchain import shell
from toolchain.layout import HOST_STATE
from toolchain.progress import Step

RECORD = HOST_STATE / "hypervisor" / "acceleration.json"
"""The result, for the program and for `abox doctor`."""

DEVICE = Path("/dev/kvm")
QEMU = "qemu-system-x86_64"

PROBE_TIMEOUT_S = 20.0
"""Seconds that the guest may take; where KVM works it needs two."""

BOOTED = "Attempted to kill init"
"""What the kernel says once a program of the guest has run and ended: both rings work."""


@dataclass(frozen=True, kw_only=True)
class Acceleration:
    """How this host runs virtual machines."""

    type: Literal["kvm", "qemu"]
    """libvirt's type of domain: with hardware virtualisation, or emulated."""
    reason: str
    kernel: str = ""
    qemu: str = ""
    """Versions that it holds for; empty where nothing was tried."""


def read() -> Acceleration | None:
    """The recorded result, if it is about the running kernel and the installed QEMU."""
    try:
        found = Acceleration(**json.loads(RECORD.read_text()))
    except (OSError, ValueError, TypeError):
        return None
    current = (platform.release(), qemu_version())
    return found if (found.kernel, found.qemu) == current else None


def ensure(kernel: Path | None, initrd: Path | None, step: Step) -> Acceleration:
    """The result, from the record or a new probe.

    Args:
        kernel: a kernel to boot; None: nothing can be proven.
        initrd: its initial root file system, whose program ends at once without a root device.
        step: told what is tried.
    """
    if not DEVICE.exists():
        found = _result("qemu", f"{DEVICE} doesn't exist")
    elif known := read():
        return known
    elif kernel is None or initrd is None:
        return Acceleration(type="qemu", reason="KVM isn't proven yet: the image isn't built")
    else:
        step.say(f"booting a kernel with KVM, {PROBE_TIMEOUT_S:.0f} s at most")
        output, ended = boot(kernel, initrd, PROBE_TIMEOUT_S)
        found = judge(output, ended=ended)
    RECORD.parent.mkdir(parents=True, exist_ok=True)
    RECORD.write_text(json.dumps(asdict(found), indent=2) + "\n")
    step.say("KVM runs guests" if found.type == "kvm" else f"guests are emulated: {found.reason}")
    return found


def boot(
    kernel: Path, initrd: Path, timeout_s: float, *, accelerator: str = "kvm", cpu: str = "host"
) -> tuple[str, bool]:
    """Boot a guest with the processor that domains get, until it is up, ends or time is up.

    Returns: what the guest and QEMU printed, and whether QEMU has ended.
    """
    process = shell.child(
        [
            *(QEMU, "-machine", f"q35,accel={accelerator}", "-cpu", cpu),
            *("-m", "256", "-smp", "2"),
            *("-nodefaults", "-no-user-config", "-no-reboot", "-display", "none"),
            *("-serial", "stdio", "-kernel", kernel, "-initrd", initrd),
            *("-append", "console=ttyS0 panic=-1"),
        ],
        environment={"PATH": "/usr/bin:/bin", "LC_ALL": "C"},
        piped=True,
    )
    try:
        return shell.read_until(process, BOOTED, timeout_s)
    finally:
        shell.end_group(process, grace_s=0.5)


def judge(output: str, *, ended: bool) -> Acceleration:
    """What the probe's output says.

    Args:
        output: what the guest and QEMU printed.
        ended: QEMU ended by itself.
    """
    if BOOTED in output:
        return _result("kvm", "a guest booted with KVM")
    said = [line.strip() for line in output.splitlines() if line.startswith(QEMU)]
    if said:
        return _result("qemu", f"QEMU with KVM: {said[0].removeprefix(f'{QEMU}: ')}")
    if ended:
        return _result("qemu", "a guest with KVM ended before its kernel was up")
    printed = "never printed a character" if not output.strip() else "didn't finish booting"
    return _result("qemu", f"a guest with KVM {printed} within {PROBE_TIMEOUT_S:.0f} s")


def _result(kind: Literal["kvm", "qemu"], reason: str) -> Acceleration:
    return Acceleration(type=kind, reason=reason, kernel=platform.release(), qemu=qemu_version())


def qemu_version() -> str:
    """Version of the installed QEMU, empty if there is none."""
    program = shell.which(QEMU)
    if program is None:
        return ""
    found = re.search(r"version (\S+)", shell.run([program, "--version"], timeout_s=20).stdout)
    return found.group(1) if found else ""
