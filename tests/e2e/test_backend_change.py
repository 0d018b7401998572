"""`backend` of one and the same stack is switched: the policy stays, and what it means."""

from __future__ import annotations

from typing import Any

import pytest

from abox.settings import CONTAINER, VM
from tests import host
from tests.cases.live import LiveRunner
from tests.cases.reader import read_folder
from tests.cases.sandbox import Sandbox
from tests.e2e.conftest import SETTINGS
from tests.e2e.test_lifecycle import labelled, leftovers
from tests.e2e.test_vm import BOOT_S, of_libvirt
from tests.world import World

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(2400)]

POLICY: dict[str, Any] = {key: SETTINGS[key] for key in ("allow", "allow_private_cidrs")}


@pytest.fixture
def changing(make_sandbox, project, world):
    before, project.limit_s = project.limit_s, BOOT_S
    sandbox = make_sandbox("c")
    yield sandbox
    sandbox.down()
    project.limit_s = before


def judged(world: World, sandbox: Sandbox) -> dict[str, list[str]]:
    """Bring the stack to its backend, and what does not hold of each case of any backend."""
    sandbox.up(POLICY)
    assert not sandbox.stack.drifted()
    cases, _ = read_folder(host.ROOT / "tests" / "data" / "cases")
    runner = LiveRunner(world, sandbox, lambda: sandbox)
    faults = {case.title: runner.run(case) for case in cases if case.backend == "any"}
    sandbox.apply(POLICY)  # the cases left theirs
    return faults


def test_vm_14_a_stack_whose_backend_is_switched_keeps_its_policy_and_its_verdicts(changing, world):
    """VM-14: a container, a machine, and a container again; nothing of the one before stays."""
    hashes, results = [], []
    for backend in (CONTAINER, VM, CONTAINER):
        changing.backend = backend
        results.append(judged(world, changing))
        hashes.append(changing.facts.outputs["policy_hash"])
        inside = changing.exec(["sh", "-c", "systemd-detect-virt --vm; :"]).stdout.strip()
        assert (inside not in ("", "none")) == (backend == VM)
        disks = [one for one in of_libvirt(changing.name) if "pool" in one]
        assert bool(disks) == (backend == VM)
        agents = [changing.inspect(one) for one in labelled("container", changing.name)]
        roles = {one["Config"]["Labels"]["abox.role"] for one in agents}
        assert ("agent" in roles) == (backend == CONTAINER)
    assert len(set(hashes)) == 1
    assert len(results[0]) >= 4
    assert results == [{title: [] for title in results[0]}] * 3
    changing.detach()
    changing.stack.destroy()
    assert leftovers(changing.name) + of_libvirt(changing.name) == []
