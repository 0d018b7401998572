"""Runs cases of the layer policy: a preview of the program with the project's policy pack."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from abox.errors import AboxError
from abox.settings import parse_settings
from policy.resources import GATEWAY_POLICY
from policy.rules import collect_rules
from tests import host
from tests.cases import mapping
from tests.cases.model import Case
from tests.stacks import Project, Stack

PROGRAM = Path(__file__).parent / "program"
PACK = host.ROOT / "policy"
VIOLATION = re.compile(r"\[mandatory\]\s+(\S+)")
RESOLVER = "198.51.100.53"


def _pack_refuses(settings: Mapping[str, Any]) -> bool:
    """Whether a rule speaks up on a policy that the settings already refuse.

    Another program could hand the gateway such a policy without our settings.
    """
    found: list[str] = []
    resource = SimpleNamespace(
        resource_type=GATEWAY_POLICY,
        props={"policy": dict(settings)},
        urn="urn:abxt",
        name="abxt",
        get_config=dict,
    )
    for rule in collect_rules():
        validate: Any = rule.validate
        validate(resource, lambda message, _urn=None: found.append(message))
    return bool(found)


class PolicyRunner:
    """Previews stacks that are never brought up."""

    def __init__(self, name: str) -> None:
        self._name = name

    def run(self, case: Case) -> list[str]:
        """What of the case doesn't hold."""
        config = {**case.given, **case.do["config"]}
        settings = {"upstream_dns": [RESOLVER], **mapping.settings_of_config(config)}
        try:
            parse_settings(self._name, settings)
        except AboxError as error:
            if case.expect.get("or_config_error"):
                return []
            refusal = str(error).splitlines()[0]
            return [] if _pack_refuses(settings) is case.expect["violation"] else [refusal]
        done = self._preview(settings, config.get("add_resource"))
        violated = VIOLATION.findall(done.stdout + done.stderr)
        if done.code != 0 and not violated:
            return [f"the preview failed: {(done.stderr or done.stdout)[-600:]}"]
        wanted = case.expect["violation"]
        if bool(violated) is not wanted:
            return [f"violation: {sorted(set(violated)) or 'none'}"]
        return []

    def _preview(
        self, settings: Mapping[str, Any], added: Mapping[str, Any] | None
    ) -> host.Completed:
        with Project(program=PROGRAM if added else None) as project:
            if added:
                project.extra["ABXT_ADD_RESOURCE"] = json.dumps(added)
            stack = Stack(project, self._name)
            stack.configure(settings)
            return stack.preview("--policy-pack", str(PACK))
