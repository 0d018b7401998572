"""`abox profile`: lines that can be pasted, and applied as `abox allow` does."""

from __future__ import annotations

import json

import pytest
import yaml

from abox.allowlist import parse_policy
from abox.seen_names import Row, Seen, SeenNames
from abox.verdict_log import Outcome, Source
from cli import edit
from cli import profile as module
from cli.checkout import Checkout
from cli.main import run
from cli.stack_file import raw_settings
from tests.unit.cli.conftest import SETTINGS
from tests.unit.cli.verdict_lines import LogFolder, logs

__all__ = ["logs"]


def seen(name, port=443, *, source=Source.HTTP, outcome=Outcome.ALLOW, reason=None):
    return Seen(source, name, port, outcome, reason, "mode: passive", True)


ROWS = {
    seen("a.cdn.test"): Row(1.0, 2.0, 3),
    seen("b.cdn.test"): Row(1.0, 2.0, 1),
    seen("c.cdn.test"): Row(1.0, 2.0, 1),
    seen("new.test", 8443): Row(1.0, 2.0, 1),
    seen("asked.test", None, source=Source.DNS): Row(1.0, 2.0, 2),
    seen("example.com"): Row(1.0, 2.0, 9),
    seen("inside.test", outcome=Outcome.DENY, reason="special_purpose_address"): Row(1.0, 2.0, 4),
}
ENTRIES = [
    "asked.test",
    {"host": "*.cdn.test", "ports": [443]},
    {"host": "new.test", "ports": [8443]},
]


@pytest.fixture(autouse=True)
def record(logs: LogFolder, checkout: Checkout, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sandbox that was passive."""
    text = SETTINGS.replace("mode: active", "mode: passive")
    checkout.stack_file("dev").write_text(text)
    (logs.path / "seen.jsonl").write_text(SeenNames(dict(ROWS)).to_text())
    monkeypatch.setattr(module, "list_containers", list)


def test_the_lines_can_be_pasted(capsys):
    assert run(["profile", "dev"]) == 0
    out = capsys.readouterr().out
    assert yaml.safe_load(out) == ENTRIES
    assert parse_policy(yaml.safe_load(out)).entries
    pasted = SETTINGS.replace("      # group of wildcards\n", out)
    assert raw_settings(pasted, "file")["allow"][1:4] == ENTRIES
    assert '- "*.cdn.test"' not in out  # the port was 443 alone
    assert "# 5 requests; a.cdn.test, b.cdn.test, c.cdn.test" in out
    assert "# 2 look-ups" in out
    assert "#   inside.test:443: special_purpose_address, 4 times" in out
    assert "# on the allowlist already: 1 name\n" in out


def test_json_holds_the_same(capsys):
    assert run(["profile", "dev", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [one["entry"] for one in found["entries"]] == ENTRIES
    assert found["apart"][0]["name"] == "inside.test"
    assert (found["covered"], found["missed"]) == (1, 0)


def test_apply_goes_the_way_of_allow(checkout: Checkout, monkeypatch, capsys):
    applied = []

    def up(_, stack):
        applied.append(stack)
        return "1 updated"

    monkeypatch.setattr(edit, "up", up)
    assert run(["profile", "dev", "--apply"]) == 0
    assert applied == ["dev"]
    text = checkout.stack_file("dev").read_text()
    assert raw_settings(text, "file")["allow"][-3:] == ENTRIES
    assert "# group of wildcards" in text
    told = capsys.readouterr()
    assert "live: 1 updated" in told.out
    assert "still passive" in told.err
    assert run(["profile", "dev", "--apply"]) == 0  # nothing is left to propose
    assert applied == ["dev"]
    assert checkout.stack_file("dev").read_text() == text


def test_with_json_standard_output_is_the_document_alone(monkeypatch, capsys):
    monkeypatch.setattr(edit, "up", lambda *_: "1 updated")
    assert run(["profile", "dev", "--apply", "--json"]) == 0
    told = capsys.readouterr()
    assert json.loads(told.out)["stack"] == "dev"
    assert "live: 1 updated" in told.err


def test_a_failed_apply_leaves_the_file(checkout: Checkout, monkeypatch):
    def fail(*_):
        raise KeyboardInterrupt

    before = checkout.stack_file("dev").read_text()
    monkeypatch.setattr(edit, "up", fail)
    assert run(["profile", "dev", "--apply"]) == 130
    assert checkout.stack_file("dev").read_text() == before


def test_a_sandbox_that_asked_for_nothing_has_nothing_to_propose(logs: LogFolder, capsys):
    (logs.path / "seen.jsonl").unlink()
    assert run(["profile", "dev"]) == 0
    out = capsys.readouterr().out
    assert out == "# dev: 0 names seen by passive mode and not on the allowlist\n"


def test_a_full_record_says_so(logs: LogFolder, capsys):
    (logs.path / "seen.jsonl").write_text(SeenNames(dict(ROWS), missed=7).to_text())
    assert run(["profile", "dev"]) == 0
    assert "# the record is full: 7 verdicts left no trace in it" in capsys.readouterr().out


def test_settings_that_are_refused_are_left_out_of_account(checkout: Checkout, capsys):
    checkout.stack_file("dev").write_text(SETTINGS.replace("cpus: 2", "cpus: many"))
    assert run(["profile", "dev"]) == 0
    told = capsys.readouterr()
    assert "left out of account" in told.err
    assert {"host": "example.com", "ports": [443]} in yaml.safe_load(told.out)
