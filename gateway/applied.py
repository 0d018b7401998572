"""What control remembers: the plan that is in force, and the gates that stand under it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from abox.errors import AboxError
from abox.gates import Gates
from abox.render.paths import CA_DIR
from gateway.files import read_json, write_file
from gateway.plan import Plan

RECORD_FILE = Path(CA_DIR) / "applied.json"
"""The plan that is in force, without its key, and its gates."""
GATES_KEY = "gates"


@dataclass(frozen=True, kw_only=True)
class Applied:
    """A plan in force and its gates."""

    plan: Plan
    gates: Gates


def read_applied() -> Applied | None:
    """What is in force; None if nothing is, or if a change was begun and never finished."""
    record = read_json(RECORD_FILE)
    try:
        return _from_record(record) if record else None
    except (KeyError, TypeError, ValueError, AboxError):
        return None


def read_plan() -> Plan | None:
    """The plan that was in force last, whether or not a change was begun since; None if none."""
    record = read_json(RECORD_FILE)
    try:
        return Plan.from_record(record) if record else None
    except (KeyError, TypeError, ValueError, AboxError):
        return None


def _from_record(record: Mapping[str, Any]) -> Applied:
    return Applied(plan=Plan.from_record(record), gates=Gates.from_record(record[GATES_KEY]))


def write_applied(applied: Applied) -> None:
    """Remember what is in force."""
    _write({**applied.plan.to_record(), GATES_KEY: applied.gates.to_record()})


def begin_change() -> None:
    """Remember that a change has begun: until it is finished nobody knows what connections hold."""
    record = read_json(RECORD_FILE)
    if record:
        _write({**record, GATES_KEY: None})


def _write(record: Mapping[str, Any]) -> None:
    write_file(RECORD_FILE, json.dumps(record), mode=0o600)
