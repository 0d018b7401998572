"""What `command:local:Command` takes, and how its inputs differ from the last ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from toolchain.plugins.bridge.check import Failure
from toolchain.plugins.bridge.detailed_diff import Change, Changes, path_step
from toolchain.plugins.wire_values import UNKNOWN, Value, reveal

TOKEN: Final = "command:local:Command"  # noqa: S105 -- a type token, no password

LOGGING: Final = ("stdout", "stderr", "stdoutAndStderr", "none")

NOT_IMPLEMENTED: Final = ("assetPaths", "archivePaths")
"""Properties of the official plugin that this one refuses."""


def _is_text(value: Value) -> bool:
    return value is UNKNOWN or isinstance(value, str)


def _is_texts(value: Value) -> bool:
    return isinstance(value, list) and all(_is_text(item) for item in value)


def _is_text_map(value: Value) -> bool:
    return isinstance(value, dict) and all(_is_text(item) for item in value.values())


def _is_logging(value: Value) -> bool:
    return value in LOGGING


def _is_list(value: Value) -> bool:
    return isinstance(value, list)


def _is_flag(value: Value) -> bool:
    return isinstance(value, bool)


_KINDS: Final[Mapping[str, tuple[Callable[[Value], bool], str]]] = {
    "create": (_is_text, "a string"),
    "update": (_is_text, "a string"),
    "delete": (_is_text, "a string"),
    "stdin": (_is_text, "a string"),
    "dir": (_is_text, "a string"),
    "environment": (_is_text_map, "an object of strings"),
    "interpreter": (_is_texts, "a list of strings"),
    "triggers": (_is_list, "a list"),
    "logging": (_is_logging, f"one of {', '.join(LOGGING)}"),
    "addPreviousOutputInEnv": (_is_flag, "a boolean"),
}

INPUTS: Final = tuple(_KINDS)
"""Every property that can be set."""


def check_inputs(news: Mapping[str, Value]) -> list[Failure]:
    """All that is wrong with the inputs; values are never quoted, they may be secret."""
    return [
        failure
        for key, value in news.items()
        if value is not None and (failure := _check(key, reveal(value))) is not None
    ]


def _check(key: str, value: Value) -> Failure | None:
    if key in NOT_IMPLEMENTED:
        reason = f"{key!r} is not implemented by this stand-in of the official plugin"
        return Failure(key, reason)
    if key not in _KINDS:
        reason = f"{key!r} is no property of a command; those are: {', '.join(INPUTS)}"
        return Failure(key, reason)
    fits, wanted = _KINDS[key]
    if value is UNKNOWN or fits(value):
        return None
    return Failure(key, f"{key!r} wants {wanted}")


def diff_inputs(olds: Mapping[str, Value], news: Mapping[str, Value]) -> Changes:
    """Changes by path: elements of lists by their index, entries of maps by their key.

    A value that becomes a secret, or is none any more, has changed.
    """
    changes: Changes = {}
    for key in sorted(olds.keys() | news.keys()):
        if key != "version" and not key.startswith("__"):
            changes.update(_diff(key, olds.get(key), news.get(key)))
    return changes


def _diff(path: str, old: Value, new: Value) -> Changes:
    if old == new:
        return {}
    if old is None:
        return {path: Change.ADD}
    if new is None:
        return {path: Change.DELETE}
    changes: Changes = {}
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(old.keys() | new.keys()):
            changes.update(_diff(path + path_step(key), old.get(key), new.get(key)))
        return changes
    if isinstance(old, list) and isinstance(new, list):
        for index in range(max(len(old), len(new))):
            before = old[index] if index < len(old) else None
            after = new[index] if index < len(new) else None
            changes.update(_diff(f"{path}[{index}]", before, after))
        return changes
    return {path: Change.UPDATE}
