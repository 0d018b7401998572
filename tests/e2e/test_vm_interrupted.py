"""A killed run of a VM's stack: the next one finishes it, or takes all of it away."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from abox.host_state import disk_folder, instance_dir
from tests.cases.sandbox import Sandbox
from tests.e2e.conftest import furnish
from tests.e2e.test_lifecycle import STATE, killed_when, leftovers
from tests.e2e.test_vm import BOOT_S, SETTINGS, Machine, of_libvirt, virsh

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(2400)]

LISTINGS = {
    "pool": ("pool-list", "--all", "--name"),
    "filter": ("nwfilter-list",),
    "domain": ("list", "--all", "--name"),
}


@pytest.fixture
def fresh(make_sandbox, project, world):
    furnish(world)
    before, project.limit_s = project.limit_s, BOOT_S
    sandbox = make_sandbox("i")
    yield sandbox
    sandbox.down()
    project.limit_s = before


def made(kind: str, sandbox: Sandbox) -> Callable[[], bool]:
    """Whether libvirt has anything of a kind that belongs to a sandbox."""
    if kind == "pool in the state":
        return lambda: _holds_pool(sandbox)
    if kind == "volume":
        return lambda: any(Path(disk_folder(sandbox.name)).glob("*"))
    return lambda: sandbox.name in virsh(*LISTINGS[kind])


def _holds_pool(sandbox: Sandbox) -> bool:
    try:
        state = json.loads(sandbox.stack.state_file().read_text())
    except (FileNotFoundError, ValueError):  # not yet, or half written
        return False
    resources = state["checkpoint"]["latest"].get("resources") or []
    return any(each["type"] == "libvirt:index/pool:Pool" for each in resources)


@pytest.mark.parametrize("kind", ["pool", "volume", "filter", "domain"])
def test_order_7_what_an_interrupted_up_left_is_taken_away(fresh, kind):
    """ORDER-7: killed as the first of a kind stands; destroy needs no help and leaves nothing."""
    killed_when(made(kind, fresh), fresh, fresh.full_settings(SETTINGS))
    fresh.stack.destroy()
    assert leftovers(fresh.name) + of_libvirt(fresh.name) == []


@pytest.mark.parametrize("kind", ["pool", "pool in the state", "domain"])
def test_order_8_an_interrupted_up_is_finished(fresh, project, kind):
    """ORDER-8: the next run brings the machine up, and nothing of the first one stays."""
    killed_when(made(kind, fresh), fresh, fresh.full_settings(SETTINGS))
    if kind == "pool in the state" and not made("volume", fresh)():
        # As if it had been killed a moment earlier: the stack holds the pool, no record does.
        (instance_dir(STATE, fresh.name) / "pool.json").unlink(missing_ok=True)
    fresh.stack.up()
    vm = Machine(project, fresh.name)
    assert not vm.drifted()
    machines = virsh(*LISTINGS["domain"]).split()  # other tests' VMs may run beside
    assert len([each for each in machines if each.startswith(f"{fresh.name}-")]) == 1
    fresh.stack.destroy()
    assert leftovers(fresh.name) + of_libvirt(fresh.name) == []
