"""No container gains privileges or runs without the kernel's confinement."""

from __future__ import annotations

import json

from pulumi_policy import ResourceValidationPolicy

from policy.resources import CONTAINER, MANDATORY, ReportViolation, ResourceValidationArgs, items

NO_NEW_PRIVILEGES = ("no-new-privileges", "no-new-privileges:true", "no-new-privileges=true")

LIFTED = ("unconfined", "disable")
"""Values that switch a confinement off: seccomp, AppArmor, SELinux labels, system paths."""

SECCOMP = "seccomp="

REFUSALS = ("SCMP_ACT_ERRNO", "SCMP_ACT_KILL")
"""Default actions of a system call filter that refuse."""


def validate(args: ResourceValidationArgs, report: ReportViolation) -> None:
    """Report a container that may gain privileges, and every confinement that is lifted."""
    if args.resource_type != CONTAINER:
        return
    options = [str(option) for option in items(args.props, "securityOpts")]
    if not any(option in NO_NEW_PRIVILEGES for option in options):
        report('new privileges are possible: add "no-new-privileges:true"', args.urn)
    for option in options:
        if _lifts(option):
            report(f"securityOpts has {option[:60]!r}: remove it", args.urn)


def _lifts(option: str) -> bool:
    """Whether an option switches a confinement off, or is a filter that lets every call through."""
    if option.startswith(SECCOMP):
        profile = option[len(SECCOMP) :]
        return profile in LIFTED or (profile.startswith("{") and not _denies(profile))
    return option.replace("=", ":").rpartition(":")[2] in (*LIFTED, "false")


def _denies(profile: str) -> bool:
    """Whether a system call filter refuses what it doesn't name."""
    try:
        default = json.loads(profile).get("defaultAction")
    except ValueError:
        return False
    return isinstance(default, str) and default.startswith(REFUSALS)


confined_processes = ResourceValidationPolicy(
    name="confined-processes",
    description="Set-user-id programs and unfiltered system calls are ways out of a container.",
    validate=validate,
    enforcement_level=MANDATORY,
)
