"""Volumes that a killed run left go; whatever holds something, is used, or is another's stays."""

from __future__ import annotations

import secrets
from pathlib import Path

import pytest

from abox.naming import LABEL_SANDBOX
from provider import host
from provider.leftovers import Leftovers

pytestmark = pytest.mark.integration


def make_volume(bench, sandbox):
    name = f"{bench.prefix}-{secrets.token_hex(2)}"
    found = bench.engine.create_volume(name, labels={LABEL_SANDBOX: sandbox})
    bench.volumes.append(name)
    return name, Path(found["Mountpoint"])


def names(bench):
    return {each["Name"] for each in bench.engine.volumes()["Volumes"]}


def test_only_the_empty_unused_volumes_of_the_sandbox_go(bench):
    sandbox = bench.prefix
    empty, _ = make_volume(bench, sandbox)
    filled, folder = make_volume(bench, sandbox)
    (folder / ".hidden").write_text("a day's work")
    mounted, _ = make_volume(bench, sandbox)
    bench.container(start=False, binds=[f"{mounted}:/mnt:nocopy"])
    strange, _ = make_volume(bench, f"{sandbox}y")
    Leftovers(host.engine).remove_volumes(sandbox)
    left = names(bench)
    assert empty not in left
    assert {filled, mounted, strange} <= left
    assert (folder / ".hidden").read_text() == "a day's work"
