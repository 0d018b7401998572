"""Up, up again, interrupted, destroyed: nothing half-done stays, nothing at all stays behind."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from abox.naming import bridge_name, egress_bridge_name, table_name
from tests import host
from tests.cases.sandbox import Sandbox
from tests.e2e.conftest import ALLOWED, SETTINGS, fetch_status, furnish, started

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(400)]

STATE = Path("/var/lib/abox")


def labelled(kind: str, name: str) -> list[str]:
    """Ids of a sandbox's containers, networks or volumes."""
    every = ["--all"] if kind == "container" else []
    command = ["docker", kind, "ls", "-q", *every, "--filter", f"label=abox.sandbox={name}"]
    return host.run(command).stdout.split()


def leftovers(name: str) -> list[str]:
    """Whatever of a sandbox stands on the host."""
    found = [one for kind in ("container", "network", "volume") for one in labelled(kind, name)]
    links = json.loads(host.run(["ip", "-j", "link"]).stdout)
    names = {bridge_name(name), egress_bridge_name(name)}
    found += [link["ifname"] for link in links if link["ifname"] in names]
    found += [
        line
        for line in host.run(["nft", "list", "tables"]).stdout.splitlines()
        if line.split()[-1] == table_name(name)
    ]
    found += [str(p) for p in (STATE / "leases").glob(f"{name}*")]
    found += [str(p) for p in (STATE / "sandboxes").glob(f"{name}*")]
    return found


def killed_when(condition: Callable[[], bool], fresh: Sandbox, settings: dict[str, Any]) -> None:
    """Begin an ``up`` and kill Pulumi as soon as something is so."""
    fresh.stack.configure(settings)
    project = fresh.stack.project
    begun = host.spawn(
        ["pulumi", "up", "--yes", "--skip-preview", "--stack", fresh.name, "--non-interactive"],
        env=project.environment,
        cwd=project.path,
    )
    try:
        host.wait_until(condition, timeout_s=120, describe=lambda: f"{begun.poll()}", every_s=0.005)
    finally:
        os.killpg(begun.pid, signal.SIGKILL)
        host.end(begun)
        project.pulumi("cancel", "--yes", "--stack", fresh.name, check=False)


@pytest.fixture
def fresh(make_sandbox, world):
    furnish(world)
    sandbox = make_sandbox("l")
    yield sandbox
    sandbox.down()


def test_order_1_destroy_leaves_nothing(fresh):
    """ORDER-1: no container, network, volume, bridge, table, lease or folder stays."""
    fresh.up(SETTINGS)
    assert len(leftovers(fresh.name)) >= 14  # control: the search finds what stands
    fresh.detach()
    fresh.stack.destroy()
    assert leftovers(fresh.name) == []


def test_order_2_destroy_copes_with_parts_that_are_gone(fresh):
    """ORDER-2: agent, table and a volume's container were taken away by hand before."""
    fresh.up(SETTINGS)
    fresh.detach()
    host.run(["docker", "rm", "-f", fresh.facts.agent_container, fresh.facts.container("dns")])
    host.run(["nft", "delete", "table", "inet", fresh.table])
    fresh.stack.destroy()
    assert leftovers(fresh.name) == []


@pytest.mark.parametrize("finish", ["up", "destroy"])
@pytest.mark.parametrize("made", ["volume", "network", "container"])
def test_order_3_an_interrupted_up_is_finished_or_taken_away(fresh, finish, made):
    """ORDER-3: Pulumi is killed as the first of a kind stands; the next command needs no help."""
    killed_when(lambda: bool(labelled(made, fresh.name)), fresh, fresh.full_settings(SETTINGS))
    if finish == "up":
        fresh.up(SETTINGS)
        assert fetch_status(fresh, f"http://{ALLOWED}/") == "200"
        assert not fresh.stack.drifted()
    fresh.detach()
    fresh.stack.destroy()
    assert leftovers(fresh.name) == []


def test_order_4_no_agent_without_its_firewall(fresh, tmp_path):
    """ORDER-4: if the table can't be loaded, the error names nft and no agent runs."""
    tool = tmp_path / "nft"
    tool.write_text("#!/bin/sh\necho 'no table today' >&2\nexit 1\n")
    tool.chmod(0o755)
    fresh.stack.configure(fresh.full_settings(SETTINGS))
    done = fresh.stack.up(check=False, path_first=tmp_path)
    assert done.code != 0
    assert "nft" in done.stdout + done.stderr
    assert "no table today" in done.stdout + done.stderr
    assert not fresh.running()


def test_order_5_an_upgrade_of_limits_keeps_the_pod(fresh):
    """ORDER-5: a changed limit of the agent touches the agent alone."""
    fresh.up(SETTINGS)
    before = {role: fresh.inspect(fresh.facts.container(role))["Id"] for role in ("pause", "proxy")}
    fresh.up({**SETTINGS, "agent": {"memory_mb": 512, "pids_limit": 128}})
    after = {role: fresh.inspect(fresh.facts.container(role))["Id"] for role in ("pause", "proxy")}
    assert after == before
    limits = fresh.inspect(fresh.facts.agent_container)["HostConfig"]
    assert (limits["Memory"], limits["PidsLimit"]) == (512 * 2**20, 128)
    assert not fresh.stack.drifted()


def test_order_6_a_new_authority_is_a_planned_replacement(fresh):
    """ORDER-6: the plan shows it, nothing restarts, and leaves of the old one are gone at once."""
    fresh.up(SETTINGS)
    before = started(fresh)
    old = fresh.stack.outputs()["ca_fingerprint"]
    assert fetch_status(fresh, f"https://{ALLOWED}/") == "200"
    resources = json.loads(fresh.stack.export().stdout)["deployment"]["resources"]
    urn = next(r["urn"] for r in resources if r["type"] == "abox:index:CertificateAuthority")
    planned = fresh.stack.preview("--replace", urn)
    assert "CertificateAuthority" in planned.stdout
    assert "1 to replace" in planned.stdout
    fresh.stack.project.pulumi(
        "up", "--yes", "--skip-preview", "--stack", fresh.name, "--replace", urn
    )
    assert fresh.stack.outputs()["ca_fingerprint"] != old
    assert fetch_status(fresh, f"https://{ALLOWED}/") == "200"
    assert started(fresh) == before
    assert not fresh.stack.drifted()


def test_order_9_networks_that_are_held_but_not_recorded_are_made_anew(fresh):
    """ORDER-9: as a run leaves them that is killed right after them; one `up` mends it."""
    fresh.up(SETTINGS)
    fresh.detach()
    networks = labelled("network", fresh.name)
    host.run(["docker", "rm", "-f", *labelled("container", fresh.name)])
    for record in (STATE / "sandboxes" / fresh.name).glob("network-*.json"):
        record.unlink()
    fresh.up(SETTINGS)
    assert fetch_status(fresh, f"http://{ALLOWED}/") == "200"
    assert not fresh.stack.drifted()
    assert not set(labelled("network", fresh.name)) & set(networks)
    fresh.detach()
    fresh.stack.destroy()
    assert leftovers(fresh.name) == []
