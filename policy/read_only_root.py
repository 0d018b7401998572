"""The root file system of every container is read-only."""

from __future__ import annotations

from pulumi_policy import ResourceValidationPolicy

from policy.resources import CONTAINER, MANDATORY, ReportViolation, ResourceValidationArgs


def validate(args: ResourceValidationArgs, report: ReportViolation) -> None:
    """Report a container whose root can be written."""
    if args.resource_type == CONTAINER and args.props.get("readOnly") is not True:
        report(f"readOnly is {args.props.get('readOnly')!r}: write true", args.urn)


read_only_root = ResourceValidationPolicy(
    name="read-only-root",
    description="What can't be written can't be changed between review and run.",
    validate=validate,
    enforcement_level=MANDATORY,
)
