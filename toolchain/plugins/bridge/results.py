"""State as it is handed to the engine: after a creation, an update or a refresh."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any, Final

from toolchain.plugins.bridge.fields import (
    DEFAULTS_KEY,
    SEQUENCES,
    Field,
    Fields,
    Kind,
    snake_case,
    upstream_name,
)
from toolchain.plugins.bridge.plan import is_zero, sorted_set
from toolchain.plugins.wire_values import UNKNOWN, Properties, Value

DELTA_KEY: Final = "__pulumi_raw_state_delta"
"""Key of the state that says how to turn it back into the bridged provider's own."""

TIMEOUTS_KEY: Final = "e2bfb730-ecaa-11e6-8f88-34363bc7c4c0"
NANOSECONDS: Final = 10**9


def after_apply(
    fields: Fields, planned: Mapping[str, Value], live: Mapping[str, Value]
) -> Properties:
    """State after a creation or an update: what was planned, and what only the live object tells.

    A set keeps its planned form, and a collection that was planned as absent stays absent though
    the live object shows it empty: so does the bridged provider's SDK.
    """
    return {key: _applied(field, planned.get(key), live.get(key)) for key, field in fields.items()}


def _applied(field: Field, planned: Value, live: Value) -> Value:
    if planned is UNKNOWN:
        return _shown(field, [] if live is None and _is_plural(field) else live)
    if field.kind in (*SEQUENCES, Kind.MAP) and is_zero(planned) and is_zero(live):
        return planned
    if field.kind is Kind.SET and planned is not None and not _holds_unknown(planned):
        return planned
    if field.kind is Kind.TEXT and live is None and planned == "":
        return planned
    return _shown(field, live)


def _is_plural(field: Field) -> bool:
    return field.kind in SEQUENCES and not field.single


def _holds_unknown(value: Value) -> bool:
    if isinstance(value, dict):
        return any(_holds_unknown(part) for part in value.values())
    if isinstance(value, list):
        return any(_holds_unknown(part) for part in value)
    return value is UNKNOWN


def after_refresh(fields: Fields, live: Mapping[str, Value]) -> Properties:
    """State after a refresh."""
    return {key: _refreshed(field, live.get(key)) for key, field in fields.items()}


def _refreshed(field: Field, live: Value) -> Value:
    if field.kind is Kind.SET and field.fields is not None and live:
        items = [live] if field.single else live
        filled = [_zeros_filled(field.fields, item) for item in items]
        return filled[0] if field.single else sorted_set(field, filled)
    return _shown(field, live)


def _shown(field: Field, live: Value) -> Value:
    if live is UNKNOWN:
        live = None
    if live is None and field.is_block and not field.single:
        return []
    if field.kind is Kind.SET and isinstance(live, list):
        return sorted_set(field, live)
    return live


def _zeros_filled(fields: Fields, item: Mapping[str, Value]) -> Properties:
    """An object of a set with its absent properties at zero, as a refresh shows them."""
    return {key: _zero_filled(field, item.get(key)) for key, field in fields.items()}


def _zero_filled(field: Field, value: Value) -> Value:
    if value is None or value is UNKNOWN:
        if field.single:
            return None
        return ZEROS[field.kind]()
    if field.single and field.fields is not None:
        return _zeros_filled(field.fields, value)
    return value


ZEROS: Final[dict[Kind, Any]] = {
    Kind.TEXT: str,
    Kind.WHOLE: int,
    Kind.FLAG: bool,
    Kind.LIST: list,
    Kind.SET: list,
    Kind.MAP: dict,
}


def meta(
    *, timeouts: Mapping[str, int], schema_version: int | None, preview: bool = False
) -> str | None:
    """The bridge's own note in a state, None if it writes none."""
    note: dict[str, Any] = {}
    if preview:
        if not timeouts:
            return None
        note["_new_extra_shim"] = {}
    if timeouts:
        note[TIMEOUTS_KEY] = {call: limit * NANOSECONDS for call, limit in timeouts.items()}
    if schema_version is not None and not preview:
        note["schema_version"] = str(schema_version)
    return json.dumps(note, separators=(",", ":")) if note else None


def state_delta(
    fields: Fields, state: Mapping[str, Value], *, without: Collection[str] = ()
) -> Properties:
    """How to turn a state back into the bridged provider's own: kinds and renamed properties.

    Args:
        fields: what the resource has.
        state: its properties.
        without: properties that are null in the bridged provider too, though blocks never are.
    """
    delta = _object_delta(fields, state)
    delta["ps"] = {key: part for key, part in delta.get("ps", {}).items() if key not in without}
    return {"obj": delta}


def _object_delta(fields: Fields, state: Mapping[str, Value]) -> Properties:
    deltas = {key: _delta(field, state.get(key)) for key, field in fields.items()}
    renamed = {
        key: upstream_name(key, field)
        for key, field in fields.items()
        if upstream_name(key, field) != snake_case(key)
    }
    delta: Properties = {}
    if any(deltas.values()):
        delta["ps"] = {key: part for key, part in deltas.items() if part}
    if renamed:
        delta["renamed"] = renamed
    return delta


def _delta(field: Field, value: Value) -> Properties | None:
    if field.single:
        inner = {} if value is None else {"obj": _object_delta(field.fields or {}, value)}
        return {"plu": {"i": inner}}
    if value is None:
        return None
    if field.kind is Kind.MAP:
        return {"map": {}}
    if field.kind not in SEQUENCES:
        return None
    if field.fields is None or not value:
        return {"arr": {}}
    elements = {
        str(index): {"obj": _object_delta(field.fields, item)} for index, item in enumerate(value)
    }
    return {"arr": {"el": elements}}


def refreshed_inputs(
    fields: Fields, old_inputs: Mapping[str, Value], state: Mapping[str, Value]
) -> Properties:
    """Inputs with the values that a refresh found; none is added that wasn't given before."""
    return _object_inputs(fields, old_inputs, state)[0]


def _object_inputs(
    fields: Fields, old: Mapping[str, Value], state: Mapping[str, Value]
) -> tuple[Properties, bool]:
    """Inputs of an object, and whether they are still what the defaults made them."""
    inputs: Properties = {}
    changed: set[str] = set()
    for key, value in old.items():
        if key == DEFAULTS_KEY:
            continue
        if key not in state:
            changed.add(key)
            continue
        inputs[key], same = _value_inputs(fields.get(key), value, state[key])
        if not same:
            changed.add(key)
    old_defaults = old.get(DEFAULTS_KEY)
    if isinstance(old_defaults, list):
        inputs[DEFAULTS_KEY] = sorted(set(old_defaults) - changed)
    return inputs, not changed or old_defaults is None


def _value_inputs(field: Field | None, old: Value, state: Value) -> tuple[Value, bool]:
    if isinstance(old, list) and isinstance(state, list):
        return _list_inputs(field, old, state)
    if isinstance(old, dict) and isinstance(state, dict):
        if field is not None and field.fields is not None:
            return _object_inputs(field.fields, old, state)
        kept = {key: state[key] for key in old if key in state}
        return kept, kept == old
    return state, old == state


def _list_inputs(field: Field | None, old: list[Value], state: list[Value]) -> tuple[Value, bool]:
    positions = _positions(field, old, state)
    element = None
    if field is not None and field.fields is not None:
        element = Field(kind=Kind.SET, fields=field.fields, single=True)
    inputs: list[Value] = []
    same = len(positions) == len(old)
    for index, position in positions.items():
        value, unchanged = _value_inputs(element, old[index], state[position])
        inputs.append(value)
        same = same and unchanged
    return inputs, same


def _positions(field: Field | None, old: list[Value], state: list[Value]) -> dict[int, int]:
    """Index in the inputs to index in the state: by likeness for objects of a set."""
    objects = all(isinstance(item, dict) for item in [*old, *state])
    if field is None or field.kind is not Kind.SET or not objects:
        return {index: index for index in range(min(len(old), len(state)))}
    ranked = sorted(
        (
            (_likeness(was, found), i, j)
            for i, was in enumerate(old)
            for j, found in enumerate(state)
        ),
        key=lambda candidate: (-candidate[0], candidate[1], candidate[2]),
    )
    matched: dict[int, int] = {}
    for _, i, j in ranked:
        if i not in matched and j not in matched.values():
            matched[i] = j
    return dict(sorted(matched.items()))


def _likeness(was: Properties, found: Properties) -> int:
    shared = [key for key in was if key in found]
    return len(shared) + 2 * sum(bool(was[key] == found[key]) for key in shared)


def imported_inputs(fields: Fields, state: Mapping[str, Value]) -> Properties:
    """Inputs that describe a resource taken over by its id: all but zero and default values."""
    inputs: Properties = {DEFAULTS_KEY: []}
    for key, field in fields.items():
        value = _imported(field, state.get(key))
        unsaid = is_zero(value) if field.default is None else value == field.default
        if field.settable and (field.required or not unsaid):
            inputs[key] = value
    return inputs


def _imported(field: Field, value: Value) -> Value:
    if field.kind is Kind.MAP and value:
        return {**value, DEFAULTS_KEY: []}
    if field.fields is None or value is None:
        return value
    if isinstance(value, list):
        return [imported_inputs(field.fields, item) for item in value]
    return imported_inputs(field.fields, value)
