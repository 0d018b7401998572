"""No container gains privileges or runs without the kernel's confinement."""

from __future__ import annotations

from pulumi_policy import ResourceValidationPolicy

from policy.resources import CONTAINER, MANDATORY, ReportViolation, ResourceValidationArgs, items

NO_NEW_PRIVILEGES = ("no-new-privileges", "no-new-privileges:true", "no-new-privileges=true")

LIFTED = ("unconfined", "disable")
"""Values that switch a confinement off: seccomp, AppArmor, SELinux labels, system paths."""


def validate(args: ResourceValidationArgs, report: ReportViolation) -> None:
    """Report a container that may gain privileges, and every confinement that is lifted."""
    if args.resource_type != CONTAINER:
        return
    options = [str(option) for option in items(args.props, "securityOpts")]
    if not any(option in NO_NEW_PRIVILEGES for option in options):
        report('new privileges are possible: add "no-new-privileges:true"', args.urn)
    for option in options:
        if option.replace("=", ":").rpartition(":")[2] in (*LIFTED, "false"):
            report(f"securityOpts has {option!r}: remove it", args.urn)


confined_processes = ResourceValidationPolicy(
    name="confined-processes",
    description="Set-user-id programs and unfiltered system calls are ways out of a container.",
    validate=validate,
    enforcement_level=MANDATORY,
)
