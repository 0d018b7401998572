"""What a resource of a bridged provider takes and gives: its fields, described as data."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

DEFAULTS_KEY = "__defaults"
"""Key of checked inputs that lists the properties which took their default."""

Validator: TypeAlias = Callable[[object], str | None]
"""Says what is wrong with a value, or None."""


class Kind(StrEnum):
    """Shape of a field's value."""

    TEXT = "string"
    WHOLE = "number"
    FLAG = "boolean"
    LIST = "list"
    SET = "set"
    MAP = "map"


SCALARS = frozenset({Kind.TEXT, Kind.WHOLE, Kind.FLAG})
SEQUENCES = frozenset({Kind.LIST, Kind.SET})


@dataclass(frozen=True, kw_only=True)
class Field:
    """One property.

    Lists and sets hold strings, objects if `fields` is given, or maps; maps hold strings.
    """

    kind: Kind = Kind.TEXT
    required: bool = False
    settable: bool = True
    """A program may set it; False for what only the provider knows."""
    computed: bool = False
    """Left out, the live value stands."""
    replaces: bool = False
    """A change makes a new resource."""
    default: str | int | bool | None = None
    fields: Fields | None = None
    """Properties of the objects in a list or set."""
    single: bool = False
    """A list or set with room for one object, which the program writes without brackets."""
    of_maps: bool = False
    """A list whose elements are maps."""
    any_case: bool = False
    """A string whose case of letters doesn't count."""
    upstream: str | None = None
    """Name in the bridged provider where it isn't this property's in snake_case."""
    validate: Validator | None = None
    autonamed: bool = False
    """Left out, it is made of the resource's name and a random suffix."""
    empty_is_unset: bool = False
    """An empty string, or none, means: whatever stands."""
    unordered: bool = False
    """The order of a list's objects doesn't count."""
    implemented: bool = True
    """False for a property of the official plugin that this one refuses."""
    offered: str | bool | None = None
    """The only value implemented, if there is but one."""

    @property
    def is_block(self) -> bool:
        """Never null in the bridged provider's state: absent means empty."""
        return self.fields is not None and self.settable


Fields: TypeAlias = Mapping[str, Field]
"""Property name to its field."""


def text(
    *,
    required: bool = False,
    computed: bool = False,
    replaces: bool = True,
    default: str | None = None,
    validate: Validator | None = None,
    autonamed: bool = False,
    empty_is_unset: bool = False,
    any_case: bool = False,
    offered: str | None = None,
    implemented: bool = True,
) -> Field:
    """A string, by default one whose change makes a new resource."""
    return Field(
        kind=Kind.TEXT,
        required=required,
        computed=computed,
        replaces=replaces,
        default=default,
        validate=validate,
        autonamed=autonamed,
        empty_is_unset=empty_is_unset,
        any_case=any_case,
        offered=offered,
        implemented=implemented,
    )


def whole(
    *,
    required: bool = False,
    computed: bool = False,
    replaces: bool = False,
    default: int | None = None,
    at_least: int | None = None,
) -> Field:
    """A whole number."""
    return Field(
        kind=Kind.WHOLE,
        required=required,
        computed=computed,
        replaces=replaces,
        default=default,
        validate=None if at_least is None else not_below(at_least),
    )


def flag(
    *,
    computed: bool = False,
    replaces: bool = False,
    default: bool | None = None,
    offered: bool | None = None,
) -> Field:
    """True or false."""
    return Field(
        kind=Kind.FLAG, computed=computed, replaces=replaces, default=default, offered=offered
    )


def texts(
    kind: Kind,
    *,
    computed: bool = False,
    replaces: bool = True,
    upstream: str | None = None,
    implemented: bool = True,
) -> Field:
    """A list or set of strings."""
    return Field(
        kind=kind,
        computed=computed,
        replaces=replaces,
        upstream=upstream,
        implemented=implemented,
    )


def maps(*, replaces: bool = True) -> Field:
    """A list of maps."""
    return Field(kind=Kind.LIST, of_maps=True, replaces=replaces)


def mapping(*, computed: bool = False, replaces: bool = True) -> Field:
    """Strings by name."""
    return Field(kind=Kind.MAP, computed=computed, replaces=replaces)


def objects(
    kind: Kind,
    fields: Fields,
    *,
    computed: bool = False,
    replaces: bool = True,
    single: bool = False,
    upstream: str | None = None,
    implemented: bool = True,
) -> Field:
    """A list or set of objects, or a `single` one."""
    return Field(
        kind=kind,
        fields=fields,
        computed=computed,
        replaces=replaces,
        single=single,
        upstream=upstream,
        implemented=implemented,
    )


def output(kind: Kind = Kind.TEXT, fields: Fields | None = None, upstream: str = "") -> Field:
    """A property that only the provider sets."""
    return Field(kind=kind, fields=fields, settable=False, computed=True, upstream=upstream or None)


LABEL = {"label": text(required=True), "value": text(required=True)}
"""A label, as containers, networks and volumes take it."""


def snake_case(name: str) -> str:
    """The bridged provider's usual spelling of a property's name."""
    return re.sub(r"([A-Z])", lambda found: "_" + found.group(1).lower(), name)


def upstream_name(name: str, field: Field | None) -> str:
    """Name of a property in the bridged provider."""
    if field is not None and field.upstream is not None:
        return field.upstream
    return snake_case(name)


def matching(pattern: str) -> Validator:
    """A validator: the string must match the whole pattern."""
    compiled = re.compile(pattern)

    def check(value: object) -> str | None:
        if compiled.fullmatch(str(value)):
            return None
        return f"{value!r} doesn't match the pattern {pattern!r}"

    return check


def not_below(threshold: int) -> Validator:
    """A validator: the number must be at least the threshold."""

    def check(value: object) -> str | None:
        if isinstance(value, int | float) and value >= threshold:
            return None
        return f"{value!r} cannot be lower than {threshold}"

    return check
