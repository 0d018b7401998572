"""Libvirt's daemons and the probe of KVM, on this host."""

from __future__ import annotations

import stat
import sys
from pathlib import Path

import pytest

from abox.host_state import LIBVIRT_URI
from images.build import build
from tests import host
from toolchain import acceleration, hypervisor
from toolchain.acceleration import BOOTED, Acceleration
from toolchain.progress import Step

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

STARTED = """\
import os, time
from pathlib import Path
from toolchain import acceleration, hypervisor
from toolchain.progress import Step
acceleration.RECORD = Path("/run/acceleration.json")
acceleration.DEVICE = Path("/dev/null")
hypervisor.FOLDER = Path("/run/hypervisor")
hypervisor.ensure(Step("first"))
pid = hypervisor._own_pid("libvirtd")
assert pid, "it isn't known"
assert hypervisor.answers()
assert not Path(f"/proc/{pid}/root/dev/kvm").exists()
assert Path(f"/proc/{pid}/root/dev/null").exists()
hypervisor.ensure(Step("second"))
assert hypervisor._own_pid("libvirtd") == pid, "it was started twice"
hypervisor.stop(Step("stop"))
assert not hypervisor.answers()
assert hypervisor._own_pid("libvirtd") is None
hypervisor.stop(Step("stop again"))
"""
"""Runs in namespaces of its own, where no other libvirtd is."""


def device() -> tuple[int, int] | None:
    """Mode and number of the host's own KVM device."""
    try:
        found = acceleration.DEVICE.stat()
    except FileNotFoundError:
        return None
    return stat.S_IMODE(found.st_mode), found.st_rdev


def test_daemons_are_started_once_known_and_stopped() -> None:
    """From nothing to an answer, without kvm in their /dev, and back."""
    before = device()
    script = 'mount -t tmpfs run /run && exec "$0" -c "$1"'
    done = host.run(
        [
            *("unshare", "--mount", "--pid", "--net", "--fork", "--mount-proc"),
            *("sh", "-euc", script, sys.executable, STARTED),
        ],
        cwd=host.ROOT,
        timeout_s=300,
    )
    assert "starting virtlogd" in done.stdout
    assert "starting libvirtd" in done.stdout
    assert "libvirt's daemons are stopped" in done.stdout
    assert "no libvirtd that abox started is running" in done.stdout
    assert device() == before


def test_running_libvirt_is_used_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    """A second run only says which one answers."""
    hypervisor.ensure(Step("vm"))
    capsys.readouterr()
    hypervisor.ensure(Step("vm"))
    said = capsys.readouterr().out
    assert "answers" in said
    assert "starting" not in said


def test_qemu_is_looked_at_once() -> None:
    """Not at every call, as libvirt does where a KVM is there that doesn't work."""
    hypervisor.ensure(Step("vm"))
    ask = ["virsh", "-q", "-c", LIBVIRT_URI, "domcapabilities", "--virttype", "qemu"]
    host.run(ask, timeout_s=200)
    cache = Path("/var/cache/libvirt/qemu/capabilities")
    before = {path: path.stat().st_mtime_ns for path in cache.glob("*.xml")}
    assert before
    host.run(ask, timeout_s=200)
    assert {path: path.stat().st_mtime_ns for path in cache.glob("*.xml")} == before


@pytest.fixture(scope="module")
def boot_files() -> tuple[Path, Path]:
    """Kernel and initial root filesystem of the image."""
    files = build(["vm"])["vm"].files
    return Path(files["kernel"].path), Path(files["initrd"].path)


def test_probe_sees_a_guest_that_boots(boot_files: tuple[Path, Path]) -> None:
    """With an emulated processor, which boots everywhere, the probe's word appears."""
    output, _ = acceleration.boot(*boot_files, 120, accelerator="tcg", cpu="qemu64")
    assert BOOTED in output
    assert acceleration.judge(output, ended=True).type == "kvm"


def test_probe_sees_a_guest_that_does_not(boot_files: tuple[Path, Path], tmp_path: Path) -> None:
    """A kernel that is none: no word, and QEMU's own reason."""
    broken = tmp_path / "kernel"
    broken.write_bytes(b"\0" * 4096)
    output, ended = acceleration.boot(broken, boot_files[1], 5, accelerator="tcg", cpu="qemu64")
    assert acceleration.judge(output, ended=ended).type == "qemu"


def test_probe_of_this_host_is_bounded_and_remembered(
    boot_files: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever it finds, the second answer comes from the record, and the device is as it was."""
    monkeypatch.setattr(acceleration, "RECORD", tmp_path / "record.json")
    before = device()
    first = acceleration.ensure(*boot_files, Step("vm"))
    assert isinstance(first, Acceleration)
    assert first.reason
    monkeypatch.setattr(acceleration, "boot", None)  # it isn't called again
    if before is not None:
        assert acceleration.ensure(*boot_files, Step("vm")) == first
    assert device() == before
