"""A domain's XML as the official plugin writes it: hardening is the program's own stylesheet."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final
from xml.etree import ElementTree as ET

from toolchain.plugins.bridge.resource import ResourceError, values
from toolchain.plugins.libvirt.client import Client, LibvirtError
from toolchain.plugins.libvirt.stylesheet import child
from toolchain.plugins.wire_values import Value

CLOUD_INIT_SERIAL: Final = "cloudinit"
"""Serial of the CD that isn't one of the program's disks."""

KEYLESS: Final = "_"
"""Key of the kernel parameters that have no value."""

RANDOM_SOURCE: Final = "/dev/urandom"


def domain_document(client: Client, wanted: Mapping[str, Value]) -> ET.Element:
    """The XML to define.

    Raises:
        ResourceError: a volume or the machine type isn't there.
    """
    document = ET.Element("domain", type=str(wanted["type"]))
    child(document, "name", str(wanted["name"]))
    if values(wanted, "description"):
        child(document, "description", str(wanted["description"]))
    child(document, "memory", str(wanted["memory"]), unit="MiB")
    child(document, "vcpu", str(wanted["vcpu"]))
    _operating_system(document, client, wanted)
    features = child(document, "features")
    for name in ("pae", "acpi", "apic"):
        child(features, name)
    mode = (values(wanted, "cpu") or {}).get("mode")
    child(document, "cpu", **({"mode": str(mode)} if mode else {}))
    _devices(child(document, "devices"), client, wanted)
    return document


def _operating_system(parent: ET.Element, client: Client, wanted: Mapping[str, Value]) -> None:
    arch = str(values(wanted, "arch") or client.architecture())
    machine = str(values(wanted, "machine") or "pc")
    system = child(parent, "os")
    child(system, "type", "hvm", arch=arch, machine=client.canonical_machine(arch, machine))
    for key, content in (
        ("kernel", values(wanted, "kernel")),
        ("initrd", values(wanted, "initrd")),
        ("cmdline", command_line(values(wanted, "cmdlines") or [])),
    ):
        if content:
            child(system, key, str(content))


def command_line(parameters: Sequence[Mapping[str, str]]) -> str:
    """Kernel parameters in the order of the alphabet, as the official plugin writes them."""
    words = [
        value if key == KEYLESS else f"{key}={value}"
        for group in parameters
        for key, value in group.items()
    ]
    return " ".join(sorted(words))


def split_command_line(line: str) -> list[dict[str, str]]:
    """The same as the official plugin reads it back: one map, a further one at a repeated key."""
    groups: list[dict[str, str]] = []
    current: dict[str, str] = {}
    keyless = [word for word in line.split(" ") if word and "=" not in word]
    for word in line.split(" "):
        key, equals, value = word.partition("=")
        if not equals:
            continue
        if key in current:
            groups.append(current)
            current = {}
        current[key] = value
    groups += [current] if current else []
    return [*groups, {KEYLESS: " ".join(keyless)}] if keyless else groups


def _devices(devices: ET.Element, client: Client, wanted: Mapping[str, Value]) -> None:
    emulator = values(wanted, "emulator")
    child(devices, "emulator", str(emulator or client.emulator()))
    for index, disk in enumerate(values(wanted, "disks") or []):
        _disk(devices, client, index, disk)
    if values(wanted, "cloudinit"):
        devices.append(cloud_init_disk(client, str(wanted["cloudinit"])))
    for interface in values(wanted, "networkInterfaces") or []:
        _interface(devices, interface)
    for console in values(wanted, "consoles") or []:
        _console(devices, console)
    agent = child(devices, "channel", type="unix")
    child(agent, "target", type="virtio", name="org.qemu.guest_agent.0")
    child(devices, "graphics", type="spice", autoport="yes")
    source = child(devices, "rng", model="virtio")
    child(source, "backend", RANDOM_SOURCE, model="random")


def _disk(devices: ET.Element, client: Client, index: int, wanted: Mapping[str, Any]) -> None:
    target = f"vd{disk_letters(index)}"
    if wanted.get("volumeId"):
        volume = _volume(client, str(wanted["volumeId"]))
        source = {"pool": client.call("vol-pool", str(wanted["volumeId"]))}
        source["volume"] = volume.findtext("name") or ""
        found = volume.find("target/format")
        known = found is not None and found.get("type") == "qcow2"
        _add_disk(devices, "volume", target, source, "qcow2" if known else "raw")
    elif wanted.get("file"):
        name = str(wanted["file"])
        if name.endswith(".iso"):
            raise ResourceError(f"disk {name}: this stand-in attaches no CDs")
        image_format = "qcow2" if name.endswith(".qcow2") else "raw"
        _add_disk(devices, "file", target, {"file": name}, image_format)
    else:
        raise ResourceError(f"disk {index} has neither a volume nor a file")


def _add_disk(
    devices: ET.Element, kind: str, target: str, source: dict[str, str], image_format: str
) -> None:
    disk = child(devices, "disk", type=kind, device="disk")
    child(disk, "driver", name="qemu", type=image_format)
    child(disk, "source", **source)
    child(disk, "target", dev=target, bus="virtio")


def disk_letters(index: int) -> str:
    """Letters of the n-th disk: a to z, then aa and on."""
    first, letter = divmod(index, 26)
    return (disk_letters(first - 1) if first else "") + chr(ord("a") + letter)


def _volume(client: Client, key: str) -> ET.Element:
    try:
        return client.describe("vol-dumpxml", key)
    except LibvirtError as error:
        raise ResourceError(f"can't retrieve volume {key}: {error}") from error


def cloud_init_disk(client: Client, identity: str) -> ET.Element:
    """The CD that the property `cloudinit` names, by its volume and a number behind a semicolon.

    Raises:
        ResourceError: there is no such volume.
    """
    volume = _volume(client, identity.split(";")[0])
    disk = ET.Element("disk", type="file", device="cdrom")
    child(disk, "driver", name="qemu", type="raw")
    child(disk, "source", file=volume.findtext("target/path") or "")
    child(disk, "target", dev="hdd", bus="ide")
    child(disk, "serial", CLOUD_INIT_SERIAL)
    return disk


def _interface(devices: ET.Element, wanted: Mapping[str, Any]) -> None:
    if not wanted.get("bridge"):
        raise ResourceError("a network interface without a bridge is not implemented here")
    interface = child(devices, "interface", type="bridge")
    child(interface, "mac", address=str(wanted.get("mac") or random_mac()).upper())
    child(interface, "source", bridge=str(wanted["bridge"]))
    child(interface, "model", type="virtio")


def random_mac(number: Callable[[int], int] = secrets.randbelow) -> str:
    """A hardware address of QEMU's own range."""
    return "52:54:00:" + ":".join(f"{number(256):02x}" for _ in range(3))


def _console(devices: ET.Element, wanted: Mapping[str, Any]) -> None:
    console = child(devices, "console", type=str(wanted["type"]))
    target = child(console, "target", port=str(wanted["targetPort"]))
    if wanted.get("targetType"):
        target.set("type", str(wanted["targetType"]))
