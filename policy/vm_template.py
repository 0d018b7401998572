"""A VM that follows a template of the user's own is worth a look."""

from __future__ import annotations

from pulumi_policy import ResourceValidationPolicy

from policy.resources import (
    ADVISORY,
    DOMAIN_POSTURE,
    ReportViolation,
    ResourceValidationArgs,
)


def validate(args: ResourceValidationArgs, report: ReportViolation) -> None:
    """Report a domain that isn't compared with the hardened shape."""
    if args.resource_type == DOMAIN_POSTURE and not args.props.get("hardened"):
        report("domain_template is set: remove it, or review what it leaves out", args.urn)


vm_template_reviewed = ResourceValidationPolicy(
    name="vm-template-reviewed",
    description="A template replaces the hardened domain: nothing of that is enforced any more.",
    validate=validate,
    enforcement_level=ADVISORY,
)
