"""No container publishes a port."""

from __future__ import annotations

from pulumi_policy import ResourceValidationPolicy

from policy.resources import CONTAINER, MANDATORY, ReportViolation, ResourceValidationArgs, items


def validate(args: ResourceValidationArgs, report: ReportViolation) -> None:
    """Report every published port of a container."""
    if args.resource_type != CONTAINER:
        return
    if args.props.get("publishAllPorts"):
        report("publishAllPorts is true: leave it out", args.urn)
    for port in items(args.props, "ports"):
        shown = port.get("external") or port.get("internal") if hasattr(port, "get") else port
        report(f"port {shown} is published: remove ports", args.urn)


no_published_ports = ResourceValidationPolicy(
    name="no-published-ports",
    description="A published port is reachable from outside in spite of the host's firewall.",
    validate=validate,
    enforcement_level=MANDATORY,
)
