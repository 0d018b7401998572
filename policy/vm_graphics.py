"""A VM has no screen, no sound and nothing else that a person's desktop would reach it by."""

from __future__ import annotations

from pulumi_policy import ResourceValidationPolicy

from policy.resources import (
    DOMAIN,
    MANDATORY,
    ReportViolation,
    ResourceValidationArgs,
    domain_sheet,
    items,
)

REFUSED = ("graphics", "sound", "redirdev", "smartcard")
"""Elements of a domain that are channels to a desktop."""


def validate(args: ResourceValidationArgs, report: ReportViolation) -> None:
    """Report a domain that a desktop could be connected to."""
    if args.resource_type != DOMAIN:
        return
    for key in ("graphics", "video"):
        if items(args.props, key):
            report(f"{key} is set: leave it out", args.urn)
    try:
        sheet = domain_sheet(args.props)
    except ValueError as error:
        report(f"{error}: write a stylesheet", args.urn)
        return
    if sheet is None:
        report("pulumi-libvirt adds graphics: take them away by xml.xslt", args.urn)
        return
    for tag in REFUSED:
        if next(sheet.iter(tag), None) is not None:
            report(f"xml.xslt has an element {tag}: remove it", args.urn)


vm_without_graphics = ResourceValidationPolicy(
    name="vm-without-graphics",
    description="A screen, a clipboard or sound is a way between the guest and a person's desktop.",
    validate=validate,
    enforcement_level=MANDATORY,
)
