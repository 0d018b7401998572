"""Values of Pulumi's wire format as plain Python, and back.

A property map travels as a protobuf Struct; what JSON can't say (unknown, secret, output) is
spelled with fixed markers. Numbers of a Struct are floats: whole ones become int here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, TypeAlias

from google.protobuf import json_format, struct_pb2

SIGNATURE_KEY: Final = "4dabf18193072939515e22adb298388d"
"""Key of an object that stands for something that JSON can't say."""

SECRET_SIGNATURE: Final = "1b47061264138c4ac30d75fd1eb44270"  # noqa: S105 -- a fixed marker
OUTPUT_SIGNATURE: Final = "d0e6a833031e9bbcd3f4e8bde6ca49a4"
REFUSED_SIGNATURES: Final = frozenset(
    {
        "c44067f5952c0a294b673a41bacd8c17",  # asset
        "0def7320c3a5731c473e5ecbe6d01bc7",  # archive
        "5cf8f73096256a8f31e491e813e4eb8e",  # resource reference
    }
)

UNKNOWN_MARKER: Final = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
"""Spelling of an unknown string; it is the one that providers send, whatever the type."""

UNKNOWN_MARKERS: Final = frozenset(
    {
        UNKNOWN_MARKER,
        "1c4a061d-8072-4f0a-a4cb-0ff528b18fe7",  # bool
        "3eeb2bf0-c639-47a8-9e75-3b44932eb421",  # number
        "6a19a0b0-7e62-4c92-b797-7f8e31da9cc2",  # array
        "030794c1-ac77-496b-92df-f27374a8bd58",  # asset
        "e48ece36-62e2-4504-bad9-02848725956a",  # archive
        "dd056dcd-154b-4c76-9bd3-c8f88648b5ff",  # object
    }
)


class Unknown(Enum):
    """The type of `UNKNOWN`: a value that exists only once something else was made."""

    UNKNOWN = "unknown"

    def __repr__(self) -> str:
        """Short form for messages."""
        return "<unknown>"


UNKNOWN: Final = Unknown.UNKNOWN


@dataclass(frozen=True, repr=False)
class Secret:
    """A value that is kept out of messages and encrypted in the state."""

    value: Any

    def __repr__(self) -> str:
        """A mask: the value never gets into a message or a log."""
        return "[secret]"


Value: TypeAlias = Any
"""None, bool, int, float, str, list, dict, `UNKNOWN` or a `Secret`."""

Properties: TypeAlias = dict[str, Value]
"""Property name (as the SDK sends it, in camelCase) to value."""


class WireValueError(Exception):
    """A value of a kind that no property here takes (asset, archive, resource reference)."""


def from_struct(struct: struct_pb2.Struct, *, keep_secrets: bool = False) -> Properties:
    """Property map of a request; secrets are unwrapped unless `keep_secrets` is set.

    Raises:
        WireValueError: for assets, archives and resource references.
    """
    return {
        key: _from_json(value, keep_secrets=keep_secrets)
        for key, value in json_format.MessageToDict(struct).items()
    }


def to_struct(properties: Mapping[str, Value]) -> struct_pb2.Struct:
    """Struct of an answer; unknowns and secrets get their markers."""
    return json_format.ParseDict(
        {key: _to_json(value) for key, value in properties.items()}, struct_pb2.Struct()
    )


def reveal(value: Value) -> Value:
    """The value with every secret in it unwrapped."""
    if isinstance(value, Secret):
        return reveal(value.value)
    if isinstance(value, dict):
        return {key: reveal(item) for key, item in value.items()}
    if isinstance(value, list):
        return [reveal(item) for item in value]
    return value


def holds_secret(value: Value) -> bool:
    """Whether the value is a secret or has one in it."""
    return _holds(value, lambda item: isinstance(item, Secret))


def holds_unknown(value: Value) -> bool:
    """Whether the value is unknown or has an unknown in it."""
    return _holds(value, lambda item: item is UNKNOWN)


def _holds(value: Value, test: Any) -> bool:
    if test(value):
        return True
    if isinstance(value, Secret):
        return _holds(value.value, test)
    if isinstance(value, dict):
        return any(_holds(item, test) for item in value.values())
    if isinstance(value, list):
        return any(_holds(item, test) for item in value)
    return False


def _from_json(value: Any, *, keep_secrets: bool) -> Value:
    if isinstance(value, dict):
        if SIGNATURE_KEY in value:
            return _from_marked(value, keep_secrets=keep_secrets)
        return {key: _from_json(item, keep_secrets=keep_secrets) for key, item in value.items()}
    if isinstance(value, list):
        return [_from_json(item, keep_secrets=keep_secrets) for item in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, str) and value in UNKNOWN_MARKERS:
        return UNKNOWN
    return value


def _from_marked(value: Mapping[str, Any], *, keep_secrets: bool) -> Value:
    signature = value[SIGNATURE_KEY]
    if signature in REFUSED_SIGNATURES:
        raise WireValueError("assets, archives and resource references are not taken here")
    known = "value" in value
    inner = _from_json(value["value"], keep_secrets=keep_secrets) if known else UNKNOWN
    secret = signature == SECRET_SIGNATURE or bool(value.get("secret"))
    return Secret(inner) if secret and keep_secrets else inner


def _to_json(value: Value) -> Any:
    if value is UNKNOWN:
        return UNKNOWN_MARKER
    if isinstance(value, Secret):
        return {SIGNATURE_KEY: SECRET_SIGNATURE, "value": _to_json(value.value)}
    if isinstance(value, dict):
        return {key: _to_json(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_to_json(item) for item in value]
    return value
