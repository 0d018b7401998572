"""No wildcard on a zone in which anybody can get a name."""

from __future__ import annotations

from pulumi_policy import ResourceValidationPolicy

from abox.entries import WILDCARD
from abox.names import MalformedNameError, is_public_suffix, normalise_suffix
from policy.resources import (
    GATEWAY_POLICY,
    MANDATORY,
    ReportViolation,
    ResourceValidationArgs,
    allowed_hosts,
)


def validate(args: ResourceValidationArgs, report: ReportViolation) -> None:
    """Report every wildcard of the allowlist that covers a public suffix."""
    if args.resource_type != GATEWAY_POLICY:
        return
    for host in allowed_hosts(args.props.get("policy") or {}):
        if "*" in host and not _is_narrow(host):
            report(f"{host!r} is allowed: name the domain, as in '*.example.com'", args.urn)


def _is_narrow(host: str) -> bool:
    if not host.startswith(WILDCARD):
        return False
    try:
        name = normalise_suffix(host.removeprefix(WILDCARD))
    except MalformedNameError:
        return False
    return "." in name and not is_public_suffix(name)


no_broad_wildcard = ResourceValidationPolicy(
    name="no-broad-wildcard",
    description="A wildcard on a public suffix allows whoever registers a name below it.",
    validate=validate,
    enforcement_level=MANDATORY,
)
