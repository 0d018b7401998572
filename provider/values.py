"""Between Pulumi's property values and plain Python data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pulumi.provider.experimental.property_value import PropertyValue


def plain(value: PropertyValue) -> Any:
    """Plain data of a property value; whole numbers become ``int``."""
    inner = value.value
    if isinstance(inner, float) and inner.is_integer():
        return int(inner)
    if inner is None or isinstance(inner, bool | float | str):
        return inner
    if isinstance(inner, tuple):  # the SDK freezes every list
        return [plain(part) for part in inner]
    if isinstance(inner, Mapping):
        return {name: plain(part) for name, part in inner.items()}
    raise TypeError(f"a {type(inner).__name__} has no plain form")


def plain_map(values: Mapping[str, PropertyValue]) -> dict[str, Any]:
    """Plain data of inputs or outputs; the engine's own keys (``__…``) are left out."""
    return {name: plain(value) for name, value in values.items() if not name.startswith("__")}


def wrapped(data: Any, *, secret: bool = False) -> PropertyValue:
    """Property value of plain data."""
    # bool first: it is an int, and the wire knows only floats.
    if isinstance(data, int) and not isinstance(data, bool):
        return PropertyValue(float(data), is_secret=secret)
    if isinstance(data, Mapping):
        parts = {str(name): wrapped(part) for name, part in data.items()}
        return PropertyValue(parts, is_secret=secret)
    if isinstance(data, list | tuple):
        return PropertyValue([wrapped(part) for part in data], is_secret=secret)
    return PropertyValue(data, is_secret=secret)
