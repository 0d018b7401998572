"""`libvirt:index/domain:Domain`: defined, started, read, started again, taken away."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from xml.etree import ElementTree as ET

from typing_extensions import override

from toolchain.plugins.bridge.resource import (
    HalfMadeError,
    Resource,
    ResourceError,
    ResourceKind,
    values,
)
from toolchain.plugins.libvirt.client import Client, LibvirtError
from toolchain.plugins.libvirt.domain_document import (
    CLOUD_INIT_SERIAL,
    cloud_init_disk,
    domain_document,
    split_command_line,
)
from toolchain.plugins.libvirt.domain_fields import DOMAIN
from toolchain.plugins.libvirt.stylesheet import transformed
from toolchain.plugins.wire_values import Properties, Value

KIND: Final = ResourceKind(
    token="libvirt:index/domain:Domain",  # noqa: S106 -- a type token, no password
    fields=DOMAIN,
    timeouts={"create": 5 * 60},
)

RUNNING: Final = "running"
PAUSED: Final = "paused"
ACTIVE: Final = (RUNNING, PAUSED)
KIB_PER_MIB: Final = 1024

UNDEFINE: Final = ("--nvram", "--snapshots-metadata", "--managed-save", "--checkpoints-metadata")
"""What goes with a domain's definition; its disks stay."""

EMPTY_INTERFACE: Final[Properties] = {
    "networkId": "",
    "networkName": "",
    "bridge": "",
    "vepa": "",
    "macvtap": "",
    "passthrough": "",
    "hostname": "",
    "waitForLease": False,
    "addresses": [],
}


@dataclass(frozen=True)
class Domain(Resource):
    """Domains of one libvirt."""

    client: Client

    @override
    def create(self, wanted: Mapping[str, Value]) -> str:
        """Define and start; with `running` false it is stopped again."""
        document = transformed(domain_document(self.client, wanted), wanted)
        self._step("defining libvirt domain", "define", document=document)
        name = _name_in(document)
        if values(wanted, "autostart"):
            self._step("setting autostart for domain", "autostart", name)
        self._step("creating libvirt domain", "start", name)
        identity = self.client.call("domuuid", name)
        if not wanted.get("running"):
            try:
                self._stop(identity)
            except ResourceError as error:
                raise HalfMadeError(str(error), identity) from error
        return identity

    def _step(self, doing: str, command: str, *arguments: str, document: str = "") -> None:
        try:
            if document:
                self.client.call_with(command, *arguments, document=document)
            else:
                self.client.call(command, *arguments)
        except LibvirtError as error:
            raise ResourceError(f"error {doing}: {error}") from error

    def _stop(self, identity: str) -> None:
        if self.client.call("domstate", identity) in ACTIVE:
            try:
                self.client.call("destroy", identity)
            except LibvirtError as error:
                raise ResourceError(f"couldn't destroy libvirt domain: {error}") from error

    @override
    def read(self, identity: str, state: Mapping[str, Value]) -> tuple[str, Properties] | None:
        """The live domain; gone only if libvirt's list of all domains lacks it."""
        if identity not in self.client.lines("list", "--all", "--uuid"):
            return None
        live = self.client.describe("dumpxml", identity)
        read: Properties = {
            **state,
            "name": live.findtext("name"),
            "description": live.findtext("description") or "",
            "vcpu": int(live.findtext("vcpu") or 0),
            "memory": _mebibytes(live),
            "arch": _attribute(live, "os/type", "arch"),
            "machine": self.client.short_machine(_attribute(live, "os/type", "machine")),
            "kernel": live.findtext("os/kernel") or "",
            "initrd": live.findtext("os/initrd") or "",
            "cmdlines": split_command_line(live.findtext("os/cmdline") or ""),
            "emulator": live.findtext("devices/emulator") or "",
            "running": self.client.call("domstate", identity) == RUNNING,
            "autostart": self._autostarts(identity),
        }
        loader = live.findtext("os/loader")
        mode = _attribute(live, "cpu", "mode")
        found = {
            "firmware": loader,
            "cpu": {"mode": mode} if mode else None,
            "disks": self._disks(live),
            "networkInterfaces": _interfaces(live, values(state, "networkInterfaces") or []),
            "consoles": _consoles(values(state, "consoles") or []),
        }
        # Without any, the official plugin leaves what the state had.
        return identity, {**read, **{key: value for key, value in found.items() if value}}

    def _autostarts(self, identity: str) -> bool:
        lines = self.client.lines("dominfo", identity)
        return any(line.split() == ["Autostart:", "enable"] for line in lines)

    def _disks(self, live: ET.Element) -> list[Properties]:
        return [
            self._disk(disk)
            for disk in live.iterfind("devices/disk")
            if disk.get("device") != "cdrom" or disk.findtext("serial") != CLOUD_INIT_SERIAL
        ]

    def _disk(self, disk: ET.Element) -> Properties:
        """A disk by its volume: one that is in no pool is an error, as in the official plugin."""
        empty: Properties = {"volumeId": "", "url": "", "file": "", "wwn": "", "blockDevice": ""}
        shown: Properties = {**empty, "scsi": False}
        source = disk.find("source")
        attributes = source.attrib if source is not None else {}
        if disk.get("device") == "cdrom":
            return {**shown, "file": attributes.get("file", "")}
        if disk.get("type") == "block":
            return {**shown, "blockDevice": attributes.get("dev", "")}
        try:
            if disk.get("type") == "volume":
                key = self.client.call(
                    "vol-key", "--pool", attributes["pool"], "--vol", attributes["volume"]
                )
            else:
                key = self.client.call("vol-key", attributes.get("file", ""))
        except LibvirtError as error:
            # virsh looks for the name, then for a key and a path of that name, and tells the last.
            said = str(error).replace("matching path", "matching name")
            raise ResourceError(f"error retrieving volume for disk: {said}") from error
        return {**shown, "volumeId": key}

    @override
    def update(
        self, identity: str, prior: Mapping[str, Value], planned: Mapping[str, Value]
    ) -> Properties:
        """Start a stopped domain, change the CD or autostart; the rest is only noted."""
        state = self.client.call("domstate", identity)
        if state == PAUSED:
            # virsh wouldn't even ask; this is libvirt's own answer.
            raise ResourceError(
                "error creating libvirt domain: Requested operation is not valid: domain is "
                "already running"
            )
        if state != RUNNING:
            self._step("creating libvirt domain", "start", identity)
        if prior.get("cloudinit") != planned.get("cloudinit") and values(planned, "cloudinit"):
            disk = cloud_init_disk(self.client, str(planned["cloudinit"]))
            self._step(
                "while changing the cloudinit volume",
                *("update-device", identity, "--live", "--config", "--file"),
                document=ET.tostring(disk, encoding="unicode"),
            )
        if prior.get("autostart") != planned.get("autostart"):
            arguments = [] if planned.get("autostart") else ["--disable"]
            self._step("setting autostart for domain", "autostart", identity, *arguments)
        return dict(planned)

    @override
    def delete(self, identity: str, state: Mapping[str, Value]) -> None:
        """Stop and undefine it.

        Raises:
            ResourceError: it is gone already, as in the official plugin, or libvirt refuses.
        """
        try:
            self.client.call("domname", identity)
        except LibvirtError as error:
            raise ResourceError(f"error retrieving libvirt domain by delete: {error}") from error
        self._stop(identity)
        try:
            self.client.call("undefine", identity, *UNDEFINE)
        except LibvirtError as error:
            raise ResourceError(f"couldn't undefine libvirt domain with flags: {error}") from error


def _name_in(document: str) -> str:
    """Name of the domain after the stylesheet, which may have changed it."""
    return ET.fromstring(document).findtext("name") or ""  # noqa: S314 -- our own document


def _attribute(live: ET.Element, path: str, name: str) -> str:
    found = live.find(path)
    return "" if found is None else found.get(name, "")


def _mebibytes(live: ET.Element) -> int:
    size, unit = int(live.findtext("memory") or 0), _attribute(live, "memory", "unit")
    if unit not in ("KiB", ""):
        raise ResourceError(f"invalid memory unit : {unit}")
    return size // KIB_PER_MIB


def _interfaces(live: ET.Element, known: list[Mapping[str, Any]]) -> list[Properties]:
    return [
        {
            **EMPTY_INTERFACE,
            "mac": _attribute(interface, "mac", "address").upper(),
            "bridge": _attribute(interface, "source", "bridge"),
            **_kept(known[index] if index < len(known) else {}),
        }
        for index, interface in enumerate(live.iterfind("devices/interface"))
    ]


def _kept(interface: Mapping[str, Any]) -> Properties:
    """What isn't read: it stays as the state has it."""
    return {key: interface[key] for key in ("waitForLease", "hostname") if interface.get(key)}


def _consoles(known: list[Mapping[str, Any]]) -> list[Properties]:
    """Consoles aren't read back: absent texts turn into empty ones, no more."""
    return [{**console, "sourcePath": console.get("sourcePath") or ""} for console in known]
