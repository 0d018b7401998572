"""No container shares a namespace with the host."""

from __future__ import annotations

from pulumi_policy import ResourceValidationPolicy

from policy.resources import (
    CONTAINER,
    MANDATORY,
    ReportViolation,
    ResourceValidationArgs,
    is_known,
)

MODES = ("networkMode", "pidMode", "ipcMode", "usernsMode", "cgroupnsMode", "utsMode")
"""Properties that name a namespace."""


def validate(args: ResourceValidationArgs, report: ReportViolation) -> None:
    """Report every namespace of the host that a container would be in."""
    if args.resource_type != CONTAINER:
        return
    for mode in MODES:
        # Unknown in a preview: then a resource will give it, and it is judged at `up`.
        if is_known(args.props, mode) and args.props.get(mode) == "host":
            report(f"{mode} is 'host': leave it out", args.urn)


no_host_namespaces = ResourceValidationPolicy(
    name="no-host-namespaces",
    description="In a namespace of the host the sandbox's rules do not hold.",
    validate=validate,
    enforcement_level=MANDATORY,
)
