"""Networks have no way out, except the one that is for egress."""

from __future__ import annotations

from pulumi_policy import ResourceValidationPolicy

from policy.resources import (
    MANDATORY,
    NETWORK,
    ROLE_EGRESS,
    ReportViolation,
    ResourceValidationArgs,
    role_of,
)


def validate(args: ResourceValidationArgs, report: ReportViolation) -> None:
    """Report a network with a way out that isn't marked as egress, and what no filter is for."""
    if args.resource_type != NETWORK:
        return
    if args.props.get("internal") is not True and role_of(args.props) != ROLE_EGRESS:
        report(f"internal is {args.props.get('internal')!r}: write true", args.urn)
    if args.props.get("driver") not in (None, "bridge"):
        report(f"driver is {args.props['driver']!r}: write 'bridge'", args.urn)
    if args.props.get("ipv6") not in (None, False) and role_of(args.props) != ROLE_EGRESS:
        report("ipv6 is on: only an egress network may have it", args.urn)


internal_networks_only = ResourceValidationPolicy(
    name="internal-networks-only",
    description="A network with a way out makes every filter of the others pointless.",
    validate=validate,
    enforcement_level=MANDATORY,
)
