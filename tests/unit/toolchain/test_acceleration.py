"""Whether KVM works: what the probe's output says, and when the record counts."""

from __future__ import annotations

import io
import json
import platform
from pathlib import Path

import pytest

from toolchain import acceleration
from toolchain.acceleration import Acceleration, judge
from toolchain.progress import Step

BOOTED = "[ 1.0] Run /init\nKernel panic - not syncing: Attempted to kill init! exitcode=0x100"


@pytest.mark.parametrize(
    ("output", "ended", "kind", "reason"),
    [
        (BOOTED, True, "kvm", "a guest booted with KVM"),
        (
            "qemu-system-x86_64: error: failed to set MSR 0x10a to 0x69\nqemu-system-x86_64: x",
            True,
            "qemu",
            "QEMU with KVM: error: failed to set MSR 0x10a to 0x69",
        ),
        ("", False, "qemu", "a guest with KVM never printed a character within 20 s"),
        ("[ 0.0] Linux version", False, "qemu", "a guest with KVM didn't finish booting"),
        ("[ 0.0] Linux version", True, "qemu", "ended before its kernel was up"),
        ("Attempted to kill", True, "qemu", "ended before its kernel was up"),
    ],
    ids=["boots", "msr", "silent", "stuck", "dies", "near-miss"],
)
def test_only_a_guest_that_booted_proves_kvm(
    output: str, ended: bool, kind: str, reason: str
) -> None:
    """All else is emulation, with what was seen as the reason."""
    found = judge(output, ended=ended)
    assert found.type == kind
    assert reason in found.reason


@pytest.fixture
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A place for the record, and a host that has the device."""
    path = tmp_path / "state" / "acceleration.json"
    monkeypatch.setattr(acceleration, "RECORD", path)
    monkeypatch.setattr(acceleration, "DEVICE", tmp_path)
    monkeypatch.setattr(acceleration, "qemu_version", lambda: "7.2.1")
    return path


def ensure(kernel: Path | None = None) -> Acceleration:
    return acceleration.ensure(kernel, kernel, Step("vm", output=io.StringIO()))


def test_record_holds_for_this_kernel_and_this_qemu(record: Path) -> None:
    """After an update of either, the probe runs again."""
    known = {
        "type": "kvm",
        "reason": "r",
        "kernel": platform.release(),
        "qemu": "7.2.1",
    }
    record.parent.mkdir()
    record.write_text(json.dumps(known))
    assert ensure().type == "kvm"
    for key in ("kernel", "qemu"):
        record.write_text(json.dumps({**known, key: "0"}))
        assert acceleration.read() is None
        assert ensure().type == "qemu"


@pytest.mark.parametrize("content", ["", "[]", '{"type": "kvm"}', '{"type": "kvm", "x": 1}'])
def test_damaged_record_counts_as_none(record: Path, content: str) -> None:
    """And nothing fails."""
    record.parent.mkdir()
    record.write_text(content)
    assert acceleration.read() is None


def test_host_without_the_device_needs_no_probe(
    record: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is emulation, recorded with that reason."""
    monkeypatch.setattr(acceleration, "DEVICE", record.parent / "kvm")
    assert ensure(Path("/nonexistent")).reason.endswith("kvm doesn't exist")
    assert json.loads(record.read_text())["type"] == "qemu"


def test_without_a_kernel_nothing_is_proven_or_recorded(record: Path) -> None:
    """The next run, with an image, probes."""
    assert ensure().reason == "KVM isn't proven yet: the image isn't built"
    assert not record.exists()
