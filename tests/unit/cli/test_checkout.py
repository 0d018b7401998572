"""Which checkout a command works on."""

from __future__ import annotations

from pathlib import Path

import pytest

from abox.errors import SettingsError
from cli.checkout import OWN_ROOT, Checkout, find_checkout


def test_the_variable_beats_the_folder(checkout: Checkout, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    (other / "Pulumi.yaml").write_text("name: abox\n")
    assert find_checkout({"ABOX_ROOT": str(other)}, checkout.root).root == other


def test_a_folder_below_belongs_to_the_checkout(checkout: Checkout):
    below = checkout.root / "a" / "b"
    below.mkdir(parents=True)
    assert find_checkout({}, below).root == checkout.root


def test_another_project_on_the_way_up_is_passed_by(checkout: Checkout):
    below = checkout.root / "a"
    below.mkdir()
    (below / "Pulumi.yaml").write_text("name: other\n")
    assert find_checkout({}, below).root == checkout.root


def test_elsewhere_it_is_the_commands_own(tmp_path):
    assert find_checkout({}, tmp_path).root == OWN_ROOT


def test_a_variable_that_names_no_checkout_is_refused(tmp_path):
    with pytest.raises(SettingsError, match="ABOX_ROOT"):
        find_checkout({"ABOX_ROOT": str(tmp_path)}, tmp_path)


def test_only_valid_stack_names_are_stacks(checkout: Checkout):
    for name in ("a b", "1x", "ok-2"):
        (checkout.root / "stacks" / f"Pulumi.{name}.yaml").write_text("")
    assert checkout.stacks() == ["dev", "ok-2"]


def test_the_environment_is_the_one_of_make_env(checkout: Checkout):
    found = checkout.environment()
    assert found["ABOX_ROOT"] == str(checkout.root)
    assert found["PATH"].split(":")[0] == str(checkout.root / ".abox" / "bin")
    assert Path(found["PULUMI_HOME"]).is_relative_to(checkout.root)


def test_a_backend_of_the_users_own_is_kept_in_a_shell_with_our_variables(
    checkout: Checkout, monkeypatch
):
    monkeypatch.setenv("PULUMI_BACKEND_URL", "file:///elsewhere")
    assert checkout.environment()["PULUMI_BACKEND_URL"] == "file:///elsewhere"
    monkeypatch.delenv("ABOX_ROOT")
    assert checkout.environment()["PULUMI_BACKEND_URL"].startswith(f"file://{checkout.root}")
