"""What the engine's events and its text say."""

from __future__ import annotations

import json
from typing import Any

import pytest

from abox.errors import DriftError, HostError
from cli import pulumi_engine
from cli.checkout import Checkout
from cli.pulumi_engine import (
    Report,
    error_messages,
    find_cause,
    parse_events,
    preview,
    tells_progress,
    to_error,
    up,
)

URN = "urn:pulumi:dev::abox::abox:sandbox:Sandbox$abox:index:FirewallTable::dev-firewall"


def event(kind: str, op: str, **more: Any) -> dict[str, Any]:
    return {kind: {"metadata": {"urn": URN, "op": op, **more}}}


def diagnostic(message: str, severity: str = "error") -> dict[str, Any]:
    return {"diagnosticEvent": {"message": message, "severity": severity}}


def test_events_are_read_and_a_line_cut_off_is_dropped():
    text = json.dumps({"a": 1}) + "\n[]\n" + '{"b": '
    assert parse_events(text) == [{"a": 1}]


def test_the_type_and_name_of_a_nested_resource_are_its_own():
    (step,) = Report(7, [event("resourcePreEvent", "update")], []).planned()
    assert (step.type, step.name) == ("abox:index:FirewallTable", "dev-firewall")


def test_what_changes_nothing_is_not_planned():
    events = [event("resourcePreEvent", op) for op in ("same", "refresh", "read", "update")]
    assert [step.operation for step in Report(7, events, []).planned()] == ["update"]


def test_a_refresh_tells_what_it_found():
    events = [
        event("resourcePreEvent", "refresh"),
        event("resOutputsEvent", "update", new={"outputs": {"live": "x"}}),
        event("resOutputsEvent", "same"),
    ]
    (step,) = Report(0, events, []).refreshed()
    assert step.new == {"outputs": {"live": "x"}}


def test_changes_are_counted_without_what_stays():
    summary = {"summaryEvent": {"resourceChanges": {"same": 12, "update": 1}}}
    assert Report(0, [summary], []).changes() == {"update": 1}


def test_only_errors_are_causes_and_marks_are_taken_out():
    events = [diagnostic("<{%fg 1%}>error: no<{%reset%}>\n"), diagnostic("fine", "info")]
    assert error_messages(events) == ["error: no"]


@pytest.mark.parametrize(
    ("messages", "lines", "cause"),
    [
        (["subnet is taken", "update failed"], [], "subnet is taken"),
        (["update failed"], ["    error: no engine", "error: update failed"], "no engine"),
        (["update failed"], [], "update failed"),
        ([], ["error: no stack named 'x' found"], "no stack named 'x' found"),
        ([], ["something", ""], "something"),
        ([], [], "it said nothing"),
        (
            ["Program failed\nTraceback (most recent call last):\n  File x\nValueError: y"],
            [],
            "Program failed",
        ),
    ],
)
def test_the_cause_comes_before_everything_generic(messages, lines, cause):
    assert find_cause(messages, lines) == cause


def test_an_error_of_our_own_keeps_its_three_lines():
    error = to_error("pulumi up -s dev", "no subnet\nwhy: all taken\ndo: free one\n")
    assert (error.what, error.why, error.remedy) == (
        "`pulumi up -s dev` failed: no subnet",
        "all taken",
        "free one",
    )


def test_any_other_error_becomes_three_lines():
    error = to_error("pulumi up -s dev", "boom\n  again")
    assert error.why == "boom | again"
    assert "pulumi up -s dev" in error.remedy


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (" +  abox:index:FirewallTable dev-table creating (0s) ", True),
        (" ~  abox:index:GatewayPolicy dev-policy updated (1s) ", True),
        (" ~  docker:index:Volume dev-home refreshing (0s) ", False),
        (" ~  docker:index:Volume dev-home refresh (0.07s) ", False),
        ("@ updating....", False),
        ("Resources:", False),
    ],
)
def test_only_changes_are_progress(line, told):
    assert tells_progress(line) is told


@pytest.fixture
def ends(monkeypatch: pytest.MonkeyPatch):
    def ends(report: Report) -> None:
        monkeypatch.setattr(pulumi_engine, "_pulumi", lambda *_, **__: report)

    return ends


def test_a_failed_up_is_an_error_with_its_cause(checkout: Checkout, ends):
    ends(Report(255, [diagnostic("no engine"), diagnostic("update failed")], []))
    with pytest.raises(HostError) as raised:
        up(checkout, "dev")
    assert raised.value.why == "no engine"


def test_an_up_tells_what_changed(checkout: Checkout, ends):
    ends(Report(0, [{"summaryEvent": {"resourceChanges": {"update": 2, "same": 3}}}], []))
    assert up(checkout, "dev") == "2 updated"
    ends(Report(0, [], []))
    assert up(checkout, "dev") == "no changes"


def test_a_preview_that_failed_is_no_drift(checkout: Checkout, ends):
    ends(Report(255, [event("resourcePreEvent", "update"), diagnostic("boom")], []))
    with pytest.raises(HostError, match="boom"):
        preview(checkout, "dev")
    ends(Report(1, [], ["error: no stack"]))
    with pytest.raises(HostError, match="no stack"):
        preview(checkout, "dev")


def test_a_preview_with_changes_is_handed_on(checkout: Checkout, ends):
    report = Report(int(DriftError.exit_code), [event("resourcePreEvent", "update")], [])
    ends(report)
    assert preview(checkout, "dev") is report
