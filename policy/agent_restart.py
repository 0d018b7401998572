"""The agent is not restarted by the engine."""

from __future__ import annotations

from pulumi_policy import ResourceValidationPolicy

from abox.naming import Role
from policy.resources import (
    CONTAINER,
    MANDATORY,
    ReportViolation,
    ResourceValidationArgs,
    role_of,
)


def validate(args: ResourceValidationArgs, report: ReportViolation) -> None:
    """Report an agent that would come back without its firewall."""
    if args.resource_type != CONTAINER or role_of(args.props) != Role.AGENT:
        return
    restart = args.props.get("restart")
    if restart not in (None, "no"):
        report(f"restart is {restart!r}: write 'no'", args.urn)


agent_never_restarts = ResourceValidationPolicy(
    name="agent-never-restarts",
    description="After a reboot the firewall is gone; an agent that starts by itself is free.",
    validate=validate,
    enforcement_level=MANDATORY,
)
