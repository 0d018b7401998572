"""A secret for one origin, not for every name below a domain."""

from __future__ import annotations

from collections.abc import Mapping

from pulumi_policy import ResourceValidationPolicy

from abox.entries import WILDCARD
from policy.resources import (
    ADVISORY,
    GATEWAY_POLICY,
    ReportViolation,
    ResourceValidationArgs,
    items,
    list_of_texts,
)


def validate(args: ResourceValidationArgs, report: ReportViolation) -> None:
    """Report every wildcard whose requests get a secret."""
    if args.resource_type != GATEWAY_POLICY:
        return
    policy = args.props.get("policy")
    excepted = args.get_config().get("allowed", ())
    for entry in items(policy if isinstance(policy, Mapping) else {}, "allow"):
        host = str(entry.get("host")) if isinstance(entry, Mapping) else ""
        if host.startswith(WILDCARD) and items(entry, "inject") and host not in excepted:
            report(f"{host!r} gets a secret: name the host that it is for", args.urn)


no_secret_on_wildcard = ResourceValidationPolicy(
    name="no-secret-on-wildcard",
    description="Whoever gets a name below the domain gets the secret.",
    validate=validate,
    enforcement_level=ADVISORY,
    config_schema=list_of_texts(
        "allowed", "Wildcards that are wanted, as they stand in the allowlist."
    ),
)
