"""Reads case files: every file parses, a key that the format doesn't know is an error."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.cases.model import (
    ACTIONS,
    BACKENDS,
    EXPECT,
    GIVEN,
    LAYERS,
    ORIGIN,
    RAW,
    REQUIRED,
    TOP,
    Case,
)

EACH = "{each}"


class CaseFileError(Exception):
    """A case file that isn't in the format; all its faults."""


def _check_keys(found: Iterable[str], known: Iterable[str], where: str) -> list[str]:
    return [f"{where}: unknown key {key!r}" for key in sorted(set(found) - set(known))]


def _check_action(do: Mapping[str, Any], where: str) -> list[str]:
    names = [name for name in do if name in ACTIONS]
    if len(names) != 1:
        return [f"{where}.do: one action belongs here, found {sorted(do)}"]
    action = names[0]
    beside = RAW if action == "raw" else frozenset()
    faults = _check_keys(do, {action} | beside, f"{where}.do")
    keys = ACTIONS[action]
    if keys is not None:
        faults += _check_keys(do[action], keys, f"{where}.do.{action}")
    return faults


def _check_given(given: Mapping[str, Any], where: str) -> list[str]:
    faults = _check_keys(given, GIVEN, f"{where}.given")
    for origin in given.get("origins") or []:
        faults += _check_keys(origin, ORIGIN, f"{where}.given.origins")
    if "established" in given:
        faults += _check_action(given["established"], f"{where}.given.established")
    if "each" in given and not (isinstance(given["each"], list) and given["each"]):
        faults.append(f"{where}.given.each: a list with members belongs here")
    return faults


def faults_of(raw: Any, where: str) -> list[str]:
    """Everything that is wrong with one entry of a case file."""
    if not isinstance(raw, dict):
        return [f"{where}: a case is a mapping"]
    where = f"{where} {raw.get('id', '')}".strip()
    missing = [f"{where}: key {key!r} is missing" for key in sorted(REQUIRED - set(raw))]
    faults = missing + _check_keys(raw, TOP, where)
    if missing:
        return faults
    if raw["layer"] not in LAYERS:
        faults.append(f"{where}: unknown layer {raw['layer']!r}")
    if raw["backend"] not in BACKENDS:
        faults.append(f"{where}: unknown backend {raw['backend']!r}")
    if "--" not in str(raw["id"]):
        faults.append(f"{where}: the id has no '--' between kind and member")
    faults += _check_given(raw["given"] or {}, where)
    faults += _check_action(raw["do"], where)
    return faults + _check_keys(raw["expect"], EXPECT, f"{where}.expect")


def fill(value: Any, replacement: Any, mark: str = EACH) -> Any:
    """`value` with a placeholder filled in; a text that is only the mark keeps the type."""
    if isinstance(value, str):
        return replacement if value == mark else value.replace(mark, str(replacement))
    if isinstance(value, dict):
        return {fill(k, replacement, mark): fill(v, replacement, mark) for k, v in value.items()}
    if isinstance(value, list):
        return [fill(part, replacement, mark) for part in value]
    return value


def _expand(raw: Mapping[str, Any], file: str) -> list[Case]:
    given = dict(raw["given"] or {})
    members = given.pop("each", None)

    def case(given: dict[str, Any], do: Any, expect: Any, member: str) -> Case:
        return Case(
            id=str(raw["id"]),
            layer=raw["layer"],
            backend=raw["backend"],
            given=given,
            do=do,
            expect=expect,
            file=file,
            member=member,
            why=str(raw.get("why", "")),
        )

    if members is None:
        return [case(given, raw["do"], raw["expect"], "")]
    return [
        case(fill(given, m), fill(raw["do"], m), fill(raw["expect"], m), printable(str(m)))
        for m in members
    ]


def printable(text: str) -> str:
    """A text that is safe on a terminal and stays on its line."""
    return "".join(c if c.isprintable() and c.isascii() else repr(c)[1:-1] for c in text)


def read_file(path: Path) -> list[Case]:
    """The cases of one file, one for each member.

    Raises: CaseFileError with everything that is wrong.
    """
    try:
        entries = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise CaseFileError(f"{path.name}: {error}") from error
    if not isinstance(entries, list):
        raise CaseFileError(f"{path.name}: a list of cases belongs here")
    faults = [f for i, raw in enumerate(entries) for f in faults_of(raw, f"{path.name}[{i}]")]
    if faults:
        raise CaseFileError("\n".join(faults))
    return [case for raw in entries for case in _expand(raw, path.name)]


def read_folder(folder: Path) -> tuple[list[Case], list[str]]:
    """All cases of a folder's files, and the faults of those that don't parse."""
    cases: list[Case] = []
    faults: list[str] = []
    for path in sorted([*folder.glob("*.yaml"), *folder.glob("*.yml")]):
        try:
            cases += read_file(path)
        except CaseFileError as error:
            faults += str(error).split("\n")
    return cases, faults
