"""No allowed network takes in the metadata service, the host or the sandboxes themselves."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping

from pulumi_policy import ResourceValidationPolicy

from abox.addresses import never_allowed
from policy.resources import (
    GATEWAY_POLICY,
    MANDATORY,
    ReportViolation,
    ResourceValidationArgs,
    items,
)


def validate(args: ResourceValidationArgs, report: ReportViolation) -> None:
    """Report every allowed network that opens what no setting may open."""
    if args.resource_type != GATEWAY_POLICY:
        return
    policy = args.props.get("policy")
    for cidr in items(policy if isinstance(policy, Mapping) else {}, "allow_private_cidrs"):
        try:
            network = ipaddress.ip_network(cidr)
        except ValueError as error:
            report(f"{cidr!r} is no network: {error}", args.urn)
            continue
        if never := never_allowed(network):
            report(f"{cidr} takes in {never}: name narrower networks", args.urn)


no_reserved_cidr = ResourceValidationPolicy(
    name="no-reserved-cidr",
    description="The metadata service hands out the host machine's credentials.",
    validate=validate,
    enforcement_level=MANDATORY,
)
