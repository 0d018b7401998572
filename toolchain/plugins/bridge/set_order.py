"""The order in which the bridged provider goes through a set: by a checksum of each element.

It looks random wherever an element holds an id, and so it must here too: a program that relies on
another order would fail on the official plugin only.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence

from toolchain.plugins.bridge.fields import SEQUENCES, Field, Fields, Kind, upstream_name
from toolchain.plugins.wire_values import Value


def in_set_order(field: Field, items: Sequence[Value]) -> list[Value]:
    """Elements of a set in the bridged provider's order."""
    return sorted(items, key=lambda item: _code(field, item))


def _code(field: Field, item: Value) -> str:
    """Checksum in decimal; the bridged provider compares those as strings."""
    written = str(item) if field.fields is None else _object(field.fields, item)
    return str(zlib.crc32(written.encode()))


def _object(fields: Fields, item: Mapping[str, Value]) -> str:
    names = {upstream_name(key, field): key for key, field in fields.items() if field.settable}
    parts = (
        f"{name}:{_value(fields[names[name]], item.get(names[name]))}" for name in sorted(names)
    )
    return "".join(parts)


def _value(field: Field, value: Value) -> str:
    if field.kind in SEQUENCES:
        return _sequence(field, value)
    if field.kind is Kind.MAP:
        pairs = "".join(f"{key}:{part};" for key, part in sorted((value or {}).items()))
        return f"[{pairs}];"
    if field.kind is Kind.FLAG:
        return "1;" if value else "0;"
    if field.kind is Kind.WHOLE:
        return f"{value or 0};"
    return f"{value or ''};"


def _sequence(field: Field, value: Value) -> str:
    items = [value] if field.single and value is not None else list(value or [])
    if field.kind is Kind.SET:
        items = in_set_order(field, items)
    written = "".join(
        f"{item};" if field.fields is None else f"<{_object(field.fields, item)}>;"
        for item in items
    )
    return f"({written});" if field.kind is Kind.LIST else f"{{{written}}};"
