"""No wildcard on a zone in which anybody can get a name."""

from __future__ import annotations

from pulumi_policy import ResourceValidationPolicy

from abox.entries import WILDCARD
from abox.names import MalformedNameError, is_public_suffix, normalise_suffix, public_suffix_below
from policy.resources import (
    GATEWAY_POLICY,
    MANDATORY,
    ReportViolation,
    ResourceValidationArgs,
    allowed_hosts,
    list_of_texts,
)


def validate(args: ResourceValidationArgs, report: ReportViolation) -> None:
    """Report every wildcard of the allowlist that is, or takes in, a public suffix."""
    if args.resource_type != GATEWAY_POLICY:
        return
    excepted = args.get_config().get("allowed", ())
    for host in allowed_hosts(args.props.get("policy") or {}):
        if "*" in host and host not in excepted and (taken_in := _takes_in(host)):
            report(f"{host!r} takes in {taken_in}: name the hosts, or one domain", args.urn)


def _takes_in(host: str) -> str | None:
    """Where anybody gets a name that the wildcard covers; None if nowhere."""
    try:
        name = normalise_suffix(host.removeprefix(WILDCARD))
    except MalformedNameError:
        return "everything"
    if not host.startswith(WILDCARD) or "." not in name or is_public_suffix(name):
        return name
    return public_suffix_below(name)


no_broad_wildcard = ResourceValidationPolicy(
    name="no-broad-wildcard",
    description="A wildcard on a public suffix allows whoever registers a name below it.",
    validate=validate,
    enforcement_level=MANDATORY,
    config_schema=list_of_texts(
        "allowed", "Wildcards that are wanted, as they stand in the allowlist."
    ),
)
