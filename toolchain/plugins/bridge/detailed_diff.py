"""Diff: which properties change, how, and which of them force a new resource.

Paths point into the program's inputs: elements of a set, which the state keeps sorted, are
found again among the inputs where they can be told apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from toolchain.plugins.bridge.fields import DEFAULTS_KEY, SCALARS, Field, Fields, Kind
from toolchain.plugins.bridge.plan import element_key
from toolchain.plugins.wire_values import UNKNOWN, Properties, Value

META_KEY = "__meta"
"""Stands for a replacement that no property shows."""


class Change(StrEnum):
    """Kind of one change, as the protocol names it."""

    ADD = "ADD"
    ADD_REPLACE = "ADD_REPLACE"
    DELETE = "DELETE"
    DELETE_REPLACE = "DELETE_REPLACE"
    UPDATE = "UPDATE"
    UPDATE_REPLACE = "UPDATE_REPLACE"

    @property
    def replaces(self) -> bool:
        """Whether the change forces a new resource."""
        return self.value.endswith("_REPLACE")

    def replacing(self, *, wanted: bool) -> Change:
        """The same change, forcing a new resource or not."""
        plain = self.value.removesuffix("_REPLACE")
        return Change(plain + "_REPLACE" if wanted else plain)


Changes: TypeAlias = dict[str, Change]
"""Property path to its change."""


@dataclass(frozen=True)
class _Place:
    """A spot in the property tree: its path, field and the force of what holds it."""

    path: str
    field: Field
    element: bool = False
    """An element of the field's list, set or map rather than the whole."""
    element_replaces: bool = False
    """The spot is a direct part of a collection that forces a new resource."""
    flat: bool = False
    """A list that grows or shrinks shows as changed, and so does each property in it."""

    @property
    def replaces(self) -> bool:
        return (self.field.replaces and not self.element) or self.element_replaces

    def part(self, key: str) -> _Place:
        return _Place(
            f"{self.path}{path_step(key)}",
            self.field,
            element=True,
            element_replaces=self.field.replaces,
            flat=self.flat,
        )

    def item(self, index: int) -> _Place:
        return _Place(
            f"{self.path}[{index}]",
            self.field,
            element=True,
            element_replaces=self.field.replaces,
            flat=self.flat,
        )

    def whole(self) -> _Place:
        return _Place(self.path, self.field, flat=self.flat)

    def child(self, key: str, field: Field) -> _Place:
        return _Place(f"{self.path}{path_step(key)}", field, flat=self.flat)


def path_step(key: str) -> str:
    """A key as a step of a property path: quoted unless it is made of letters and digits."""
    if all(char.isascii() and (char.isalnum() or char == "_") for char in key):
        return f".{key}"
    escaped = key.replace('"', '\\"')
    return f'["{escaped}"]'


def detailed_diff(
    fields: Fields,
    prior: Mapping[str, Value],
    planned: Mapping[str, Value],
    inputs: Mapping[str, Value],
    *,
    replace: bool,
    flat: bool = False,
) -> Changes:
    """Changes by path.

    Args:
        fields: what the resource has.
        prior: state that stands.
        planned: state to come.
        inputs: checked inputs, for the order of sets.
        replace: whether the change takes a new resource, by `needs_replacement`.
        flat: a list that grows or shrinks shows as changed, and so does each property in it.
    """
    changes: Changes = {}
    for key, field in fields.items():
        place = _Place(key, field, flat=flat)
        changes.update(_diff(place, prior.get(key), planned.get(key), inputs.get(key)))
    if replace and not any(change.replaces for change in changes.values()):
        changes[META_KEY] = Change.UPDATE_REPLACE
    if not replace:
        changes = {path: change.replacing(wanted=False) for path, change in changes.items()}
    return changes


def _diff(place: _Place, old: Value, new: Value, given: Value) -> Changes:
    old, new = _none_if_empty(old), _none_if_empty(new)
    if old is None and new is None:
        return {}
    if old is None or new is None or new is UNKNOWN:
        return _whole(place, old, new)
    if place.element:
        return _diff_element(place, old, new, given)
    if place.field.kind in SCALARS:
        return _diff_scalar(place, old, new)
    if place.field.kind is Kind.MAP:
        return _diff_map(place, old, new)
    if place.field.single:
        return _diff_object(place, old, new, given)
    if place.field.kind is Kind.SET:
        return _diff_set(place, old, new, given)
    return _diff_list(place, old, new, given)


def _none_if_empty(value: Value) -> Value:
    """An empty list or set shows as an absent one."""
    return None if value == [] else value


def _whole(place: _Place, old: Value, new: Value) -> Changes:
    if old is None:
        change = Change.ADD
    elif new is None:
        change = Change.DELETE
    else:
        change = Change.UPDATE
    value = old if new is None or new is UNKNOWN else new
    replaces = place.replaces or _replaces_within(place.field, value)
    return {place.path: change.replacing(wanted=replaces)}


def _replaces_within(field: Field, value: Value) -> bool:
    """Whether a value taken away or added as a whole has a part that forces a new resource."""
    if field.fields is None or value is None or value is UNKNOWN:
        return field.replaces
    items = value if isinstance(value, list) else [value]
    return any(
        key in (field.fields or {}) and field.fields[key].replaces
        for item in items
        if isinstance(item, dict)
        for key in item
    )


def _diff_element(place: _Place, old: Value, new: Value, given: Value) -> Changes:
    if isinstance(old, dict) and isinstance(new, dict):
        if place.field.fields is not None:
            return _diff_object(place, old, new, given)
        if place.field.of_maps:
            return _diff_map(place.whole(), old, new)
    return _diff_scalar(place, old, new)


def _diff_scalar(place: _Place, old: Value, new: Value) -> Changes:
    if old == new:
        return {}
    return {place.path: Change.UPDATE.replacing(wanted=place.replaces)}


def _diff_object(place: _Place, old: Properties, new: Properties, given: Value) -> Changes:
    changes: Changes = {}
    inputs = given if isinstance(given, dict) else {}
    for key, field in (place.field.fields or {}).items():
        changes.update(_diff(place.child(key, field), old.get(key), new.get(key), inputs.get(key)))
    return changes


def _diff_map(place: _Place, old: Properties, new: Properties) -> Changes:
    changes: Changes = {}
    for key in sorted(old.keys() | new.keys()):
        changes.update(_diff(place.part(key), old.get(key), new.get(key), None))
    return changes


def _diff_list(place: _Place, old: Sequence[Value], new: Sequence[Value], given: Value) -> Changes:
    if place.field.fields is None and not place.field.of_maps:
        edits = _edits(old, new)
        return {
            f"{place.path}[{index}]": change.replacing(wanted=place.field.replaces)
            for index, change in edits.items()
        }
    changes: Changes = {}
    inputs = given if isinstance(given, list) else []
    for index in range(max(len(old), len(new))):
        item = place.item(index)
        before, after, said = (_at(part, index) for part in (old, new, inputs))
        if place.flat and before is not None and after is None:
            changes.update(_taken_away(item, before))
        else:
            changes.update(_diff(item, before, after, said))
    if place.flat and len(old) != len(new):
        changes[place.path] = Change.UPDATE.replacing(wanted=place.field.replaces)
    return changes


def _taken_away(place: _Place, old: Value) -> Changes:
    """An object of a list, property by property: computed and empty ones aren't taken away."""
    fields = place.field.fields
    if fields is None:
        return {place.path: Change.DELETE.replacing(wanted=place.replaces)}
    gone = (key for key, field in fields.items() if old.get(key) and not field.computed)
    return {
        place.child(key, fields[key]).path: Change.DELETE.replacing(wanted=fields[key].replaces)
        for key in gone
    }


def _at(items: Sequence[Value], index: int) -> Value:
    return items[index] if index < len(items) else None


def _edits(old: Sequence[Value], new: Sequence[Value]) -> dict[int, Change]:
    """Shortest edit of one list of scalars into another, by index."""
    kept_old, kept_new = _common(old, new)
    edits: dict[int, Change] = {i: Change.DELETE for i in range(len(old)) if i not in kept_old}
    for index in range(len(new)):
        if index not in kept_new:
            edits[index] = Change.UPDATE if index in edits else Change.ADD
    return edits


def _common(old: Sequence[Value], new: Sequence[Value]) -> tuple[set[int], set[int]]:
    """Indices of a longest common subsequence in both lists."""
    lengths = [[0] * (len(new) + 1) for _ in range(len(old) + 1)]
    for i in reversed(range(len(old))):
        for j in reversed(range(len(new))):
            lengths[i][j] = (
                lengths[i + 1][j + 1] + 1
                if old[i] == new[j]
                else max(lengths[i + 1][j], lengths[i][j + 1])
            )
    kept_old, kept_new = set(), set()
    i = j = 0
    while i < len(old) and j < len(new):
        if old[i] == new[j]:
            kept_old.add(i)
            kept_new.add(j)
            i, j = i + 1, j + 1
        elif lengths[i + 1][j] >= lengths[i][j + 1]:
            i += 1
        else:
            j += 1
    return kept_old, kept_new


def _diff_set(place: _Place, old: Sequence[Value], new: Sequence[Value], given: Value) -> Changes:
    field = place.field
    before = {element_key(item): index for index, item in enumerate(old)}
    after = {element_key(item): index for index, item in enumerate(new)}
    removed = [index for key, index in before.items() if key not in after]
    added = [index for key, index in after.items() if key not in before]
    if not removed and not added:
        return {}
    found = _match_inputs(field, added, new, given if isinstance(given, list) else [])
    if found is None:
        return {place.path: Change.UPDATE.replacing(wanted=field.replaces)}
    changes: Changes = {}
    for index in sorted({*removed, *found}):
        was = old[index] if index in removed else None
        becomes = new[found[index]] if index in found else None
        changes.update(_diff(place.item(index), was, becomes, None))
    return changes


def _match_inputs(
    field: Field, added: Sequence[int], planned: Sequence[Value], inputs: Sequence[Value]
) -> dict[int, int] | None:
    """Index among the inputs to index in the planned set, or None if one isn't found."""
    if len(inputs) < len(planned):
        return None
    found: dict[int, int] = {}
    for index in added:
        position = next(
            (
                i
                for i, given in enumerate(inputs)
                if i not in found and _same_input(field, given, planned[index])
            ),
            None,
        )
        if position is None:
            return None
        found[position] = index
    return found


def _same_input(field: Field, given: Value, planned: Value) -> bool:
    """Whether a planned element comes from this input, nothing but computed parts added."""
    if field.fields is None or not isinstance(given, dict) or not isinstance(planned, dict):
        return bool(given == planned)
    return all(
        _same_part(part, given.get(key), planned.get(key))
        for key, part in field.fields.items()
        if key != DEFAULTS_KEY
    )


def _same_part(part: Field, given: Value, planned: Value) -> bool:
    if given is None and part.computed:
        return True
    if part.kind in SCALARS:
        return bool(given == planned)
    if given is None:
        return not planned
    if part.fields is not None and part.single:
        return _same_input(part, given, planned)
    return bool(given == planned)
