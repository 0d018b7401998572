"""No container gets a device of the host."""

from __future__ import annotations

from pulumi_policy import ResourceValidationPolicy

from policy.resources import CONTAINER, MANDATORY, ReportViolation, ResourceValidationArgs, items


def validate(args: ResourceValidationArgs, report: ReportViolation) -> None:
    """Report every device that is handed to a container."""
    if args.resource_type != CONTAINER:
        return
    for device in items(args.props, "devices"):
        path = device.get("hostPath") if hasattr(device, "get") else device
        report(f"device {path} is handed over: remove it", args.urn)
    if gpus := args.props.get("gpus"):
        report(f"gpus is {gpus!r}: leave it out", args.urn)


no_host_devices = ResourceValidationPolicy(
    name="no-host-devices",
    description="A device is a driver of the host's kernel, open to whatever the agent sends.",
    validate=validate,
    enforcement_level=MANDATORY,
)
