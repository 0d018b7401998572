"""What a host resource looks like to the dispatcher in ``server.py``.

An adapter is synchronous and deals in plain Python data: ``str``, ``bool``, ``int``, ``float``,
lists and dicts. ``UNKNOWN`` stands for a value that preview can't know yet.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from pulumi.runtime import rpc

UNKNOWN: str = rpc.UNKNOWN
"""Stands for a value that preview can't know yet."""

Data = dict[str, Any]
"""Inputs or outputs by wire name."""

_REQUIRED: Any = object()


def is_unknown(value: object) -> bool:
    """Whether ``value`` is, or contains anywhere, a value that preview can't know yet."""
    if isinstance(value, str):
        return value == UNKNOWN
    if isinstance(value, dict):
        return any(is_unknown(part) for part in value.values())
    if isinstance(value, list):
        return any(is_unknown(part) for part in value)
    return False


@dataclass(frozen=True, kw_only=True)
class Field:
    """One input of a resource."""

    name: str
    kind: type
    """``str``, ``bool``, ``int``, ``list`` or ``dict``."""
    default: Any = _REQUIRED
    """Value when the program gives none."""
    replaces: bool = False
    """Whether a change replaces the resource; otherwise ``update`` applies it."""
    secret: bool = False

    @property
    def required(self) -> bool:
        """Whether the program must give a value."""
        return self.default is _REQUIRED

    def problem(self, value: object) -> str | None:
        """Why ``value`` can't be this input, or None."""
        if value is None:
            return "is missing" if self.required else None
        # bool is a subclass of int, and a number on the wire is never a truth value.
        if isinstance(value, bool) != (self.kind is bool) or not isinstance(value, self.kind):
            return f"must be a {self.kind.__name__}, not {type(value).__name__}"
        return None


@dataclass(frozen=True)
class Failure:
    """One thing wrong with the inputs."""

    name: str
    reason: str


class Resource(ABC):
    """Adapter of one resource type."""

    type_name: ClassVar[str]
    """Last part of the type token."""
    fields: ClassVar[tuple[Field, ...]]
    secret_outputs: ClassVar[frozenset[str]] = frozenset()
    delete_before_replace: ClassVar[bool] = False
    drift_fields: ClassVar[tuple[str, ...]] = ()
    """Outputs that can make ``drift`` report a change."""

    def problems(self, inputs: Data, old: Data) -> Iterator[Failure]:  # noqa: ARG002
        """Further failures of well-typed inputs, as far as they're known."""
        return iter(())

    def same(self, name: str, old: object, new: object) -> bool:  # noqa: ARG002
        """Whether the input ``name`` is unchanged; ``old`` comes from the stored outputs."""
        return old == new

    def drift(self, state: Data, inputs: Data) -> Mapping[str, bool]:  # noqa: ARG002
        """Outputs that differ from what was asked; True where only replacement helps."""
        return {}

    @abstractmethod
    def planned(self, inputs: Data, old: Data | None) -> Data:
        """Outputs that create (``old`` is None) or update will give; UNKNOWN where unclear."""

    @abstractmethod
    def create(self, inputs: Data) -> tuple[str, Data]:
        """Make the thing, read it back; returns id and outputs."""

    @abstractmethod
    def read(self, resource_id: str, state: Data) -> Data | None:
        """Outputs as they are; None only if the thing is proven gone."""

    @abstractmethod
    def update(self, resource_id: str, old: Data, new: Data) -> Data:
        """Apply the inputs ``new`` and repair drift; returns the outputs read back."""

    @abstractmethod
    def delete(self, resource_id: str, state: Data) -> None:
        """Take the thing away; no error if it, or parts of it, are gone."""
