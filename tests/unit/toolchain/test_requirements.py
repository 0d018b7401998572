"""The pinned requirements: complete, hashed, and silent about where they come from."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from toolchain.layout import PLUGINS, this_checkout

FOLDER = this_checkout().requirements
LOCKS = sorted(FOLDER.glob("*.txt"))
PIN = re.compile(r"^([a-z0-9._-]+(?:\[[a-z,]+\])?)==(\S+)( ; [^\\]+)? \\$")
HASH = re.compile(r"^    --hash=sha256:[0-9a-f]{64}( \\)?$")


def pins(lock: Path) -> dict[str, str]:
    """Names and versions of a lock file."""
    matches = (PIN.match(line) for line in lock.read_text().splitlines())
    return {match.group(1): match.group(2) for match in matches if match}


def test_every_source_has_a_lock_and_no_lock_stands_alone() -> None:
    """Each list of requirements is locked."""
    assert {path.stem for path in FOLDER.glob("*.in")} == {path.stem for path in LOCKS}
    assert {"runtime", "dev", "gateway"} <= {path.stem for path in LOCKS}


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.stem)
def test_lock_holds_pins_with_hashes_and_nothing_else(lock: Path) -> None:
    """No address of an index, no option, no unpinned or unhashed requirement."""
    lines = lock.read_text().splitlines()
    pinned = [index for index, line in enumerate(lines) if PIN.match(line)]
    assert pinned
    for index, line in enumerate(lines):
        assert PIN.match(line) or HASH.match(line), f"{lock.name}:{index + 1}: {line}"
        assert not PIN.match(line) or HASH.match(lines[index + 1])


def test_dev_holds_the_runtime_in_the_same_versions() -> None:
    """What is tested is what runs."""
    runtime, dev = pins(FOLDER / "runtime.txt"), pins(FOLDER / "dev.txt")
    assert runtime.items() <= dev.items()


def test_plugins_and_pip_are_pinned() -> None:
    """The SDKs of the plugins have the wanted versions, and pip is there for Pulumi to ask."""
    runtime = pins(FOLDER / "runtime.txt")
    assert {name: runtime[f"pulumi-{name}"] for name in PLUGINS} == {
        "docker": "5.2.0",
        "command": "1.2.1",
        "libvirt": "0.5.4",
    }
    assert "pip" in runtime


def test_no_distribution_of_ours_looks_like_a_plugin() -> None:
    """Nothing here is installed as a distribution, least of all one called pulumi-something."""
    assert "[project]" not in (this_checkout().root / "pyproject.toml").read_text()


def test_go_modules_are_pinned_at_one_version() -> None:
    """CLI and sdk have the same version, and go.sum holds a hash of both."""
    module = this_checkout().go_module
    version = this_checkout().pulumi_version
    required = (module / "go.mod").read_text()
    hashes = (module / "go.sum").read_text()
    for name in ("pkg", "sdk"):
        path = f"github.com/pulumi/pulumi/{name}/v3 v{version}"
        assert re.search(rf"^\t{re.escape(path)}$", required, re.MULTILINE)
        assert re.search(rf"^{re.escape(path)} h1:", hashes, re.MULTILINE)
    assert "replace" not in required
