"""`abox logs`: the verdict log, merged, filtered, and never raw."""

from __future__ import annotations

import json
import time

import pytest

from cli import logs as module
from cli.main import run
from tests.unit.cli.test_containers import inspected, parsed
from tests.unit.cli.verdict_lines import DENY, LogFolder, logs, name, request

__all__ = ["logs"]


@pytest.fixture(autouse=True)
def sandbox(monkeypatch: pytest.MonkeyPatch):
    """A sandbox of the host."""
    containers = parsed(inspected(role="control"))
    monkeypatch.setattr(module, "list_containers", lambda: containers)


def shown(capsys, *options: str) -> list[str]:
    assert run(["logs", "dev", *options]) == 0
    return [line[24:] for line in capsys.readouterr().out.splitlines()]


def test_both_filters_are_merged_by_time(logs: LogFolder, capsys):
    logs.add(request(1), request(5), name(3))
    assert [line.split()[0] for line in shown(capsys)] == ["http", "dns", "http"]
    assert [line.split()[0] for line in shown(capsys, "--dns")] == ["dns"]
    assert [line.split()[0] for line in shown(capsys, "--http")] == ["http", "http"]


def test_blocked_leaves_what_was_allowed_out(logs: LogFolder, capsys):
    logs.add(request(1), request(2, DENY, name="evil.test", reason="not_allowed"))
    (line,) = shown(capsys, "--blocked")
    assert line == "http DENY  GET   evil.test:443/ 403 not_allowed"


def test_json_is_one_object_a_line(logs: LogFolder, capsys):
    logs.add(request(1), request(2, DENY))
    assert run(["logs", "dev", "--json"]) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [one["verdict"] for one in found] == ["allow", "deny"]
    assert found[0]["time"] == "2026-11-30T12:00:01.000Z"


def test_control_characters_are_never_printed(logs: LogFolder, capsys):
    """Not even if somebody wrote them into the file: the collector never does."""
    logs.add(request(1, path="/\x1b[2J\x9b\r\nx"))
    assert run(["logs", "dev"]) == 0
    out = capsys.readouterr().out
    assert "\\x1b[2J\\x9b\\r\\nx" in out
    assert out.count("\n") == 1


def test_follow_goes_on_until_the_log_is_gone(logs: LogFolder, capsys, monkeypatch):
    logs.add(request(1))
    steps = [lambda: logs.add(request(2)), lambda: logs.path.rename(logs.path.with_name("gone"))]
    monkeypatch.setattr(time, "sleep", lambda _: steps.pop(0)())
    assert len(shown(capsys, "-f")) == 2


def test_a_tunnel_whose_requests_have_lines_is_left_out(logs: LogFolder, capsys):
    logs.add(request(1, tunnel=True), request(2, DENY, tunnel=True))
    assert len(shown(capsys)) == 1


def test_both_selections_at_once_are_refused(logs: LogFolder, capsys):
    assert run(["logs", "dev", "--dns", "--http"]) == 2
    assert "exclude each other" in capsys.readouterr().err


def test_a_sandbox_without_a_log_is_told_with_a_remedy(logs: LogFolder, capsys):
    logs.path.rmdir()
    assert run(["logs", "dev"]) == 2
    assert "run `pulumi up -s dev`" in capsys.readouterr().err


def test_an_unknown_sandbox_is_told(logs: LogFolder, capsys):
    assert run(["logs", "../../etc"]) == 2
    assert "dev" in capsys.readouterr().err
