"""No VM gets a device, a folder or a raw disk of the host."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from xml.etree import ElementTree

from pulumi_policy import ResourceValidationPolicy

from abox.render.domain import MONITOR_PORT
from policy.resources import (
    DOMAIN,
    MANDATORY,
    ReportViolation,
    ResourceValidationArgs,
    domain_sheet,
    items,
)

REFUSED = ("hostdev", "filesystem", "shmem", "tpm", "vsock", "redirdev")
"""Elements of a domain that hand over something of the host."""

DIRECT = ("macvtap", "vepa", "passthrough")
"""Ways of an interface to the host's own network, past every bridge."""

MONITOR = {"type": "virtio", "name": MONITOR_PORT}
"""What the one channel is called that a domain may have."""


def validate(args: ResourceValidationArgs, report: ReportViolation) -> None:
    """Report whatever of the host is handed to a domain."""
    if args.resource_type != DOMAIN:
        return
    try:
        sheet = domain_sheet(args.props)
    except ValueError as error:
        report(f"{error}: write a stylesheet", args.urn)
        return
    for fault in (*_properties(args.props), *_elements(sheet)):
        report(fault, args.urn)


def _properties(props: Mapping[str, Any]) -> Iterator[str]:
    yield from (
        f"{key} is set: leave it out" for key in ("filesystems", "tpm") if items(props, key)
    )
    for disk in items(props, "disks"):
        device = disk.get("blockDevice") if hasattr(disk, "get") else disk
        if device:
            yield f"disk {device} is a device of the host: use a volume"
    for interface in items(props, "networkInterfaces"):
        for key in DIRECT:
            if hasattr(interface, "get") and interface.get(key):
                yield f"{key} is {interface.get(key)!r}: use a bridge without uplink"


def _elements(sheet: ElementTree.Element | None) -> Iterator[str]:
    written = (
        () if sheet is None else [tag for tag in REFUSED if next(sheet.iter(tag), None) is not None]
    )
    yield from (f"xml.xslt has an element {tag}: remove it" for tag in written)
    for channel in () if sheet is None else sheet.iter("channel"):
        if not _is_monitor(channel):
            yield f"xml.xslt has a channel other than the monitor port {MONITOR_PORT}: remove it"


def _is_monitor(channel: ElementTree.Element) -> bool:
    """Whether a channel is the port whose host side only ever connects to a reader's socket."""
    sources = [source.get("mode") for source in channel.iter("source")]
    targets = [target.attrib for target in channel.iter("target")]
    return channel.get("type") == "unix" and sources == ["connect"] and targets == [MONITOR]


vm_without_host_devices = ResourceValidationPolicy(
    name="vm-without-host-devices",
    description="What of the host is in a VM is a way out of it, past the packet filter.",
    validate=validate,
    enforcement_level=MANDATORY,
)
