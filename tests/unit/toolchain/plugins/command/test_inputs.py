"""What a command takes, and how a change of it shows."""

from __future__ import annotations

from typing import Any

import pytest

from toolchain.plugins.bridge.detailed_diff import Change
from toolchain.plugins.command.inputs import INPUTS, NOT_IMPLEMENTED, check_inputs, diff_inputs
from toolchain.plugins.wire_values import UNKNOWN, Secret

GOOD: dict[str, Any] = {
    "create": "a",
    "update": Secret("b"),
    "delete": UNKNOWN,
    "stdin": "in",
    "dir": "/x",
    "environment": {"A": "1", "B": UNKNOWN, "C": Secret("x")},
    "interpreter": ["/bin/sh", "-c"],
    "triggers": ["a", 1, {"b": [None]}],
    "logging": "none",
    "addPreviousOutputInEnv": False,
}


def test_every_property_is_taken() -> None:
    """Known, unknown and secret values alike."""
    assert GOOD.keys() == set(INPUTS)
    assert check_inputs(GOOD) == []
    assert check_inputs(dict.fromkeys(INPUTS)) == []  # null is absent


@pytest.mark.parametrize("key", NOT_IMPLEMENTED)
def test_paths_are_refused(key: str) -> None:
    """Files as outputs aren't implemented."""
    (failure,) = check_inputs({key: ["*.txt"]})
    assert failure.property == key
    assert "is not implemented" in failure.reason


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("create", 1),
        ("environment", {"A": 1}),
        ("environment", ["A=1"]),
        ("interpreter", "sh"),
        ("triggers", "t"),
        ("logging", "all"),
        ("addPreviousOutputInEnv", "yes"),
        ("connection", {}),
    ],
)
def test_wrong_values_are_named_and_not_shown(key: str, value: Any) -> None:
    """By the property's name; the value may be secret."""
    (failure,) = check_inputs({key: value})
    assert failure.property == key
    (hidden,) = check_inputs({key: Secret(value)})
    assert hidden == failure
    assert repr(value) not in failure.reason.replace(repr(key), "")


@pytest.mark.parametrize(
    ("olds", "news", "changes"),
    [
        ({"create": "a"}, {"create": "a"}, {}),
        ({"create": "a"}, {"create": "b"}, {"create": Change.UPDATE}),
        ({}, {"update": "a"}, {"update": Change.ADD}),
        ({"delete": "a"}, {}, {"delete": Change.DELETE}),
        (
            {"environment": {"A": "1", "B.C": "2"}},
            {"environment": {"A": "2", "D": "3"}},
            {
                "environment.A": Change.UPDATE,
                'environment["B.C"]': Change.DELETE,
                "environment.D": Change.ADD,
            },
        ),
        (
            {"triggers": ["a", "b"]},
            {"triggers": ["a", "c", "d"]},
            {"triggers[1]": Change.UPDATE, "triggers[2]": Change.ADD},
        ),
        ({"create": "a"}, {"create": UNKNOWN}, {"create": Change.UPDATE}),
        ({"create": Secret("a")}, {"create": Secret("a")}, {}),
        ({"create": "a"}, {"create": Secret("a")}, {"create": Change.UPDATE}),
        ({"version": "1", "__x": "1"}, {}, {}),
    ],
)
def test_changes_are_told_by_path(
    olds: dict[str, Any], news: dict[str, Any], changes: dict[str, Change]
) -> None:
    """Every change is an update; the SDK turns those of `triggers` into replacements."""
    assert diff_inputs(olds, news) == changes
