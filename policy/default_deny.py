"""Firewall tables refuse what they don't name."""

from __future__ import annotations

import re

from pulumi_policy import ResourceValidationPolicy

from policy.resources import (
    FIREWALL_TABLE,
    MANDATORY,
    ReportViolation,
    ResourceValidationArgs,
    is_known,
)

HOOKS = ("forward", "input")
"""Where the table has to judge: what passes the host, and what is for the host."""

_CHAIN = re.compile(r"chain (\S+) \{")
_COMMENT = re.compile(r'\s*comment "[^"]*"$')
_GOTO = re.compile(r"goto (\S+)$")


def validate(args: ResourceValidationArgs, report: ReportViolation) -> None:
    """Report a table that lacks a hook, accepts without a condition, or ends without a refusal."""
    # Unknown in a first preview, before the subnet is leased: then it is judged at `up`.
    if args.resource_type != FIREWALL_TABLE or not is_known(args.props, "rules"):
        return
    rules = args.props.get("rules")
    chains = _chains(rules if isinstance(rules, str) else "")
    text = [" ".join(lines) for lines in chains.values()]
    for hook in HOOKS:
        if not any(f"hook {hook} " in chain for chain in text):
            report(f"no chain has the hook {hook}: add one", args.urn)
    for name, lines in chains.items():
        if "accept" in lines:
            report(f"chain {name} accepts everything: give accept a condition", args.urn)
        if not _is_base(lines) and not _refuses(name, chains, set()):
            report(f"chain {name} doesn't end in drop or reject: add it", args.urn)


def _chains(rules: str) -> dict[str, list[str]]:
    """Name to lines of every chain, comments taken off; a rule stands on one line."""
    chains: dict[str, list[str]] = {}
    lines: list[str] | None = None
    for line in (text.strip() for text in rules.splitlines()):
        if begins := _CHAIN.fullmatch(line):
            lines = chains.setdefault(begins[1], [])
        elif line == "}":
            lines = None
        elif line and lines is not None:
            lines.append(_COMMENT.sub("", line))
    return chains


def _is_base(lines: list[str]) -> bool:
    return any(" hook " in line for line in lines)


def _refuses(name: str, chains: dict[str, list[str]], seen: set[str]) -> bool:
    """Whether what reaches the end of a chain is refused there."""
    last = (chains.get(name) or [""])[-1]
    if (target := _GOTO.fullmatch(last)) and name not in seen:
        return _refuses(target[1], chains, seen | {name})
    return last == "drop" or last == "reject" or last.startswith("reject with ")


firewall_denies_by_default = ResourceValidationPolicy(
    name="firewall-denies-by-default",
    description="A list of what is refused misses something; a list of what is allowed doesn't.",
    validate=validate,
    enforcement_level=MANDATORY,
)
