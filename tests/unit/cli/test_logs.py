"""`abox logs`: verdicts of two logs, merged, filtered, and never raw."""

from __future__ import annotations

import json
from contextlib import contextmanager

import pytest

from abox.allowlist import parse_policy
from abox.verdict_lines import parse_dns_line, parse_http_line
from cli import host
from cli import logs as module
from cli.checkout import Checkout
from cli.logs import Timed, read_lines, settled, split_stamp, wanted
from cli.main import run
from tests.unit.abox.test_verdict_lines import LINE, reply
from tests.unit.cli.test_containers import inspected, parsed

STAMP = "2026-11-30T04:00:0{}.500000000Z "


def request(second: int, **changes) -> str:
    return json.dumps({**LINE, "time": f"2026-11-30T04:00:0{second}.000Z", **changes})


DENIED = {"status": 403, "details": "direct_response", "reason": "not_allowed", "name": "evil.test"}


@pytest.fixture
def sandbox(checkout: Checkout, monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """A sandbox whose two logs are lists of lines."""
    pause = inspected(role="pause")
    pause["NetworkSettings"] = {"Networks": {"n": {"IPAddress": "10.10.3.2"}}}
    containers = parsed(pause, inspected(role="dns"), inspected(role="proxy"))
    lines: dict[str, list[str]] = {"dev-dns-id": [], "dev-proxy-id": []}

    @contextmanager
    def running(arguments, **_):
        class Running:
            def lines(self):
                return iter(lines[arguments[-1]])

        yield Running()

    monkeypatch.setattr(module, "list_containers", lambda: containers)
    monkeypatch.setattr(host, "running", running)
    return lines


def shown(capsys, *options: str) -> list[str]:
    assert run(["logs", "dev", *options]) == 0
    return [line[24:] for line in capsys.readouterr().out.splitlines()]


def test_both_logs_are_merged_by_time(sandbox, capsys):
    sandbox["dev-proxy-id"] = [STAMP.format(9) + request(5), STAMP.format(9) + request(1)]
    sandbox["dev-dns-id"] = [STAMP.format(3) + reply().replace("1796013749", "1796011203")]
    assert [line.split()[0] for line in shown(capsys)] == ["http", "dns", "http"]
    assert [line.split()[0] for line in shown(capsys, "--dns")] == ["dns"]
    assert [line.split()[0] for line in shown(capsys, "--http")] == ["http", "http"]


def test_blocked_leaves_what_was_allowed_out(sandbox, capsys):
    sandbox["dev-proxy-id"] = [STAMP.format(1) + request(1), STAMP.format(2) + request(2, **DENIED)]
    (line,) = shown(capsys, "--blocked")
    assert "DENY" in line
    assert "evil.test" in line


def test_json_is_one_object_a_line(sandbox, capsys):
    sandbox["dev-proxy-id"] = [STAMP.format(1) + request(1), STAMP.format(2) + request(2, **DENIED)]
    assert run(["logs", "dev", "--json"]) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [one["allowed"] for one in found] == [True, False]
    assert found[0]["time"] == "2026-11-30T04:00:01.000Z"


def test_control_characters_are_never_printed(sandbox, capsys):
    sandbox["dev-proxy-id"] = [STAMP.format(1) + request(1, path="/\x1b[2J\x9b\r\nx")]
    assert run(["logs", "dev"]) == 0
    out = capsys.readouterr().out
    assert "\\x1b[2J\\x9b\\r\\nx" in out
    assert out.count("\n") == 1


def test_follow_goes_on_until_both_logs_end(sandbox, capsys):
    sandbox["dev-proxy-id"] = [STAMP.format(1) + request(1)]
    assert len(shown(capsys, "-f")) == 2  # once from the past, once as it comes


def test_both_selections_at_once_are_refused(sandbox, capsys):
    assert run(["logs", "dev", "--dns", "--http"]) == 2
    assert "exclude each other" in capsys.readouterr().err


def test_what_the_gateway_asks_itself_is_left_out(sandbox, capsys):
    sandbox["dev-dns-id"] = [STAMP.format(1) + reply(client="10.10.3.2")]
    sandbox["dev-proxy-id"] = [STAMP.format(1) + request(1, address="envoy://intercept/")]
    assert shown(capsys) == []


def test_an_allowed_name_that_does_not_exist_is_no_denial():
    verdict = parse_dns_line(reply(name="gone.a.test."))
    assert verdict is not None
    one = Timed(1.0, 0, verdict)
    assert settled(one, parse_policy(["gone.a.test"])).verdict.allowed
    assert not settled(one, parse_policy(["b.test"])).verdict.allowed
    assert not settled(one, None).verdict.allowed
    assert wanted(one.verdict, frozenset(), blocked=True)


def test_lines_that_are_no_verdicts_are_left_out():
    lines = ["[info] starting", STAMP.format(1) + "noise", STAMP.format(2) + request(2)]
    assert len(list(read_lines(lines, parse_http_line))) == 1


@pytest.mark.parametrize(
    ("line", "stamp", "rest"),
    [
        ("2026-11-30T04:00:01.5Z a b", 1796011201.5, "a b"),
        ("2026-11-30T04:00:01Z a", 1796011201.0, "a"),
        ("no stamp", 0.0, "no stamp"),
    ],
)
def test_the_engines_stamp_is_split_off(line, stamp, rest):
    assert split_stamp(line) == (stamp, rest)
