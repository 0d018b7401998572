"""`abox ls`: stacks, containers and leases side by side."""

from __future__ import annotations

import json

from cli.checkout import Checkout
from cli.listing import Lease, list_sandboxes, read_leases, state_of, to_document
from tests.unit.cli.test_containers import inspected, parsed

ALL = ("agent", "pause", "dns", "proxy", "control")


def test_a_stack_that_is_not_up_is_listed(checkout: Checkout):
    (one,) = list_sandboxes(checkout, [], {})
    assert (one.name, one.backend, one.mode, one.state) == ("dev", "container", "active", "down")
    assert to_document(one)["subnet"] is None


def test_a_sandbox_is_up_only_if_all_its_containers_are():
    assert state_of(parsed(*(inspected(role=role) for role in ALL))) == "up"
    stopped = [inspected(role=role, state="exited" if role == "dns" else "running") for role in ALL]
    assert state_of(parsed(*stopped)) == "partly up: dns not running"
    assert state_of([]) == "down"


def test_a_sandbox_of_another_checkout_is_listed_without_its_settings(checkout: Checkout):
    leases = {"dev": Lease("10.10.3.0/24", "/elsewhere")}
    (one,) = list_sandboxes(checkout, parsed(inspected()), leases)
    assert (one.mode, one.subnet, one.checkout) == ("-", "10.10.3.0/24", "/elsewhere")


def test_refused_settings_do_not_hide_the_other_stacks(checkout: Checkout):
    (checkout.root / "stacks" / "Pulumi.bad.yaml").write_text("config:\n  abox:sandbox: {x: 1}\n")
    found = {one.name: one.state for one in list_sandboxes(checkout, [], {})}
    assert found == {"bad": "settings refused", "dev": "down"}


def test_leases_are_read_and_damaged_ones_left_out(tmp_path):
    lease = {"sandbox": "dev", "number": 3, "owner": "/here"}
    (tmp_path / "dev.json").write_text(json.dumps(lease))
    (tmp_path / "bad.json").write_text("{")
    (tmp_path / "odd.json").write_text(json.dumps({"sandbox": "odd", "number": 999, "owner": ""}))
    assert read_leases(tmp_path) == {"dev": Lease("10.10.3.0/24", "/here")}
    assert read_leases(tmp_path / "missing") == {}
