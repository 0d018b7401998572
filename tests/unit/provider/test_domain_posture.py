"""DomainPosture and DomainGeneration: every tampering with a VM is told, and put right."""

from __future__ import annotations

import pytest

from abox.errors import HostError
from abox.render.nwfilter import render_filter
from provider.domain_generation import DomainGenerationResource
from provider.domain_posture import DomainPostureResource
from provider.records import Record, Records
from tests.unit.provider.fake_libvirt import (
    HARDENED,
    INTERFACE,
    UUID,
    FakeDomain,
    FakeLibvirt,
    domain_xml,
    kernel_rules,
)
from tests.unit.provider.samples import SPEC, libvirt_tools

OTHER = UUID.replace("a", "b")
INPUTS = {"sandbox": "p", "domain": UUID, "filter": "abox-p", "hardened": HARDENED}


class Host:
    """A sandbox's VM on a fake libvirt, with its posture."""

    def __init__(self, folder):
        self.libvirt = FakeLibvirt(folder, domains={UUID: FakeDomain(domain_xml(UUID))})
        self.libvirt.filters["abox-p"] = render_filter(SPEC)
        self.records = Records(folder / "records")
        tools = libvirt_tools(self.libvirt)
        self.posture = DomainPostureResource(tools, lambda: self.records)
        self.generation = DomainGenerationResource(tools, lambda: self.records)
        self.state = {**INPUTS, **self.posture.create(INPUTS)[1]}

    @property
    def domain(self):
        return self.libvirt.domains[UUID]

    def findings(self):
        return self.posture.read("p", self.state)["findings"]

    def repair(self):
        self.libvirt.calls.clear()
        self.posture.update("p", self.state, INPUTS)
        return [call[0] for call in self.libvirt.calls]


@pytest.fixture
def host(tmp_path):
    return Host(tmp_path)


def test_an_untouched_domain_has_no_findings(host):
    assert host.findings() == []


def change_live(host, old, new):
    assert old in host.domain.live
    host.domain.live = host.domain.live.replace(old, new, 1)


def change_stored(host, old, new):
    assert old in host.domain.stored
    host.domain.stored = host.domain.stored.replace(old, new, 1)


FILTER = "<filterref filter='abox-p'/>"
BRIDGE = "bridge='abx-p'"
TAMPERINGS = {
    "filter-lost-live": (lambda h: change_live(h, FILTER, ""), "update-device"),
    "filter-lost-stored": (lambda h: change_stored(h, FILTER, ""), "define"),
    "bridge-live": (lambda h: change_live(h, BRIDGE, "bridge='br0'"), "update-device"),
    "bridge-stored": (lambda h: change_stored(h, BRIDGE, "bridge='br0'"), "define"),
    "second-interface": (
        lambda h: change_live(h, INTERFACE, INTERFACE + INTERFACE.replace("cd:ef", "cd:ee")),
        "start",
    ),
    "device-live": (
        lambda h: change_live(h, "</devices>", "<hostdev type='pci'/></devices>"),
        "start",
    ),
    "device-stored": (
        lambda h: change_stored(h, "</devices>", "<graphics type='vnc'/></devices>"),
        "define",
    ),
    "memory": (lambda h: change_stored(h, "65536", "131072"), "define"),
    "paused": (lambda h: setattr(h.domain, "state", "paused"), "resume"),
    "off": (lambda h: setattr(h.domain, "state", "shut off"), "start"),
    "unconfined": (lambda h: setattr(h.libvirt, "confined", False), "start"),
    "tap-rules-gone": (lambda h: setattr(h.libvirt, "rules", ""), "nwfilter-define"),
    "tap-rule-added": (
        lambda h: setattr(h.libvirt, "rules", "-A FI-vnet0 -j RETURN\n" + kernel_rules("vnet0")),
        "nwfilter-define",
    ),
    "off-its-bridge": (lambda h: setattr(h.libvirt, "bridge", ""), "set_bridge"),
    "record-lost": (lambda h: h.records.forget("p", "vm"), ""),
}


@pytest.mark.parametrize("name", sorted(TAMPERINGS))
def test_every_tampering_is_told_and_repaired(host, name):
    tamper, repaired_by = TAMPERINGS[name]
    tamper(host)
    assert host.findings()
    assert host.posture.drift(host.posture.read("p", host.state), INPUTS)
    did = host.repair()
    assert repaired_by in [*did, ""]
    assert host.findings() == []


@pytest.mark.parametrize("name", ["filter-lost-live", "bridge-live", "tap-rules-gone", "memory"])
def test_what_can_be_repaired_live_does_not_restart_the_vm(host, name):
    TAMPERINGS[name][0](host)
    assert not {"destroy", "start"} & set(host.repair())


def test_a_repair_that_does_not_hold_is_an_error(host):
    host.libvirt._define = lambda *_: None
    change_stored(host, FILTER, "")
    with pytest.raises(HostError, match="isn't what was asked"):
        host.repair()


def test_a_new_domain_that_is_not_hardened_is_refused(tmp_path, host):
    host.domain.stored = host.domain.live = domain_xml(UUID).replace(FILTER, "")
    with pytest.raises(HostError, match="filterref"):
        host.posture.create(INPUTS)


def test_a_domain_whose_tap_is_open_is_refused(host):
    host.libvirt.rules = ""
    with pytest.raises(HostError, match="drop"):
        host.posture.create(INPUTS)


def test_a_template_is_compared_with_what_it_was(host):
    host.domain.stored = host.domain.live = domain_xml(UUID).replace("<acpi/>", "")
    inputs = {**INPUTS, "hardened": {}}
    state = {**inputs, **host.posture.create(inputs)[1]}
    assert host.posture.read("p", state)["findings"] == []
    change_stored(host, FILTER, "")
    assert host.posture.read("p", state)["findings"]


def test_a_domain_that_is_gone_is_told(host):
    del host.libvirt.domains[UUID]
    assert host.findings() == ["the domain is gone"]


def test_a_lost_connection_is_not_taken_for_a_lost_domain(host):
    host.libvirt.failure = HostError(what="virsh failed", why="no daemon", remedy="start it")
    with pytest.raises(HostError, match="no daemon"):
        host.findings()


# --- the generation ----------------------------------------------------------------------------


def test_a_stray_that_nobody_recorded_counts_the_generation_up(host):
    host.records.forget("p", "vm")
    read = host.generation.read("p", {"sandbox": "p", "generation": "1"})
    assert read["strays"] == [UUID]
    assert read["damage"]
    assert host.generation.planned({"sandbox": "p"}, read)["generation"] == "2"
    assert host.generation.update("p", read, {"sandbox": "p"})["generation"] == "2"
    assert host.domain.state == "shut off"  # its disks are free; its removal is others' matter


def test_a_stray_beside_the_recorded_domain_ends_and_the_domain_stays(host):
    host.libvirt.domains[OTHER] = FakeDomain(domain_xml(OTHER))
    read = host.generation.read("p", {"sandbox": "p", "generation": "1"})
    assert (read["strays"], read["damage"]) == ([OTHER], [])
    assert host.generation.update("p", read, {"sandbox": "p"})["generation"] == "1"
    assert host.libvirt.domains[OTHER].state == "shut off"
    assert host.domain.state == "running"
    host.posture.create(INPUTS)
    assert list(host.libvirt.domains) == [UUID]


def test_domains_of_other_sandboxes_are_left_alone(host):
    host.libvirt.domains[OTHER] = FakeDomain(domain_xml(OTHER, sandbox="q"))
    assert host.generation.read("p", {"sandbox": "p", "generation": "1"})["strays"] == []
    host.generation.delete("p", {"sandbox": "p"})
    assert list(host.libvirt.domains) == [OTHER]


def test_a_paused_machine_goes_on_before_the_plugin_looks_at_it(host):
    host.domain.state = "paused"
    read = host.generation.read("p", {"sandbox": "p", "generation": "1"})
    assert read["suspended"] == [UUID]
    host.generation.update("p", read, {"sandbox": "p"})
    assert host.domain.state == "running"


def test_records_of_a_domain_do_not_meet_those_of_a_container(host):
    host.records.keep("p", "agent", Record("container", {}))
    record = host.records.find("p", "vm")
    assert record is not None
    assert record.container == UUID
