"""`abox drift`: which resources differ from what was applied, in words."""

import difflib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import typer

from abox.errors import ExitCode
from cli.checkout import current_checkout
from cli.containers import check_known
from cli.output import note, say, say_json
from cli.parameters import AsJson, Stack
from cli.pulumi_engine import Step, preview
from cli.rule_text import object_text

ENGINE_TYPES = ("pulumi:pulumi:", "pulumi:providers:")
"""The engine's own records: nothing on the host belongs to them."""

UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
"""Stands in the engine's events for a text that is known only after a change."""

FOLLOWS = ("it follows from another change",)
"""Words of a resource that differs in nothing but what another one gives it."""

MOST = 8
"""Differences of one resource that are told."""

WIDEST = 100
"""Characters of a value that are shown."""

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
    """The drift for people: what differs in itself first, what follows from it on one line."""
    number = "1 resource" if len(found) == 1 else f"{len(found)} resources"
    lines = [f"{stack}: {number} drifted"]
    for one in found:
        if one.words == FOLLOWS:
            continue
        lines.append(f"\n{one.name} ({one.type}): `up` would {one.operation} it")
        for words in one.words:
            lines += [f"  {line}" for line in words.splitlines()]
    followers = [one.name for one in found if one.words == FOLLOWS]
    if followers:
        lines.append(f"\nfollowing from that: {', '.join(followers)}")
    return "\n".join(lines)


def describe(refreshed: list[Step], planned: list[Step]) -> list[Drifted]:
    """What a refreshing preview found, resource by resource.

    Args:
        refreshed: what was read back, with the state as it was known before.
        planned: what the engine would do about it; several steps where it replaces.
    """
    read = {step.urn: step for step in refreshed}
    steps: dict[str, list[Step]] = {}
    for step in planned:
        if not step.type.startswith(ENGINE_TYPES):
            steps.setdefault(step.urn, []).append(step)
    return [_drifted(several, read.get(urn)) for urn, several in steps.items()]


def _drifted(steps: list[Step], read: Step | None) -> Drifted:
    """One resource from all that is planned for it."""
    first = steps[0]
    replaced = any("replace" in step.operation for step in steps)
    whole = Step(
        urn=first.urn,
        operation="replace" if replaced else first.operation,
        old=next((step.old for step in steps if step.old), {}),
        new=next((step.new for step in reversed(steps) if step.new), {}),
        changed=frozenset().union(*(step.changed for step in steps)),
    )
    return Drifted(whole.urn, whole.type, whole.name, whole.operation, tuple(_words(whole, read)))


def _words(step: Step, read: Step | None) -> list[str]:
    """What differs in one resource."""
    if step.operation == "create":
        gone = read is not None
        return ["it is gone from this host" if gone else "not made yet: the settings ask for it"]
    if step.operation == "delete":
        return ["it stands, and the settings no longer ask for it"]
    return explain(step.type, step.old.get("outputs") or {}) or _properties(step, read)


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
    """A table, one object a line, from the provider's JSON: one object a line as well."""
    return [_rule(line) for line in str(text or "").splitlines()]


def _rule(line: str) -> str:
    """One object as text; what can't be read is shown as it is."""
    try:
        return object_text(json.loads(line))
    except ValueError:
        return line


def _policy(live: Properties) -> list[str]:
    """The policy, authority and trust store in the pod against what was applied."""
    return [
        f"{what} in the pod isn't the applied one: applied {_short(live.get(asked))}, "
        f"live {_short(live.get(found)) or 'none'}"
        for what, asked, found in (
            ("the policy of DNS filter and proxy", "policy_hash", "live_hash"),
            ("the certificate authority", "ca_fingerprint", "live_ca"),
            ("the agent's trust store", "trust", "live_trust"),
        )
        if live.get(asked) != live.get(found)
    ]


def _bridge(live: Properties) -> list[str]:
    """Settings of the kernel without which the table is skipped."""
    settings = live.get("settings")
    if not isinstance(settings, dict):
        return []
    return [f"{name} is {value}, wanted 1" for name, value in settings.items() if value != "1"]


def _content(what: str) -> Callable[[Properties], list[str]]:
    """Files whose content is watched by its digest."""

    def compare(live: Properties) -> list[str]:
        same = live.get("live_digest") == live.get("digest")
        return [] if same else [f"{what} isn't what was written"]

    return compare


EXPLANATIONS: Mapping[str, Callable[[Properties], list[str]]] = {
    "abox:index:FirewallTable": _firewall,
    "abox:index:GatewayPolicy": _policy,
    "abox:index:BridgeFiltering": _bridge,
    "abox:index:CloudInitVolume": _content("the VM's seed disk"),
    "abox:index:SshAccess": _content("key, settings or known host of ssh"),
}
"""Own resources whose drift is a difference between two of their outputs."""

COMPLETE = ("abox:index:FirewallTable",)
"""Whose comparison tells all: the findings beside it only repeat it without its surroundings."""

TOLD = {
    "findings": "{}",
    "damage": "beyond repair: {}",
    "strays": "left by an interrupted run: {}",
    "conflicts": "{}",
    "foreign": "foreign member: {}",
    "suspended": "the VM is paused: {}",
}
"""Outputs of own resources that are lists of what is wrong, and how each is told."""


def explain(kind: str, live: Properties) -> list[str]:
    """What a resource's own outputs say is wrong with it."""
    compare = EXPLANATIONS.get(kind)
    told = compare(live) if compare is not None else []
    if told and kind in COMPLETE:
        return told
    for name, form in TOLD.items():
        listed = live.get(name)
        told += [form.format(one) for one in listed] if isinstance(listed, list) else []
    return told


def _properties(step: Step, read: Step | None) -> list[str]:
    """Properties that differ: the live value, the wanted one, and who changed it."""
    old = {**(step.old.get("inputs") or {}), **(step.old.get("outputs") or {})}
    new = {**(step.new.get("outputs") or {}), **(step.new.get("inputs") or {})}
    known = (read.old.get("outputs") or {}) if read is not None else {}
    told = []
    for key in sorted(step.changed):
        here = bool(known) and known.get(key) != old.get(key)
        source = "" if here else " (new in the program or its settings)"
        told += [
            f"{path}: is {is_}, wanted {wanted}{source}"
            for path, is_, wanted in differences(key, old.get(key), new.get(key))
        ]
    if len(told) > MOST:
        told[MOST:] = [f"and {len(told) - MOST} more"]
    return told or list(FOLLOWS)


def differences(path: str, old: Any, new: Any) -> Iterator[tuple[str, str, str]]:
    """Places at which two values differ, each with both values, shortened.

    What will only be known after a change is left out: it differs because another resource does.
    """
    if UNKNOWN in (old, new) or old == new:
        return
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted({*old, *new}):
            yield from differences(f"{path}.{key}", old.get(key), new.get(key))
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for number, (one, other) in enumerate(zip(old, new, strict=True)):
            yield from differences(f"{path}[{number}]", one, other)
    else:
        is_, wanted = (json.dumps(value, sort_keys=True) for value in (old, new))
        same = next((n for n, (a, b) in enumerate(zip(is_, wanted, strict=False)) if a != b), 0)
        yield path, _around(is_, same), _around(wanted, same)


def _around(text: str, place: int) -> str:
    """A value, or of a long one the part around a place."""
    if len(text) <= WIDEST:
        return text
    start = max(0, min(place - WIDEST // 4, len(text) - WIDEST))
    end = start + WIDEST
    return ("..." if start else "") + text[start:end] + ("..." if end < len(text) else "")


def _short(value: Any) -> str:
    """The beginning of a hash."""
    return str(value or "")[:12]
