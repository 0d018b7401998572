"""The hardened domain of a VM: the stylesheet that makes it, and the normal form that proves it.

pulumi-libvirt writes a domain of its own (with graphics, a random generator and a channel for an
agent in the guest) and lets a stylesheet transform it. Ours copies the few parts that it knows
into a domain that is written out here; whatever else the plugin writes never arrives.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from xml.etree import ElementTree

from abox.naming import is_name
from abox.render.volume import FORMATS

MACHINE = "q35"
"""libvirt stores the versioned name of the day of creation, so the machine is pinned from then."""

_MACHINE_STORED = re.compile(r"pc-q35-[0-9]+\.[0-9]+")

MONITOR_PORT = "org.abox.monitor"
"""Name of the virtio-serial port that sensors in the guest write to."""

MONITOR_RECONNECT_S = 1
"""Seconds between attempts of QEMU to reach the reader of that port."""

EMULATED, ACCELERATED = "qemu", "kvm"
"""Domain types: software emulation, hardware virtualisation."""

_METADATA = "urn:abox:sandbox"
"""Namespace of the element by which a domain says whose it is."""

_XSL = "http://www.w3.org/1999/XSL/Transform"
_FILTER_NAME = re.compile(r"[a-zA-Z][a-zA-Z0-9_.-]{0,127}")


@dataclass(frozen=True, kw_only=True)
class DomainSpec:
    """What the stylesheet puts into the domain; the rest comes from the plugin's properties."""

    sandbox: str
    """Name of the sandbox, which the domain bears."""
    filter: str
    """Name of the nwfilter on the tap."""
    monitor: str = ""
    """Path of the unix socket behind the monitor port; empty: there is no such port."""
    acceleration: str = EMULATED
    """Type of the domain."""
    base: str = ""
    """Path of the image below the first disk; empty: libvirt finds out by itself."""
    base_format: str = ""
    """qcow2 or raw."""

    def __post_init__(self) -> None:
        if not is_name(self.sandbox):
            raise ValueError(f"{self.sandbox!r}: not the name of a sandbox")
        if not _FILTER_NAME.fullmatch(self.filter):
            raise ValueError(f"{self.filter!r}: letters, digits, '.', '-' and '_' only")
        if self.monitor and not (self.monitor.startswith("/") and self.monitor.isprintable()):
            raise ValueError(f"{self.monitor!r}: an absolute path without control characters")
        if self.base and not (self.base.startswith("/") and self.base.isprintable()):
            raise ValueError(f"{self.base!r}: an absolute path without control characters")
        if self.base and self.base_format not in FORMATS:
            raise ValueError(f"{self.base_format!r}: one of {', '.join(FORMATS)}")
        if self.acceleration not in (EMULATED, ACCELERATED):
            raise ValueError(f"{self.acceleration!r}: {EMULATED} or {ACCELERATED}")


def render_stylesheet(spec: DomainSpec) -> str:
    """The XSLT that makes the hardened domain of the plugin's one; equal specs, equal bytes.

    Disks keep their order; the last one is the read-only seed of cloud-init.
    """
    sheet, template = _sheet("/domain")
    domain = _add(template, "domain", type="{@type}")
    _copy(domain, "name|uuid|description|memory|vcpu")
    _bear_name(domain, spec.sandbox)
    current = _add(domain, "currentMemory", unit="{memory/@unit}")
    _value(current, "memory")
    _add(_add(domain, "memoryBacking"), "nosharepages")
    _copy(_add(domain, "os"), "os/type|os/kernel|os/initrd|os/cmdline")
    features = _add(domain, "features")
    for name in ("acpi", "apic"):
        _add(features, name)
    _add(features, "vmport", state="off")
    if spec.acceleration == ACCELERATED:
        _add(domain, "cpu", mode="host-passthrough", migratable="off")
    _add(domain, "clock", offset="utc")
    for event, action in (("poweroff", "destroy"), ("reboot", "restart"), ("crash", "destroy")):
        _add(domain, f"on_{event}").text = action
    power = _add(domain, "pm")
    for state in ("mem", "disk"):
        _add(power, f"suspend-to-{state}", enabled="no")
    _devices(_add(domain, "devices"), spec)
    return _text(sheet)


def _bear_name(domain: ElementTree.Element, sandbox: str) -> None:
    _add(_add(domain, "metadata"), f"{{{_METADATA}}}sandbox").text = sandbox


def sandbox_of(text: str) -> str:
    """The sandbox whose name a domain bears, empty if it bears none.

    Raises: ValueError if it is no XML.
    """
    return _parse(text).findtext(f"metadata/{{{_METADATA}}}sandbox", "")


def _devices(devices: ElementTree.Element, spec: DomainSpec) -> None:
    _copy(devices, "devices/emulator")
    disk = _add(_each(devices, "devices/disk"), "disk", type="{@type}", device="disk")
    _add(disk, "driver", name="qemu", type="{driver/@type}")
    _copy(disk, "source")
    if spec.base:
        _base(disk, spec)
    _add(disk, "target", dev="{target/@dev}", bus="virtio")
    last = _add(disk, f"{{{_XSL}}}if", test="position() = last()")
    _add(last, "readonly")
    nic = _add(_each(devices, "devices/interface"), "interface", type="bridge")
    _copy(nic, "mac|source")
    _add(nic, "model", type="virtio")
    # In QEMU, which is confined, and not in the kernel (vhost).
    _add(nic, "driver", name="qemu")
    _add(nic, "filterref", filter=spec.filter)
    _add(_add(devices, "console", type="pty"), "target", type="virtio", port="0")
    if spec.monitor:
        channel = _add(devices, "channel", type="unix")
        source = _add(channel, "source", mode="connect", path=_plain(spec.monitor))
        _add(source, "reconnect", enabled="yes", timeout=str(MONITOR_RECONNECT_S))
        # libvirt would change the owner of the socket, and not start without one.
        _add(source, "seclabel", model="dac", relabel="no")
        _add(channel, "target", type="virtio", name=MONITOR_PORT)
    _add(devices, "controller", type="usb", model="none")
    _add(devices, "memballoon", model="none")


def _plain(value: str) -> str:
    """An attribute's value, whose braces would be read as an expression."""
    return value.replace("{", "{{").replace("}", "}}")


def _base(disk: ElementTree.Element, spec: DomainSpec) -> None:
    """Say what is below the first disk: others lie on it too, so it isn't given to this QEMU."""
    first = _add(disk, f"{{{_XSL}}}if", test="position() = 1")
    below = _add(first, "backingStore", type="file")
    _add(below, "format", type=spec.base_format)
    source = _add(below, "source", file=_plain(spec.base))
    _add(source, "seclabel", model="dac", relabel="no")
    _add(below, "backingStore")


PLACEHOLDERS = ("bridge", "cpus", "filter", "mac", "memory_mb", "sandbox")
"""What a template of the user's own may name, in double braces: ``{{mac}}``."""

_PLACEHOLDER = re.compile(r"\{\{\s*([a-z_]+)\s*\}\}")


def check_template(text: str) -> None:
    """Require a template of the user's own to be a domain whose every interface is filtered.

    Raises: ValueError with what is wrong, in words.
    """
    root = _parse(text)
    if root.tag != "domain":
        raise ValueError(f"its root is {root.tag!r}, not 'domain'")
    for element in root.iter():
        if element.tag.startswith(f"{{{_XSL}}}"):
            raise ValueError("it holds parts of a stylesheet")
        for value in (element.text or "", element.tail or "", *element.attrib.values()):
            for name in _PLACEHOLDER.findall(value):
                if name not in PLACEHOLDERS:
                    raise ValueError(f"{{{{{name}}}}} stands for nothing")
    for nic in root.iter("interface"):
        _check_interface(nic)


def _check_interface(nic: ElementTree.Element) -> None:
    for path, attribute, wanted in (
        ("filterref", "filter", "filter"),
        ("source", "bridge", "bridge"),
        ("mac", "address", "mac"),
    ):
        found = nic.findall(path)
        values = [_PLACEHOLDER.fullmatch(each.get(attribute, "").strip()) for each in found]
        if len(found) != 1 or values[0] is None or values[0].group(1) != wanted:
            raise ValueError(
                f"an interface has no <{path} {attribute}='{{{{{wanted}}}}}'/>, so it would leave "
                "the sandbox"
            )


def render_template(text: str, values: Mapping[str, str]) -> str:
    """The XSLT that puts a template of the user's own in the place of the hardened domain.

    Values are put into the parsed document, so none can add an element. Name, id and disks are
    the plugin's where the template has none.

    Args:
        text: the template, which `check_template` took.
        values: by the names of `PLACEHOLDERS`.
    """
    domain = _parse(text)
    _fill(domain, values)
    sheet, template = _sheet("/domain")
    for name in ("uuid", "name"):
        if domain.find(name) is None:
            domain.insert(0, _copy(ElementTree.Element("unused"), name))
    for metadata in domain.findall("metadata"):
        domain.remove(metadata)
    _bear_name(domain, values["sandbox"])
    devices = domain.find("devices")
    if devices is not None and devices.find("disk") is None:
        _copy(devices, "devices/disk")
    template.append(domain)
    return _text(sheet)


def _fill(domain: ElementTree.Element, values: Mapping[str, str]) -> None:
    """Put the values in the places of their names, in texts and attributes."""

    def filled(part: str) -> str:
        return _PLACEHOLDER.sub(lambda found: values[found.group(1)], part)

    for element in domain.iter():
        element.text, element.tail = (p and filled(p) for p in (element.text, element.tail))
        for name, value in element.attrib.items():
            # A processor reads braces in attributes as an expression, and doubled ones as one.
            element.set(name, filled(value).replace("{", "{{").replace("}", "}}"))


def _parse(text: str) -> ElementTree.Element:
    if "<!" in text.replace("<!--", ""):
        raise ValueError("it holds a document type or entities")
    try:
        # No document type, so no entities: nothing that the parser could be led astray by.
        return ElementTree.fromstring(text)  # noqa: S314
    except ElementTree.ParseError as error:
        raise ValueError(f"it is no XML: {error}") from error


def _sheet(match: str) -> tuple[ElementTree.Element, ElementTree.Element]:
    sheet = ElementTree.Element(f"{{{_XSL}}}stylesheet", version="1.0")
    _add(sheet, f"{{{_XSL}}}output", {"method": "xml", "omit-xml-declaration": "yes"})
    return sheet, _add(sheet, f"{{{_XSL}}}template", match=match)


def _add(
    parent: ElementTree.Element, tag: str, attributes: Mapping[str, str] | None = None, **more: str
) -> ElementTree.Element:
    return ElementTree.SubElement(parent, tag, {**(attributes or {}), **more})


def _copy(parent: ElementTree.Element, select: str) -> ElementTree.Element:
    return _add(parent, f"{{{_XSL}}}copy-of", select=select)


def _value(parent: ElementTree.Element, select: str) -> None:
    _add(parent, f"{{{_XSL}}}value-of", select=select)


def _each(parent: ElementTree.Element, select: str) -> ElementTree.Element:
    return _add(parent, f"{{{_XSL}}}for-each", select=select)


def _text(sheet: ElementTree.Element) -> str:
    ElementTree.register_namespace("xsl", _XSL)
    return ElementTree.tostring(sheet, encoding="unicode") + "\n"


# --- the normal form ---------------------------------------------------------------------------

_VOLATILE = {"address", "alias", "backingStore", "name", "privateData", "resource", "uuid"}
"""Elements that say nothing about confinement, or differ between a running domain and its file."""

_CHILD_VOLATILE = {"interface": {"target"}}
"""The name of the tap is libvirt's choice at every start."""

_ATTRIBUTES_VOLATILE = {
    "domain": {"id"},
    "console": {"tty"},
    "source": {"index", "startupPolicy"},
    "target": {"state"},
}


def normal_form(text: str) -> list[str]:
    """A domain in libvirt's XML, one line a part: head first, devices last, each sorted.

    A domain and its stored definition have equal forms as long as nobody changed one of them.
    Names, ids, addresses on the guest's bus and the labels of a running process aren't part of it.

    Raises: ValueError if it is no domain.
    """
    root = _parse(text)
    if root.tag != "domain":
        raise ValueError(f"a {root.tag} is no domain")
    parts = [part for part in root if part.tag not in (*_VOLATILE, "devices")]
    head = [_line(part) for part in parts if not _is_dynamic_label(part)]
    devices = [part for each in root.findall("devices") for part in each]
    lines = [f"device {_line(part)}" for part in devices if part.tag not in _VOLATILE]
    # A running machine lists them in another order than its definition.
    return [_head(root), *sorted(head), *sorted(lines)]


def _is_dynamic_label(part: ElementTree.Element) -> bool:
    """The labels that libvirt gives to a process by itself."""
    return (
        part.tag == "seclabel" and part.get("type") == "dynamic" and part.find("baselabel") is None
    )


def _head(root: ElementTree.Element) -> str:
    return f"domain type={root.get('type', '')}"


def _processor(cpu: ElementTree.Element) -> str:
    """A processor without the features that libvirt writes out for a running machine."""
    names = [f for f in cpu.findall("feature") if f.get("policy") not in ("disable", "forbid")]
    nested = sorted(f.get("name", "") for f in names if f.get("name") in NESTED)
    return " ".join(
        ["cpu", f"mode={cpu.get('mode', '')}", cpu.findtext("model", ""), *nested]
    ).rstrip()


NESTED = ("svm", "vmx")
"""Features with which a guest would be a hypervisor itself."""


def _line(element: ElementTree.Element) -> str:
    if element.tag == "cpu":
        return _processor(element)
    hidden = _ATTRIBUTES_VOLATILE.get(element.tag, set())
    if element.tag == "source" and element.get("path", "").startswith("/dev/pts/"):
        hidden = {*hidden, "path"}
    words = [element.tag]
    words += [
        f"{name}={value}" for name, value in sorted(element.attrib.items()) if name not in hidden
    ]
    text = (element.text or "").strip()
    if text:
        words.append(repr(text))
    volatile = _VOLATILE | _CHILD_VOLATILE.get(element.tag, set())
    children = [_line(child) for child in element if child.tag not in volatile]
    words += [f"({child})" for child in sorted(children) if child != "source"]
    return " ".join(words)


# --- what a hardened domain looks like ---------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class HardenedDomain:
    """What the normal form of a domain must be made of."""

    spec: DomainSpec
    bridge: str
    mac: str
    cpus: int
    memory_mb: int

    def departures(self, form: list[str]) -> Iterator[str]:
        """In words, what a normal form holds or lacks that a hardened domain wouldn't."""
        required = list(self._required())
        for line in required:
            if form.count(line) != 1:
                yield f"it lacks: {line}" if line not in form else f"there are several: {line}"
        for line in form:
            if line not in required and not any(p.fullmatch(line) for p in _TOLERATED):
                yield f"it isn't hardened: {line}"

    def _required(self) -> Iterator[str]:
        """Lines that must be there once."""
        memory = f"unit=KiB '{self.memory_mb * 1024}'"
        yield f"domain type={self.spec.acceleration}"
        yield f"metadata ({{{_METADATA}}}sandbox '{self.spec.sandbox}')"
        yield from (f"memory {memory}", f"currentMemory {memory}")
        yield f"vcpu placement=static '{self.cpus}'"
        yield from _ALWAYS
        yield (
            "device interface type=bridge (driver name=qemu) "
            f"(filterref filter={self.spec.filter}) (mac address={self.mac.lower()}) "
            f"(model type=virtio) (source bridge={self.bridge})"
        )
        if self.spec.monitor:
            yield (
                "device channel type=unix (source mode=connect path="
                f"{self.spec.monitor} (reconnect enabled=yes timeout={MONITOR_RECONNECT_S}) "
                f"(seclabel model=dac relabel=no)) (target name={MONITOR_PORT} type=virtio)"
            )


_ALWAYS = (
    "memoryBacking (nosharepages)",
    "features (acpi) (apic) (vmport state=off)",
    "on_poweroff 'destroy'",
    "on_reboot 'restart'",
    "on_crash 'destroy'",
    "pm (suspend-to-disk enabled=no) (suspend-to-mem enabled=no)",
    "device console type=pty (target port=0 type=virtio)",
    "device controller index=0 model=none type=usb",
    "device memballoon model=none",
)

_OS_PART = r"boot dev=hd|(kernel|initrd|cmdline) (?:'[^']*'|\"[^\"]*\")"
_TOLERATED = tuple(
    re.compile(pattern)
    for pattern in (
        r"description .*",
        r"clock offset=utc.*",
        rf"cpu mode=(?:custom|host-passthrough|)(?: (?!{'|'.join(NESTED)})[a-zA-Z0-9_.-]+)?",
        rf"os (?:\((?:{_OS_PART})\) )*"
        rf"\(type arch=[a-z0-9_]+ machine={_MACHINE_STORED.pattern} 'hvm'\)",
        r"device emulator '/[^']*qemu-system-[a-z0-9_]+'",
        r"device disk device=disk type=(?:file|volume) \(driver name=qemu type=(?:qcow2|raw)\)"
        r"(?: \(readonly\))? \(source (?:file=/|pool=)[^()]*\) \(target bus=virtio dev=vd[a-z]\)",
        r"device controller index=0 model=pcie-root type=pci",
        r"device controller index=[0-9]+ model=pcie-root-port type=pci \(model name=[a-z-]+\) "
        r"\(target chassis=[0-9]+ port=0x[0-9a-f]+\)",
        # Built into the machine type; no disk may be on it.
        r"device controller index=0 type=sata",
        r"device controller index=0 type=virtio-serial",
        # libvirt adds these to every domain of this machine type; neither leads anywhere.
        r"device input bus=ps2 type=(?:mouse|keyboard)",
        r"device audio id=1 type=none",
    )
)
