"""`abox allow` and `abox deny`: judged before the file is touched, put back if it fails."""

from __future__ import annotations

import pytest

from abox.errors import AboxError, HostError, PolicyError
from cli import edit
from cli.checkout import Checkout
from cli.edit import parse_entry, plan_edit
from cli.main import run
from cli.stack_file import raw_settings
from tests.unit.cli.conftest import SETTINGS


def lists(text: str) -> tuple[list[object], list[object]]:
    settings = raw_settings(text, "file")
    return settings["allow"], settings["deny"]


@pytest.fixture
def applied(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    done: list[str] = []

    def up(_: Checkout, stack: str) -> str:
        done.append(stack)
        return "1 updated"

    monkeypatch.setattr(edit, "up", up)
    return done


def test_allow_adds_the_entry_and_applies_it(checkout: Checkout, applied, capsys):
    assert run(["allow", "dev", "new.example.com"]) == 0
    assert lists(checkout.stack_file("dev").read_text())[0][-1] == "new.example.com"
    assert applied == ["dev"]
    assert "live: 1 updated" in capsys.readouterr().out


def test_allow_of_what_is_there_changes_and_applies_nothing(checkout: Checkout, applied, capsys):
    assert run(["allow", "dev", "Example.COM."]) == 0
    assert checkout.stack_file("dev").read_text() == SETTINGS
    assert applied == []
    assert "already in `allow`" in capsys.readouterr().out


def test_no_apply_only_edits_the_file(checkout: Checkout, applied):
    assert run(["allow", "dev", "new.example.com", "--no-apply"]) == 0
    assert applied == []
    assert "new.example.com" in checkout.stack_file("dev").read_text()


@pytest.mark.parametrize("entry", ["*", "https://a.test/x", "a b.test", "10.0.0.1", "x\ny"])
@pytest.mark.parametrize("command", ["allow", "deny"])
def test_a_bad_entry_exits_2_and_leaves_the_file(checkout: Checkout, applied, command, entry):
    assert run([command, "dev", entry]) == 2
    assert checkout.stack_file("dev").read_text() == SETTINGS
    assert applied == []


def test_deny_moves_every_entry_of_the_name(checkout: Checkout):
    done = plan_edit(SETTINGS, checkout, "dev", "deny", "api.example.net")
    allow, deny = lists(done.text)
    assert deny == ["uploads.example.org", "api.example.net"]
    assert allow == ["example.com", "*.example.org"]
    assert len(done.words) == 2


def test_allow_takes_the_same_name_off_the_denylist(checkout: Checkout):
    done = plan_edit(SETTINGS, checkout, "dev", "allow", "uploads.example.org")
    allow, deny = lists(done.text)
    assert "uploads.example.org" in allow
    assert deny == []


def test_allow_of_a_name_that_a_denied_wildcard_covers_is_refused(checkout: Checkout):
    text = SETTINGS.replace("- uploads.example.org", '- "*.bad.example.com"')
    with pytest.raises(PolicyError) as raised:
        plan_edit(text, checkout, "dev", "allow", "x.bad.example.com")
    assert "*.bad.example.com" in raised.value.why


def test_the_health_name_can_not_be_denied(checkout: Checkout):
    with pytest.raises(AboxError):
        plan_edit(SETTINGS, checkout, "dev", "deny", "healthcheck.abox.local")


def test_a_mapping_in_braces_is_an_entry(checkout: Checkout):
    entry = parse_entry("{host: a.example.com, ports: [8443]}")
    done = plan_edit(SETTINGS, checkout, "dev", "allow", entry)
    assert lists(done.text)[0][-1] == {"host": "a.example.com", "ports": [8443]}


@pytest.mark.parametrize("text", ["{a", "{}:", "{[]}"])
def test_braces_without_a_mapping_are_refused(text):
    with pytest.raises(PolicyError):
        parse_entry(text)


def test_a_failed_up_puts_the_file_back(checkout: Checkout, monkeypatch, capsys):
    def up(*_: object) -> str:
        raise HostError(what="`pulumi up -s dev` failed", why="no engine", remedy="start it")

    monkeypatch.setattr(edit, "up", up)
    assert run(["allow", "dev", "new.example.com"]) == 2
    assert checkout.stack_file("dev").read_text() == SETTINGS
    said = capsys.readouterr().err
    assert "put back as it was" in said
    assert "why: no engine" in said


def test_a_failed_up_leaves_alone_what_someone_else_has_written(checkout: Checkout, monkeypatch):
    file = checkout.stack_file("dev")

    def up(*_: object) -> str:
        file.write_text(SETTINGS + "# mine\n")
        raise HostError(what="failed", why="x", remedy="y")

    monkeypatch.setattr(edit, "up", up)
    assert run(["deny", "dev", "new.example.com"]) == 2
    assert file.read_text() == SETTINGS + "# mine\n"


def test_an_interrupted_up_puts_the_file_back(checkout: Checkout, monkeypatch):
    def up(*_: object) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr(edit, "up", up)
    assert run(["allow", "dev", "new.example.com"]) == 130
    assert checkout.stack_file("dev").read_text() == SETTINGS


def test_settings_that_are_wrong_elsewhere_are_told_and_not_touched(
    checkout: Checkout, applied, capsys
):
    file = checkout.stack_file("dev")
    wrong = SETTINGS.replace("cpus: 2", "cpus: many")
    file.write_text(wrong)
    assert run(["allow", "dev", "new.example.com"]) == 2
    assert file.read_text() == wrong
    assert "cpus" in capsys.readouterr().err
