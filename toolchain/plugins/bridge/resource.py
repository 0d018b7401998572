"""What a kind of resource brings along to be served as a bridged one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field

from toolchain.plugins.bridge.fields import Fields
from toolchain.plugins.wire_values import Properties, Value


class ResourceError(Exception):
    """A resource could not be made, read, changed or deleted."""


class HalfMadeError(ResourceError):
    """It was made, but a later step failed."""

    def __init__(self, text: str, identity: str) -> None:
        super().__init__(text)
        self.identity = identity


class Resource(ABC):
    """One kind of resource, at work on the real thing.

    Errors of the thing itself are `ResourceError`; its text is the official plugin's.
    """

    @abstractmethod
    def create(self, wanted: Mapping[str, Value]) -> str:
        """Make it and return its id; what isn't known yet is absent from `wanted`.

        Raises:
            HalfMadeError: it exists, but not as wanted.
        """

    @abstractmethod
    def read(self, identity: str, state: Mapping[str, Value]) -> tuple[str, Properties] | None:
        """Id and live properties laid over the state, or None if a listing lacks it."""

    @abstractmethod
    def update(
        self, identity: str, prior: Mapping[str, Value], planned: Mapping[str, Value]
    ) -> Properties:
        """Change it in place and return the new state."""

    @abstractmethod
    def delete(self, identity: str, state: Mapping[str, Value]) -> None:
        """Take it away; it may be gone already."""


@dataclass(frozen=True, kw_only=True)
class ResourceKind:
    """A resource type and how the bridge treats it."""

    token: str
    """Pulumi's type, for example `docker:index/network:Network`."""
    fields: Fields
    timeouts: Mapping[str, int] = field(default_factory=dict)
    """Time limits in seconds that the bridged provider has for it, which its states note."""
    schema_version: int | None = None
    deletes_before_replacing: bool = False
    importable: bool = True


def values(wanted: Mapping[str, Value], key: str) -> Value:
    """A property of planned state; absent, null and zero are the same."""
    return wanted.get(key) or None
