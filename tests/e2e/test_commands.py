"""The abox command on a standing sandbox, as a user types it."""

from __future__ import annotations

import json

import pytest

from tests import host
from tests.e2e.conftest import Abox
from tests.stacks import Project

pytestmark = pytest.mark.e2e

NEW = "new.allowed.test"


def test_check_finds_everything_closed_and_what_must_work_working(abox: Abox):
    done = abox("check", abox.name, "--json")
    document = json.loads(done.stdout)
    assert [row for row in document["probes"] if not row["ok"]] == []
    assert len(document["probes"]) >= 40
    assert done.code == 0


def test_check_finds_what_a_missing_table_opens(abox: Abox, project: Project):
    outputs = project.pulumi("stack", "output", "--json", "--stack", abox.name).stdout
    table = json.loads(outputs)["firewall_table"]
    rules = host.run(["nft", "list", "table", "inet", table]).stdout
    host.run(["nft", "delete", "table", "inet", table])
    try:
        done = abox("check", abox.name, "--json")
    finally:
        host.run(["nft", "-f", "-"], text=rules)
    states = {row["id"]: row["state"] for row in json.loads(done.stdout)["probes"]}
    assert done.code == 1
    assert states["host-listener"] == states["host-listener-silent"] == "open"


def test_drift_is_0_without_and_7_with_a_reason(abox: Abox, project: Project):
    assert abox("drift", abox.name).code == 0
    outputs = project.pulumi("stack", "output", "--json", "--stack", abox.name).stdout
    table = json.loads(outputs)["firewall_table"]
    host.run(["nft", "add", "rule", "inet", table, "refuse", "counter", "accept"])
    done = abox("drift", abox.name)
    assert done.code == 7
    assert "+refuse: counter accept" in done.stdout
    project.pulumi("up", "--yes", "--skip-preview", "--stack", abox.name)
    assert abox("drift", abox.name).stdout == f"{abox.name}: no drift\n"


def test_exec_passes_input_output_and_exit_code(abox: Abox):
    assert abox("exec", abox.name, "--", "cat", text="through\n").stdout == "through\n"
    assert abox("exec", abox.name, "--", "sh", "-c", "exit 42").code == 42
    assert abox("exec", abox.name, "--", "id", "-un").stdout == "agent\n"
    assert abox("exec", abox.name, "--", "pwd").stdout == "/workspace\n"
    assert abox("shell", abox.name, text="echo in; exit 3\n").code == 3


def test_allow_and_deny_are_live_without_a_restart(abox: Abox, world):
    world.dns.set({"allowed.test": ["198.51.100.10"], NEW: ["198.51.100.10"]})
    before = abox.containers()
    assert abox.status_of(NEW) == "403"
    assert abox("allow", abox.name, NEW).code == 0
    assert abox.status_of(NEW) == "200"
    assert abox("deny", abox.name, NEW).code == 0
    assert abox.status_of(NEW) == "403"
    assert abox.status_of("allowed.test") == "200"
    assert abox.containers() == before


def test_a_bad_entry_changes_nothing(abox: Abox):
    before = abox.settings.read_bytes()
    done = abox("allow", abox.name, "*.co.uk")
    assert done.code == 2
    assert len(done.stderr.splitlines()) == 3
    assert abox.settings.read_bytes() == before
    assert abox("drift", abox.name).code == 0


def test_logs_tell_what_was_denied(abox: Abox):
    assert abox.status_of("denied-by-logs.test") == "403"

    def denied() -> bool:
        lines = abox("logs", abox.name, "--blocked", "--http", "--json").stdout.splitlines()
        return any(json.loads(line)["name"] == "denied-by-logs.test" for line in lines)

    host.wait_until(denied, timeout_s=30, describe=lambda: "no verdict in the log")


def test_ls_and_explain_agree_with_the_sandbox(abox: Abox):
    listed = {one["name"]: one for one in json.loads(abox("ls", "--json").stdout)}
    assert listed[abox.name]["state"] == "up"
    assert listed[abox.name]["subnet"].endswith("/24")
    for name, status in (("allowed.test", "200"), ("evil.test", "403")):
        told = json.loads(abox("explain", abox.name, f"http://{name}/", "--json").stdout)
        assert told["allowed"] is (abox.status_of(name) == "200")
        assert abox.status_of(name) == status
