"""Which stacks are virtual machines, and where their kernel is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from toolchain import virtual_machines
from toolchain.layout import Checkout


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    """A checkout without anything."""
    (tmp_path / "stacks").mkdir()
    (tmp_path / ".abox").mkdir()
    return Checkout(tmp_path)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("config:\n  abox:sandbox:\n    backend: vm\n", True),
        ("config: {abox:sandbox: {backend: vm}}\n", True),
        ("config:\n  abox:sandbox:\n    backend: container\n", False),
        ("config:\n  abox:sandbox:\n    allow: []\n    # backend: vm\n", False),
        ("config:\n  abox:sandbox:\n    agent: {env: {backend: vm}}\n", False),
        ("config:\n", False),
        ("[", False),
        ("", False),
    ],
)
def test_backend_is_read_from_the_stacks_file(checkout: Checkout, text: str, wanted: bool) -> None:
    """Whatever the style of its YAML; a file that isn't right is the program's matter."""
    checkout.stack_file("s").write_text(text)
    assert virtual_machines.is_wanted(checkout, "s") is wanted


def test_stack_without_a_file_wants_nothing(checkout: Checkout) -> None:
    """Other steps say that it is unknown."""
    assert virtual_machines.is_wanted(checkout, "none") is False


def test_kernel_is_found_by_the_lock_file(checkout: Checkout, tmp_path: Path) -> None:
    """Both files or none."""
    lock = checkout.state / "images.lock.json"
    kernel, initrd = tmp_path / "vmlinuz", tmp_path / "initrd"
    files = {"kernel": {"path": str(kernel)}, "initrd": {"path": str(initrd)}}
    assert virtual_machines.boot_files(checkout) == (None, None)
    lock.write_text(json.dumps({"vm": {"files": files}}))
    kernel.touch()
    assert virtual_machines.boot_files(checkout) == (None, None)
    initrd.touch()
    assert virtual_machines.boot_files(checkout) == (kernel, initrd)
    lock.write_text(json.dumps({"vm": {}}))
    assert virtual_machines.boot_files(checkout) == (None, None)
