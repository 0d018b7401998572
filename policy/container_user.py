"""No container runs as root."""

from __future__ import annotations

from pulumi_policy import ResourceValidationPolicy

from policy.resources import CONTAINER, MANDATORY, ReportViolation, ResourceValidationArgs


def validate(args: ResourceValidationArgs, report: ReportViolation) -> None:
    """Report a container whose user is root, or is left to the image."""
    if args.resource_type != CONTAINER:
        return
    user = args.props.get("user")
    name = user.split(":")[0] if isinstance(user, str) else ""
    if not name or name == "root" or (name.isdigit() and int(name) == 0):
        report(f"user is {user!r}: write an id other than 0, for example 1000:1000", args.urn)


no_root_user = ResourceValidationPolicy(
    name="no-root-user",
    description="An image's default is often root, and root in a container is root to the kernel.",
    validate=validate,
    enforcement_level=MANDATORY,
)
