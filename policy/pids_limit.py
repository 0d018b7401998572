"""Every container has a limit of processes."""

from __future__ import annotations

from collections.abc import Mapping

from pulumi_policy import ResourceValidationPolicy

from policy.resources import CONTAINER_POSTURE, MANDATORY, ReportViolation, ResourceValidationArgs


def validate(args: ResourceValidationArgs, report: ReportViolation) -> None:
    """Report a posture that asks for no limit; the engine's own resource has no such property."""
    if args.resource_type != CONTAINER_POSTURE:
        return
    expected = args.props.get("expected")
    limit = expected.get("pids_limit") if isinstance(expected, Mapping) else None
    if not isinstance(limit, (int, float)) or isinstance(limit, bool) or limit <= 0:
        report(f"pids_limit is {limit!r}: write a number above 0", args.urn)


pids_limit = ResourceValidationPolicy(
    name="pids-limit",
    description="A fork bomb must end at the sandbox's own limit.",
    validate=validate,
    enforcement_level=MANDATORY,
)
