"""The state that an update or a creation would lead to, and whether it takes a new resource.

The rules are those of the bridged provider's SDK: what the program leaves out keeps its live
value (computed), falls to its default, or is taken away; a zero value and an absent one are
the same.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from toolchain.plugins.bridge.fields import (
    DEFAULTS_KEY,
    SCALARS,
    SEQUENCES,
    Field,
    Fields,
    Kind,
    upstream_name,
)
from toolchain.plugins.wire_values import UNKNOWN, Properties, Value


def plan_state(
    fields: Fields, prior: Mapping[str, Value] | None, news: Mapping[str, Value]
) -> Properties:
    """State to expect for checked inputs.

    A zero value in the place of an absent one is no change by itself; beside another change it
    is planned as it is given.

    Args:
        fields: what the resource has.
        prior: state that stands, None at creation.
        news: checked inputs, unknowns included.
    """
    planned = _plan_object(fields, prior, news, in_set=False)
    if prior is None or planned == prior_state(fields, prior):
        return planned
    return {key: _given_zero(field, planned[key], news.get(key)) for key, field in fields.items()}


def _given_zero(field: Field, planned: Value, new: Value) -> Value:
    if field.kind in SCALARS and planned is None and not field.empty_is_unset:
        return new
    return planned


def prior_state(fields: Fields, state: Mapping[str, Value]) -> Properties:
    """State as stored, cut to the fields and with empty blocks where it has none."""
    return {key: _or_empty(field, state.get(key)) for key, field in fields.items()}


def is_zero(value: Value) -> bool:
    """Whether a value says as little as an absent one."""
    return value is not UNKNOWN and not value


def _plan_object(
    fields: Fields,
    prior: Mapping[str, Value] | None,
    news: Mapping[str, Value],
    *,
    in_set: bool,
) -> Properties:
    return {
        key: _plan_field(
            field,
            _or_empty(field, prior.get(key)) if prior is not None else None,
            news.get(key),
            creating=prior is None,
            in_set=in_set,
        )
        for key, field in fields.items()
    }


def _plan_field(field: Field, prior: Value, new: Value, *, creating: bool, in_set: bool) -> Value:
    if new is UNKNOWN or _is_partly_unknown(new):
        # The SDK of the bridged provider loses sight of a computed set that is wholly unknown.
        unseen = new is UNKNOWN and field.computed and field.kind is Kind.SET and prior
        return prior if unseen else UNKNOWN
    if new is None or (_says_nothing(field, new) and (creating or not _is_taken_away(field))):
        return _plan_absent(field, prior, creating=creating, in_set=in_set)
    if field.kind in SCALARS:
        return _plan_scalar(field, prior, new, creating=creating)
    if field.kind is Kind.MAP:
        entries = {key: as_text(value) for key, value in new.items()}
        return prior if not creating and (prior or {}) == entries else entries
    if field.single:
        return _plan_single(field, prior, new, in_set=in_set)
    if field.kind is Kind.SET:
        return _plan_set(field, prior, new, creating=creating)
    return _plan_list(field, prior, new, creating=creating, in_set=in_set)


def _is_partly_unknown(new: Value) -> bool:
    """Whether an entry of a map or an element of a list isn't known: then none of it is.

    An object whose properties aren't all known is known itself.
    """
    if isinstance(new, dict):
        return UNKNOWN in new.values() and DEFAULTS_KEY not in new
    return isinstance(new, list) and UNKNOWN in new


def _says_nothing(field: Field, new: Value) -> bool:
    """An empty set or map is the same as none."""
    return field.kind in (Kind.SET, Kind.MAP) and not field.single and not new


def _is_taken_away(field: Field) -> bool:
    """Whether an empty list in place of a live value takes it away: blocks just keep it."""
    return field.computed and not field.is_block


def as_text(value: Value) -> str:
    """A scalar as the bridged provider writes it where it wants a string."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _plan_absent(field: Field, prior: Value, *, creating: bool, in_set: bool) -> Value:
    if field.default not in (None, ""):
        return field.default
    if field.computed:
        return UNKNOWN if creating else prior
    if not creating and (field.empty_is_unset or is_zero(prior)):
        return prior
    return _removed(field, creating=creating, in_set=in_set)


def _removed(field: Field, *, creating: bool, in_set: bool) -> Value:
    if field.single:
        return None
    if field.kind is Kind.MAP:
        return None if creating else {}
    if field.kind in SEQUENCES:
        return [] if in_set or (creating and field.is_block) else None
    return "" if in_set and field.kind is Kind.TEXT else None


def _plan_scalar(field: Field, prior: Value, new: Value, *, creating: bool) -> Value:
    if field.computed and new == "":
        return UNKNOWN if creating else prior
    unset = (is_zero(new) and is_zero(prior)) or (new == "" and field.empty_is_unset)
    alike = field.any_case and str(new).casefold() == str(prior).casefold()
    return prior if (unset or alike) and not creating else new


def _plan_single(field: Field, prior: Value, new: Value, *, in_set: bool) -> Value:
    fields = field.fields or {}
    nested_in_set = in_set or field.kind is Kind.SET
    planned = _plan_object(fields, prior or None, new, in_set=nested_in_set)
    if field.kind is not Kind.SET or not prior:
        return planned
    return prior if element_key(prior) == element_key(planned) else planned


def _plan_list(field: Field, prior: Value, new: Value, *, creating: bool, in_set: bool) -> Value:
    if field.fields is None:
        kept = not creating and is_zero(prior) and is_zero(new)
        return prior if kept else [_plan_item(field, item) for item in new]
    olds = prior or []
    planned = [
        item
        if item is UNKNOWN
        else _plan_object(field.fields, olds[i] if i < len(olds) else None, item, in_set=in_set)
        for i, item in enumerate(new)
    ]
    if field.unordered and olds and _keys(planned) == _keys(olds):
        return prior
    return planned


def _plan_item(field: Field, item: Value) -> Value:
    """An element that isn't an object: a string, or a map of strings."""
    if field.of_maps and item is not UNKNOWN:
        return {key: as_text(value) for key, value in item.items()}
    return item


def _keys(items: list[Value]) -> list[str]:
    return sorted(element_key(item) for item in items)


def _plan_set(field: Field, prior: Value, new: Value, *, creating: bool) -> Value:
    planned = [
        item
        if field.fields is None or item is UNKNOWN
        else _plan_object(field.fields, None, item, in_set=True)
        for item in new
    ]
    unique = {element_key(item): item for item in planned}
    if not creating and unique.keys() == {element_key(item) for item in prior or []}:
        return prior
    return sorted_set(field, list(unique.values()))


def element_key(item: Value) -> str:
    """Identity of a set's element: zero values, absent ones and unknowns count as nothing."""
    return json.dumps(_significant(item), sort_keys=True)


def _significant(item: Value) -> Any:
    if item is UNKNOWN:
        return None
    if isinstance(item, dict):
        parts = {key: _significant(part) for key, part in item.items() if key != DEFAULTS_KEY}
        return {key: part for key, part in parts.items() if part}
    if isinstance(item, list):
        return [_significant(part) for part in item]
    return item


def sorted_set(field: Field, items: list[Value]) -> list[Value]:
    """Elements in the order in which the bridged provider keeps a set."""
    if field.fields is None:
        return sorted(
            items, key=lambda item: (item is UNKNOWN, item if item is not UNKNOWN else "")
        )
    return sorted(items, key=lambda item: _order(field, item))


def _order(field: Field, item: Value) -> str:
    if item is UNKNOWN:
        return "?"
    parts = {upstream_name(key, part): key for key, part in (field.fields or {}).items()}
    written = (
        _written((field.fields or {})[parts[name]], item.get(parts[name])) for name in sorted(parts)
    )
    return "<" + "".join(f"{part};" for part in written) + ">"


def _written(field: Field, value: Value) -> str:
    if value is UNKNOWN:
        return "?"
    if field.kind in SEQUENCES:
        items = [value] if field.single and value is not None else value or []
        inner = [
            _order(field, item) if field.fields is not None else json.dumps(item)
            for item in items
            if item is not UNKNOWN
        ]
        return "[" + "".join(f"{part};" for part in inner) + "]"
    if value is None:
        return "~"
    if isinstance(value, bool):
        return "T" if value else "F"
    if isinstance(value, dict):
        pairs = (f"{json.dumps(key)}:{json.dumps(value[key])};" for key in sorted(value))
        return "{" + "".join(pairs) + "}"
    return json.dumps(value)


def _or_empty(field: Field, value: Value) -> Value:
    if value is None and field.is_block and not field.single:
        return []
    return value


def needs_replacement(fields: Fields, prior: Mapping[str, Value], planned: Properties) -> bool:
    """Whether the change from `prior` to `planned` takes a new resource.

    An object in a set counts only by what its own properties say, and by the number of objects:
    so says the SDK of the bridged provider, whatever the set itself says.
    """
    return any(
        _field_replaces(field, prior.get(key), planned.get(key)) for key, field in fields.items()
    )


def _field_replaces(field: Field, old: Value, new: Value) -> bool:
    if old == new:
        return False
    if old is None and new == "":
        return False
    if field.kind in SCALARS or field.fields is None or new is UNKNOWN:
        return field.replaces
    olds, news = _as_list(field, old), _as_list(field, new)
    if len(olds) != len(news):
        return field.replaces or any(_any_leaf_replaces(field, item) for item in [*olds, *news])
    if field.kind is Kind.LIST:
        return any(
            after is UNKNOWN or needs_replacement(field.fields, before, after)
            for before, after in zip(olds, news, strict=True)
            if before != after
        )
    before_keys = {element_key(item) for item in olds}
    after_keys = {element_key(item) for item in news}
    changed = [item for item in olds if element_key(item) not in after_keys]
    changed += [item for item in news if element_key(item) not in before_keys]
    return any(_any_leaf_replaces(field, item) for item in changed)


def _as_list(field: Field, value: Value) -> list[Value]:
    if value is None or value is UNKNOWN:
        return []
    return [value] if field.single else list(value)


def _any_leaf_replaces(field: Field, item: Value) -> bool:
    if item is UNKNOWN:
        return field.replaces
    for key, known in (field.fields or {}).items():
        value = item.get(key)
        if is_zero(value):
            continue
        if known.fields is None:
            if known.replaces:
                return True
        elif known.replaces or any(
            _any_leaf_replaces(known, part) for part in _as_list(known, value)
        ):
            return True
    return False
