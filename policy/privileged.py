"""No container is privileged."""

from __future__ import annotations

from pulumi_policy import ResourceValidationPolicy

from policy.resources import CONTAINER, MANDATORY, ReportViolation, ResourceValidationArgs


def validate(args: ResourceValidationArgs, report: ReportViolation) -> None:
    """Report a privileged container."""
    if args.resource_type == CONTAINER and args.props.get("privileged") not in (None, False):
        report(f"privileged is {args.props['privileged']!r}: leave it out", args.urn)


no_privileged_container = ResourceValidationPolicy(
    name="no-privileged-container",
    description="A privileged container can change the host's kernel, firewall and devices.",
    validate=validate,
    enforcement_level=MANDATORY,
)
