"""Every container has a memory limit, swap included."""

from __future__ import annotations

from pulumi_policy import ResourceValidationPolicy

from policy.resources import CONTAINER, MANDATORY, ReportViolation, ResourceValidationArgs


def validate(args: ResourceValidationArgs, report: ReportViolation) -> None:
    """Report a container without a limit, or with swap beside it."""
    if args.resource_type != CONTAINER:
        return
    memory, swap = args.props.get("memory"), args.props.get("memorySwap")
    if not isinstance(memory, (int, float)) or isinstance(memory, bool) or memory <= 0:
        report(f"memory is {memory!r}: write a limit in megabytes", args.urn)
    elif swap != memory:
        report(f"memorySwap is {swap!r}: write {memory}, the value of memory", args.urn)


memory_limit = ResourceValidationPolicy(
    name="memory-limit",
    description="One runaway process must not take the host and its neighbours down.",
    validate=validate,
    enforcement_level=MANDATORY,
)
