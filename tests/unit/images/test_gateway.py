"""The gateway image's recipe."""

from __future__ import annotations

import re

from abox import pod
from images.gateway import ACCOUNTS, LIB, REQUIREMENTS, copied_files
from images.wheels import wheel_platforms


def test_accounts_are_those_that_the_pod_runs() -> None:
    """The image and the pod agree on who is who."""
    assert ACCOUNTS == {
        "control": pod.CONTROL_ID,
        "proxy": pod.PROXY_ID,
        "dns": pod.DNS_ID,
    }


def test_copied_files_are_the_projects_sources() -> None:
    """The pure library goes in as it is; bytecode of this machine doesn't."""
    files = copied_files()
    assert files[f"{LIB}/abox/errors.py"].name == "errors.py"
    assert not [name for name in files if "__pycache__" in name or name.endswith(".pyc")]


def test_every_requirement_is_locked_by_hash_without_an_address() -> None:
    """Nothing is installed that isn't named by version and hash; no registry is named."""
    text = REQUIREMENTS.read_text()
    entries = [entry for entry in re.split(r"\n(?=\S)", text) if not entry.startswith("#")]
    assert entries
    assert all(re.match(r"[a-z0-9._-]+==\S+", entry) and "--hash" in entry for entry in entries)
    assert "://" not in text


def test_platforms_end_where_bookworm_ends() -> None:
    """A wheel for a newer C library than Debian bookworm's is not installed."""
    platforms = wheel_platforms("x86_64")
    assert platforms[0] == "manylinux_2_36_x86_64"
    assert platforms[-2:] == ["manylinux_2_17_x86_64", "manylinux2014_x86_64"]
