"""`abox drift`: which resources differ from what was applied, in words."""

import difflib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import typer

from abox.errors import ExitCode
from cli.checkout import current_checkout
from cli.containers import check_known
from cli.output import note, say, say_json
from cli.parameters import AsJson, Stack
from cli.pulumi_engine import Step, preview

ENGINE_TYPES = ("pulumi:pulumi:", "pulumi:providers:")
"""The engine's own records: nothing on the host belongs to them."""

Properties = Mapping[str, Any]


@dataclass(frozen=True)
class Drifted:
    """One resource that isn't as it should be."""

    urn: str
    type: str
    name: str
    operation: str
    """What `pulumi up` would do: create, update, replace, delete."""
    words: tuple[str, ...]
    """What differs; a unified diff is one of these with several lines."""


def drift(stack: Stack, *, as_json: AsJson = False) -> None:
    """Compare STACK with the host: what drifted, and how.

    Reads everything back and changes nothing. Exit code 0: no drift; 7: drift, which
    `pulumi up -s STACK` repairs.
    """
    checkout = current_checkout()
    check_known(checkout, stack)
    report = preview(checkout, stack)
    found = describe(report.refreshed(), report.planned())
    if as_json:
        say_json(to_document(stack, found))
    elif not found:
        say(f"{stack}: no drift")
    else:
        say(in_words(stack, found))
        note(f"`pulumi up -s {stack}` repairs it")
    if found or report.code == ExitCode.DRIFT:
        raise typer.Exit(int(ExitCode.DRIFT))


def to_document(stack: str, found: list[Drifted]) -> dict[str, Any]:
    """The drift for programs."""
    return {
        "stack": stack,
        "drifted": bool(found),
        "resources": [
            {
                "urn": one.urn,
                "type": one.type,
                "name": one.name,
                "operation": one.operation,
                "words": list(one.words),
            }
            for one in found
        ],
    }


def in_words(stack: str, found: list[Drifted]) -> str:
    """The drift for people."""
    number = "1 resource" if len(found) == 1 else f"{len(found)} resources"
    lines = [f"{stack}: {number} drifted"]
    for one in found:
        lines.append(f"\n{one.name} ({one.type}): `up` would {one.operation} it")
        for words in one.words:
            lines += [f"  {line}" for line in words.splitlines()]
    return "\n".join(lines)


def describe(refreshed: list[Step], planned: list[Step]) -> list[Drifted]:
    """What a refreshing preview found, resource by resource.

    Args:
        refreshed: what was read back, with the state as it was known before.
        planned: what the engine would do about it.
    """
    read = {step.urn: step for step in refreshed}
    found: dict[str, Drifted] = {}
    for step in planned:
        if step.type.startswith(ENGINE_TYPES) or step.urn in found:
            continue
        words = _words(step, read.get(step.urn))
        operation = "replace" if "replace" in step.operation else step.operation
        found[step.urn] = Drifted(step.urn, step.type, step.name, operation, tuple(words))
    return list(found.values())


def _words(step: Step, read: Step | None) -> list[str]:
    """What differs in one resource."""
    if step.operation.startswith("create") and read is not None:
        return ["it is gone from this host"]
    if step.operation == "create":
        return ["it has not been made yet: the settings ask for it"]
    if step.operation == "delete":
        return ["it stands, and the settings no longer ask for it"]
    live = dict(step.old.get("outputs") or {})
    explain = EXPLANATIONS.get(step.type)
    told = explain(live) if explain is not None else []
    return told or _properties(step, read)


def _firewall(live: Properties) -> list[str]:
    """A table: what was applied against what the kernel holds."""
    if not live.get("live"):
        return ["the table is gone"]
    before, after = _rules(live.get("applied")), _rules(live.get("live"))
    if before == after:
        return []
    lines = difflib.unified_diff(before, after, "applied", "live", n=2, lineterm="")
    return ["the live table differs from the applied one:", "\n".join(lines)]


def _rules(text: Any) -> list[str]:
    """A table, one object a line, from its normalised JSON."""
    try:
        objects = json.loads(text)
    except (TypeError, ValueError):
        return str(text or "").splitlines()
    if isinstance(objects, dict):
        objects = objects.get("nftables", [objects])
    return [json.dumps(one, sort_keys=True) for one in objects]


def _posture(live: Properties) -> list[str]:
    """A posture tells its findings itself."""
    return [str(finding) for finding in live.get("findings") or []]


def _network(live: Properties) -> list[str]:
    """Members that don't belong on a network."""
    return [f"foreign member: {one}" for one in live.get("foreign") or []]


def _policy(live: Properties) -> list[str]:
    """The policy in the data plane."""
    told = []
    if live.get("live_hash") != live.get("policy_hash"):
        told.append(
            f"DNS filter and proxy don't run the applied policy: applied "
            f"{_short(live.get('policy_hash'))}, live {_short(live.get('live_hash')) or 'none'}"
        )
    return told


def _bridge(live: Properties) -> list[str]:
    """Settings of the kernel without which the table is skipped."""
    settings = live.get("settings") or {}
    return [f"{name} is {value}, wanted 1" for name, value in settings.items() if value != "1"]


def _lease(live: Properties) -> list[str]:
    """A subnet that something else uses too."""
    return [f"the subnet is also used by {one}" for one in live.get("conflicts") or []]


EXPLANATIONS: Mapping[str, Callable[[Properties], list[str]]] = {
    "abox:index:FirewallTable": _firewall,
    "abox:index:ContainerPosture": _posture,
    "abox:index:NetworkPosture": _network,
    "abox:index:GatewayPolicy": _policy,
    "abox:index:BridgeFiltering": _bridge,
    "abox:index:SubnetLease": _lease,
}
"""Own resources, which say more than their properties do."""


def _properties(step: Step, read: Step | None) -> list[str]:
    """Properties that differ, live value first."""
    old = {**(step.old.get("inputs") or {}), **(step.old.get("outputs") or {})}
    new = {**(step.new.get("outputs") or {}), **(step.new.get("inputs") or {})}
    known = (read.old.get("outputs") or {}) if read is not None else {}
    told = []
    for path in sorted(step.detailed):
        key = path.split(".")[0].split("[")[0]
        source = "" if known and known.get(key) != old.get(key) else " (the settings changed)"
        told.append(f"{path}: is {_value(old.get(key))}, wanted {_value(new.get(key))}{source}")
    return told or ["it differs from what was applied"]


def _value(value: Any) -> str:
    """A property's value, short."""
    text = json.dumps(value, sort_keys=True)
    return text if len(text) <= 120 else text[:117] + "..."


def _short(value: Any) -> str:
    """The beginning of a hash."""
    return str(value or "")[:12]
