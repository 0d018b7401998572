"""Check: inputs that hold, with defaults and a name filled in, or what is wrong with them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from toolchain.plugins.bridge.fields import (
    DEFAULTS_KEY,
    SCALARS,
    Field,
    Fields,
    Kind,
)
from toolchain.plugins.bridge.plan import as_text
from toolchain.plugins.wire_values import UNKNOWN, Properties, Value

NAME_LENGTH: Final = 255
"""Longest name that the bridged provider makes up."""

SUFFIX_LENGTH: Final = 7
"""Hexadecimal digits behind a made-up name."""


@dataclass(frozen=True)
class Failure:
    """One thing wrong with the inputs."""

    property: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Naming:
    """What a name is made of where the program gives none."""

    resource: str
    """The resource's name in the program."""
    seed: bytes
    proposed: str | None = None
    """The engine's own proposal, if the stack configures autonaming."""
    disabled: bool = False
    """The stack wants every name to be given."""

    def make(self) -> str:
        """The name: the proposal, or the resource's name and seven digits from the seed."""
        if self.proposed is not None:
            return self.proposed
        suffix = hashlib.sha256(self.seed).hexdigest()[:SUFFIX_LENGTH]
        return f"{self.resource}-{suffix}"


@dataclass
class _Checker:
    """Walks the inputs once and collects every failure."""

    naming: Naming
    empty_defaults: bool
    failures: list[Failure] = field(default_factory=list)

    def fail(self, path: str, reason: str) -> None:
        self.failures.append(Failure(path, reason))

    def object(
        self, path: str, fields: Fields, news: Mapping[str, Value], olds: Mapping[str, Value]
    ) -> Properties:
        checked: Properties = {}
        for key, value in news.items():
            if value is None or key == DEFAULTS_KEY:
                continue
            known = fields.get(key)
            if known is None or not known.settable:
                self.fail(path + key, self._unknown_property(path + key, fields))
                continue
            checked[key] = self.value(path + key, known, value, olds.get(key))
        self._fill_in(path, fields, checked, olds)
        return checked

    def _unknown_property(self, path: str, fields: Fields) -> str:
        settable = ", ".join(sorted(key for key, known in fields.items() if known.settable))
        return f"{path!r} is no property that can be set here; those are: {settable}"

    def _fill_in(
        self, path: str, fields: Fields, checked: Properties, olds: Mapping[str, Value]
    ) -> None:
        defaults: list[str] = []
        for key, known in fields.items():
            if key in checked or not known.settable:
                continue
            filled = self._default(known, key, olds)
            if filled is not None:
                checked[key] = filled
                defaults.append(key)
            elif known.autonamed:
                self.fail(path + key, self._why_no_name())
            elif known.required:
                self.fail(path + key, f"missing required property {path + key!r}")
        checked[DEFAULTS_KEY] = sorted(defaults)

    def _default(self, known: Field, key: str, olds: Mapping[str, Value]) -> Value:
        if known.default is None and not known.autonamed:
            return None
        old_defaults = olds.get(DEFAULTS_KEY)
        if olds.get(key) is not None and (old_defaults is None or key in old_defaults):
            return olds[key]
        if not known.autonamed:
            return known.default if self.empty_defaults else known.default or None
        if self.naming.disabled or len(self.naming.make()) > NAME_LENGTH:
            return None
        return self.naming.make()

    def _why_no_name(self) -> str:
        if self.naming.disabled:
            return "automatic naming is disabled but no explicit name was provided"
        return f"the calculated name is longer than {NAME_LENGTH} characters"

    def value(self, path: str, known: Field, value: Value, old: Value) -> Value:
        if not known.implemented:
            self.fail(path, f"{path!r} is not implemented by this stand-in of the official plugin")
            return value
        if value is UNKNOWN:
            return value
        if known.kind in SCALARS:
            return self.scalar(path, known, value)
        if known.kind is Kind.MAP:
            return self.mapping(path, value)
        if known.single:
            return self.element(path, known, value, old)
        if not isinstance(value, list):
            self.fail(path, f"{path!r} wants a list, got {_shape(value)}")
            return value
        olds = old if isinstance(old, list) else []
        return [
            self.element(f"{path}[{i}]", known, item, olds[i] if i < len(olds) else None)
            for i, item in enumerate(value)
        ]

    def element(self, path: str, known: Field, value: Value, old: Value) -> Value:
        if value is UNKNOWN:
            return value
        if known.of_maps:
            return self.mapping(path, value)
        if known.fields is None:
            return self.scalar(path, Field(kind=Kind.TEXT), value)
        if not isinstance(value, dict):
            self.fail(path, f"{path!r} wants an object, got {_shape(value)}")
            return value
        olds = old if isinstance(old, dict) else {}
        return self.object(f"{path}.", known.fields, value, olds)

    def mapping(self, path: str, value: Value) -> Value:
        if not isinstance(value, dict):
            self.fail(path, f"{path!r} wants an object, got {_shape(value)}")
            return value
        entries = {
            key: item for key, item in value.items() if item is not None and key != DEFAULTS_KEY
        }
        for key, item in entries.items():
            if item is not UNKNOWN and not isinstance(item, str | int | float):
                self.fail(
                    f"{path}.{key}", f"{f'{path}.{key}'!r} wants a string, got {_shape(item)}"
                )
        return entries

    def scalar(self, path: str, known: Field, value: Value) -> Value:
        if value is UNKNOWN:
            return value
        converted = _CONVERSIONS[known.kind](value)
        if converted is None:
            self.fail(path, f"{path!r} wants a {known.kind}, got {_shape(value)}")
            return value
        if known.offered is not None and converted != known.offered:
            self.fail(
                path,
                f"{path!r} is implemented by this stand-in only as {known.offered!r}",
            )
        wrong = known.validate(converted) if known.validate is not None else None
        if wrong is not None:
            self.fail(path, f"{path}: {wrong}")
        return converted


def check_inputs(
    fields: Fields,
    news: Mapping[str, Value],
    olds: Mapping[str, Value],
    naming: Naming,
    *,
    empty_defaults: bool = False,
) -> tuple[Properties, list[Failure]]:
    """Checked inputs and all failures.

    Args:
        fields: what the resource takes.
        news: inputs as the program gives them.
        olds: checked inputs of the last run, empty on the first.
        naming: where a made-up name comes from.
        empty_defaults: fill in defaults that are empty or false too.
    """
    checker = _Checker(naming, empty_defaults)
    return checker.object("", fields, news, olds), checker.failures


def _shape(value: Value) -> str:
    """Type of a value, never the value itself: it may be a secret."""
    names: dict[type, str] = {bool: "a boolean", str: "a string", list: "a list", dict: "an object"}
    return names.get(type(value), "a number")


def _as_text(value: Any) -> str | None:
    return as_text(value) if isinstance(value, str | int | float) else None


def _as_whole(value: Any) -> int | None:
    if isinstance(value, str) and value.lstrip("-").isdigit():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _as_flag(value: Any) -> bool | None:
    if value in ("true", "false"):
        return bool(value == "true")
    return value if isinstance(value, bool) else None


_CONVERSIONS: Final = {Kind.TEXT: _as_text, Kind.WHOLE: _as_whole, Kind.FLAG: _as_flag}
