"""Envoy's message types and the few shapes of configuration that repeat."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

Json = dict[str, Any]
"""A message in protobuf's JSON form, field names as in the definitions."""

_PREFIX = "type.googleapis.com/envoy."


def any_of(type_name: str, **fields: Any) -> Json:
    """A message wrapped in ``Any``.

    Args:
        type_name: full name without the leading ``envoy.``.
        fields: the message's fields.
    """
    return {"@type": f"{_PREFIX}{type_name}", **fields}


def discovery_response(resources: Sequence[Json], said: Any) -> str:
    """A file that Envoy reads: a discovery response in JSON, one line.

    Args:
        resources: messages wrapped in ``Any``.
        said: what tells one version from another; ``version_info`` is the SHA-256 of its JSON.
    """
    text = json.dumps(said, separators=(",", ":"), sort_keys=True)
    version = hashlib.sha256(text.encode()).hexdigest()
    response = {"version_info": version, "resources": list(resources)}
    return json.dumps(response, separators=(",", ":"))


def extension(name: str, type_name: str, **fields: Any) -> Json:
    """A named extension with its typed configuration."""
    return {"name": name, "typed_config": any_of(type_name, **fields)}


def pipe(path: str, **fields: Any) -> Json:
    """Address of a unix socket."""
    return {"pipe": {"path": path, **fields}}


def endpoint(address: Mapping[str, Any]) -> list[Json]:
    """The ``endpoints`` of a cluster with one address."""
    return [{"lb_endpoints": [{"endpoint": {"address": address}}]}]


def watched_file(path: str) -> Json:
    """A configuration source: a file that is read again whenever something moves into its folder.

    Without the watched folder Envoy only sees moves of the file itself, and in a mounted volume it
    sees them both ways.
    """
    folder = path.rsplit("/", 1)[0]
    return {
        "resource_api_version": "V3",
        "path_config_source": {"path": path, "watched_directory": {"path": folder}},
    }
