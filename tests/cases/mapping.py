"""The one place that knows what the project calls the settings of the cases."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.cases.model import SETTINGS

NAMES = {
    "mitm": "tls_interception",
    "dns_upstreams": "upstream_dns",
}
"""A case's word to the project's key; words that aren't here are the same in both."""
AGENT = frozenset(["mounts"])
"""Words that stand below `agent` in a stack."""
VALID: Mapping[str, Any] = {"allow": ["allowed.test"]}
"""Settings of a `config` that names none."""
NOT_SETTINGS = frozenset(["name", "add_resource", "others"])
"""Words of `config` that are no settings of the stack."""
VM_ONLY = frozenset(["mac", "image"])
"""Words that are settings of the VM backend."""


def to_stack(settings: Mapping[str, Any]) -> dict[str, Any]:
    """What the stack's file says, for settings in a case's words."""
    stack: dict[str, Any] = {}
    for key, value in settings.items():
        if key in AGENT:
            stack.setdefault("agent", {})[key] = value
        elif key in VM_ONLY:
            stack.setdefault("vm", {})[key] = value
        else:
            stack[NAMES.get(key, key)] = value
    return stack


def settings_of_given(given: Mapping[str, Any]) -> dict[str, Any]:
    """The settings in `given`, in the project's words."""
    return to_stack({key: given[key] for key in given if key in SETTINGS})


def settings_of_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """The settings in `config`, in the project's words; those not named are valid."""
    named = {key: value for key, value in config.items() if key not in NOT_SETTINGS}
    return to_stack({**VALID, **named})
