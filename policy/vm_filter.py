"""Every interface of a VM has a packet filter from its definition on."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from pulumi_policy import ResourceValidationPolicy

from policy.resources import (
    DOMAIN,
    MANDATORY,
    ReportViolation,
    ResourceValidationArgs,
    domain_sheet,
    items,
)

_XSL = "{http://www.w3.org/1999/XSL/Transform}"
_WHOLE = re.compile(r"(^|[|/\s])(\.|\*|devices|node\(\)|interface)(\[[^\]]*\])?($|[|\s])")


def validate(args: ResourceValidationArgs, report: ReportViolation) -> None:
    """Report a domain with an interface that nothing filters."""
    if args.resource_type != DOMAIN:
        return
    try:
        sheet = domain_sheet(args.props)
    except ValueError as error:
        report(f"{error}: write a stylesheet", args.urn)
        return
    if sheet is None:
        if items(args.props, "networkInterfaces"):
            report("networkInterfaces are unfiltered: add a filterref by xml.xslt", args.urn)
        return
    for fault in _faults(sheet, has_interfaces=bool(items(args.props, "networkInterfaces"))):
        report(fault, args.urn)


def _faults(sheet: ElementTree.Element, *, has_interfaces: bool) -> list[str]:
    written = list(sheet.iter("interface"))
    found = [
        "an interface without a filterref: add one"
        for interface in written
        if not _is_filtered(interface)
    ]
    matching = [
        each
        for each in sheet.iter(f"{_XSL}template")
        if each.get("match", "").rpartition("/")[2].partition("[")[0] == "interface"
    ]
    if any(not _is_filtered(each) for each in matching):
        found.append("a template for interfaces without a filterref: add one")
    if has_interfaces and not written and not matching:
        found.append("networkInterfaces: no part of xml.xslt filters them")
    if not matching and any(
        _WHOLE.search(each.get("select", "")) for each in sheet.iter(f"{_XSL}copy-of")
    ):
        found.append("xml.xslt copies interfaces as they are: write them with a filterref")
    return found


def _is_filtered(interface: ElementTree.Element) -> bool:
    return any(each.get("filter") for each in interface.iter("filterref"))


vm_interfaces_filtered = ResourceValidationPolicy(
    name="vm-interfaces-filtered",
    description="A filter that is attached later leaves the first seconds of a boot open.",
    validate=validate,
    enforcement_level=MANDATORY,
)
