"""A hardened VM on a real libvirt and QEMU: read back, filtered from its first instant, repaired.

The machine has no disk: its firmware asks the network for one, over and over. So it floods from
its first second, before any kernel runs.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from abox.render.domain import (
    DomainSpec,
    HardenedDomain,
    normal_form,
    render_stylesheet,
)
from abox.render.nwfilter import render_filter, render_link_filter
from cli.monitor_port import Sign, listening, read_port
from provider.domain_posture import Domain, DomainPostureResource, Tools
from provider.host import can_be_entered
from provider.monitor_folder import MonitorFolder
from provider.records import Records
from tests import host
from tests.integration.render.firewall_lab import SPEC as TABLE
from tests.integration.render.nwfilter_lab import FilteredLab, filtered_laboratory
from tests.plugin_domain import plugins_domain, transformed

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

NAME, MAC = "one-vm-1234567", "52:54:00:AB:CD:EF"
MEMORY_MB = 64
WATCH_S = 90


class Machine:
    """A VM in the lab, and the resource that watches it."""

    def __init__(self, lab: FilteredLab, folder: Path, port: str = "/run/abox-nobody/port") -> None:
        self.lab = lab
        spec = DomainSpec(sandbox="one", filter=lab.spec.name, monitor=port)
        plugins = plugins_domain(name=NAME, bridge=TABLE.bridge, mac=MAC, memory_mb=MEMORY_MB)
        made = transformed(render_stylesheet(spec), plugins)
        # The firmware looks for a system in the network, which is all that it can do.
        self.definition = made.replace("</os>", '<boot dev="network"/></os>')
        self.hardened = HardenedDomain(
            spec=spec, bridge=TABLE.bridge, mac=MAC, cpus=1, memory_mb=MEMORY_MB
        )
        self.tools = Tools(
            lambda *a, stdin="": lab.virsh(*a, text=stdin).stdout,
            lab.packet_rules,
            lab.is_confined,
            lab.bridge_of_port,
            lab.set_bridge,
        )
        self.records = Records(folder)
        self.posture = DomainPostureResource(self.tools, lambda: self.records)

    def define(self, xml: str = "") -> None:
        """Store a definition."""
        self.lab.virsh("define", "/dev/stdin", text=xml or self.definition)

    @property
    def uuid(self) -> str:
        """libvirt's id of the domain."""
        return self.lab.virsh("domuuid", NAME).stdout.strip()

    @property
    def tap(self) -> str:
        """Name of its tap."""
        target = ElementTree.fromstring(self.xml()).find("devices/interface/target")
        assert target is not None
        return target.get("dev", "")

    def xml(self, *flags: str) -> str:
        """libvirt's XML of the domain."""
        return self.lab.virsh("dumpxml", NAME, *flags).stdout

    def sent_and_passed(self, xml: str) -> tuple[int, int]:
        """Frames of the first seconds of a boot on the tap, and those of them on the bridge."""
        self.define(xml)
        self.lab.virsh("start", NAME, "--paused")
        watchers = [self.lab.program("host", "watch", d) for d in (self.tap, self.lab.bridge)]
        try:
            streams = [watcher.stdout for watcher in watchers]
            assert all(s is not None and s.readline().strip() == b"watching" for s in streams)
            self.lab.virsh("resume", NAME)
            source = MAC.replace(":", "").lower().encode()
            on_tap = 0
            deadline = time.monotonic() + WATCH_S
            while on_tap < 3 and time.monotonic() < deadline:
                line = streams[0].readline() if streams[0] is not None else b""
                on_tap += line[12:24] == source
            for watcher in watchers:
                assert watcher.stdin is not None
                watcher.stdin.close()
            on_bridge = streams[1].read() if streams[1] is not None else b""
            passed = [line for line in on_bridge.splitlines() if line[12:24] == source]
            return on_tap, len(passed)
        finally:
            for watcher in watchers:
                host.end(watcher)
            self.lab.virsh("destroy", NAME)


@pytest.fixture(scope="module")
def lab() -> Iterator[FilteredLab]:
    with filtered_laboratory(tables=False) as lab:
        lab.unfilter()  # the lab's agent makes room for the VM
        lab.virsh("nwfilter-undefine", lab.spec.name)
        lab.virsh("nwfilter-undefine", lab.spec.link)

        lab.spec = replace(lab.spec, mac=MAC)
        lab.define(render_link_filter(lab.spec))
        lab.define(render_filter(lab.spec))
        yield lab


@pytest.fixture
def machine(lab: FilteredLab, tmp_path: Path) -> Iterator[Machine]:
    made = Machine(lab, tmp_path)
    yield made
    lab.virsh("destroy", NAME, check=False)
    lab.virsh("undefine", NAME, check=False)
    lab.define(render_filter(lab.spec))


def test_nothing_passes_in_the_first_seconds_of_a_boot(machine: Machine) -> None:
    filterref = f'<filterref filter="{machine.lab.spec.name}"/>'
    assert filterref in machine.definition
    sent, passed = machine.sent_and_passed(machine.definition.replace(filterref, ""))
    assert sent >= 3
    assert passed >= 1  # control: without the filter the bridge sees them
    machine.lab.virsh("undefine", NAME)
    sent, passed = machine.sent_and_passed("")
    assert sent >= 3
    assert passed == 0


@pytest.fixture
def running(machine: Machine) -> Machine:
    machine.define(machine.definition.replace('<boot dev="network"/>', ""))
    machine.lab.virsh("start", NAME)
    return machine


def test_libvirt_keeps_the_domain_hardened_and_its_two_forms_are_one(running: Machine) -> None:
    stored, live = (normal_form(running.xml(*flags)) for flags in (("--inactive",), ()))
    assert stored == live
    assert list(running.hardened.departures(stored)) == []


@pytest.fixture
def port(lab: FilteredLab) -> Iterator[Path]:
    """Where a reader listens, made as by the provider; the lab has a /run of its own."""
    with tempfile.TemporaryDirectory(prefix="abox-") as folder:
        path = Path(folder) / "monitor" / "port"
        virsh = lambda *words: lab.virsh(*words).stdout  # noqa: E731
        MonitorFolder(path.parent, virsh, can_be_entered).apply()
        yield path


def test_mon_1_no_reset_ends_the_connection_and_no_reader_is_needed(
    lab: FilteredLab, tmp_path: Path, port: Path
) -> None:
    machine = Machine(lab, tmp_path, str(port))
    machine.define(machine.definition.replace('<boot dev="network"/>', ""))
    try:
        lab.virsh("start", NAME)
        for _ in range(2):  # a reader goes, and another comes
            with listening(port) as listener:
                signs = read_port(listener, until=time.monotonic() + 30)
                assert next(signs) is Sign.CONNECTED
        with listening(port) as listener:
            signs = read_port(listener, until=time.monotonic() + 8)
            assert next(signs) is Sign.CONNECTED
            lab.virsh("reset", NAME)
            assert list(signs) == []  # no second connection: the first goes on
            signs = read_port(listener, until=time.monotonic() + 60)
            lab.virsh("destroy", NAME)
            lab.virsh("start", NAME)
            assert next(signs) is Sign.CONNECTED  # control: another machine is told
    finally:
        lab.virsh("destroy", NAME, check=False)
        lab.virsh("undefine", NAME, check=False)


def inputs(running: Machine) -> dict[str, object]:

    shape = asdict(running.hardened)
    return {
        "sandbox": "one",
        "domain": running.uuid,
        "filter": running.lab.spec.name,
        "hardened": {**shape.pop("spec"), **shape},
    }


def without_filter(running: Machine, *flags: str) -> None:
    nic = ElementTree.fromstring(running.xml()).find("devices/interface")
    assert nic is not None
    for filterref in nic.findall("filterref"):
        nic.remove(filterref)
    xml = ElementTree.tostring(nic, encoding="unicode")
    running.lab.virsh("update-device", NAME, "/dev/stdin", *flags, text=xml)


def flush_tap(running: Machine) -> None:
    for chain in (f"FI-{running.tap}", f"FO-{running.tap}"):
        running.lab.lab.inside("host", "iptables", "-F", chain)
    running.lab.lab.inside("host", "ebtables", "-t", "nat", "-F")


TAMPERINGS = {
    "filter-off-live": lambda m: without_filter(m, "--live"),
    "filter-off-stored": lambda m: without_filter(m, "--config"),
    "kernel-rules-flushed": flush_tap,
    "all-rules-of-the-host-flushed": lambda m: m.lab.lab.unload(),
    "paused": lambda m: m.lab.virsh("suspend", NAME),
    "off-its-bridge": lambda m: m.lab.lab.inside("host", "ip", "link", "set", m.tap, "nomaster"),
    "second-interface": lambda m: m.lab.virsh(
        "attach-interface", NAME, "bridge", TABLE.bridge, "--model", "virtio", "--config"
    ),
    "more-memory-next-time": lambda m: m.lab.virsh("setmaxmem", NAME, "128M", "--config"),
    "off": lambda m: m.lab.virsh("destroy", NAME),
}


@pytest.mark.parametrize("name", TAMPERINGS)
def test_every_tampering_is_told_and_repaired(running: Machine, name: str) -> None:
    asked = inputs(running)
    state = {**asked, **running.posture.create(asked)[1]}
    assert running.posture.read("one", state)["findings"] == []
    TAMPERINGS[name](running)
    assert running.posture.read("one", state)["findings"]
    running.posture.update("one", state, asked)
    assert running.posture.read("one", state)["findings"] == []


def test_a_domain_that_is_gone_is_proven_gone(running: Machine) -> None:
    uuid = running.uuid
    assert Domain(uuid, running.tools).read() is not None
    running.lab.virsh("destroy", NAME)
    running.lab.virsh("undefine", NAME)
    assert Domain(uuid, running.tools).read() is None
