"""The Makefile is the one list of entry points."""

from __future__ import annotations

import re
import shutil

import pytest

from tests import host
from toolchain.layout import this_checkout

ROOT = this_checkout().root
MAKEFILE = (ROOT / "Makefile").read_text()

CONTRACT = (
    *("up", "down", "clean", "env", "doctor", "engine", "images", "lock", "toolchain"),
    *("test", "test-quick", "lint", "types", "bench", "cases"),
)


def test_help_lists_every_described_target() -> None:
    """`make help` prints the targets from the comments beside them, and is the default."""
    described = re.findall(r"^([a-z0-9-]+):.*## (.+)$", MAKEFILE, re.MULTILINE)
    shown = host.run(["make", "-s", "help"], cwd=ROOT).stdout
    assert [line.split(maxsplit=1) for line in shown.splitlines()] == [
        [name, text] for name, text in described
    ]
    assert host.run(["make", "-s"], cwd=ROOT).stdout == shown
    assert set(CONTRACT) <= {name for name, _ in described}


def test_every_target_is_phony() -> None:
    """No file of the same name can make a target look done."""
    rules = re.sub(r"^define .*?^endef$", "", MAKEFILE, flags=re.MULTILINE | re.DOTALL)
    targets = set(re.findall(r"^([a-z0-9-]+):(?!=)", rules, re.MULTILINE))
    phony = set(re.findall(r"^\.PHONY: ([a-z0-9-]+)$", MAKEFILE, re.MULTILINE))
    assert targets == phony


def test_ci_runs_make_test_from_anywhere() -> None:
    """CI has no second truth: it enters the checkout and calls `make test`."""
    script = ROOT / ".ci" / "run"
    assert script.stat().st_mode & 0o111
    lines = [line for line in script.read_text().splitlines() if not line.startswith("#")]
    assert lines[-1] == "exec make test"
    assert any(line.startswith("cd ") for line in lines)


@pytest.mark.parametrize("name", ["no such", "../x", "x;touch y"])
def test_hostile_stack_name_is_refused_before_any_step(name: str) -> None:
    """A wrong stack name is three lines on stderr before anything is touched."""
    done = host.run(["make", "-s", "stack-known", f"STACK={name}"], cwd=ROOT, check=False)
    assert done.code == 2
    words = [line.partition(":")[0] for line in done.stderr.splitlines()]
    assert words[1:3] == ["why", "do"]
    assert done.stdout == ""


def test_machine_without_python_is_told_what_to_install() -> None:
    """Without Python no step can run, so make itself says the three lines."""
    make = shutil.which("make")
    assert make
    nowhere = {"PATH": "/nonexistent", "SYSTEM_PYTHON": "/nonexistent/python3"}
    done = host.run([make, "-s", "env"], cwd=ROOT, env=nowhere, check=False)
    assert done.code == 2
    words = [line.partition(":")[0] for line in done.stderr.splitlines()]
    assert words[-2:] == ["why", "do"]
    assert done.stdout == ""
