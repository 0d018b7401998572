"""Runs cases of the layer config: what the stack's settings are refused for."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from abox.errors import AboxError
from abox.settings import parse_settings
from provider.subnet_lease import Leases
from tests.cases import mapping
from tests.cases.model import Case

DEFAULT_NAME = "dev"


def refusal_of(config: Mapping[str, Any]) -> str:
    """What the settings are refused for; empty if they are accepted."""
    name = config.get("name", DEFAULT_NAME)
    try:
        settings = parse_settings(name, mapping.settings_of_config(config))
        with tempfile.TemporaryDirectory(prefix="abxt-leases-") as folder:
            leases = Leases(Path(folder), owner="abxt", in_use=list)
            for other in config.get("others") or []:
                leases.take(other["name"], other.get("subnet", "auto"))
            leases.take(name, settings.subnet)
    except AboxError as error:
        return str(error)
    return ""


def names_setting(text: str, setting: str) -> bool:
    """Whether an error names a setting, in the case's word or in the project's."""
    words = {setting, mapping.NAMES.get(setting, setting)}
    return any(word.lower() in text.lower() for word in words)


def run_settings(case: Case) -> list[str]:
    """What of the case doesn't hold."""
    config = case.do["config"]
    refusal = refusal_of({**case.given, **config})
    faults = []
    for key, wanted in case.expect.items():
        if key == "ok" and (not refusal) is not wanted:
            faults.append(f"ok: refused with: {' / '.join(refusal.splitlines())}")
        elif key == "error_contains" and not refusal:
            faults.append("error_contains: the settings were accepted")
        elif key == "error_contains" and not names_setting(refusal, wanted):
            faults.append(f"error_contains: {wanted!r} isn't in: {refusal.splitlines()[0]}")
        elif key not in ("ok", "error_contains"):
            faults.append(f"{key}: nobody can judge this for settings")
    return faults
