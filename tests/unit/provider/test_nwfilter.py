"""NwFilter: what libvirt is told, and that a repair is a change without an open moment."""

from __future__ import annotations

import pytest

from abox.errors import HostError
from abox.render.nwfilter import normal_form, render_filter, with_uuid
from provider.nwfilter import NwFilter, NwFilterResource
from tests.unit.provider.fake_libvirt import FakeLibvirt
from tests.unit.provider.samples import SPEC

XML = render_filter(SPEC)
OPEN = (
    "<filter name='abox-p' chain='root'><uuid>x</uuid><rule action='accept' direction='in'/>"
    "</filter>"
)


@pytest.fixture
def libvirt(tmp_path):
    return FakeLibvirt(tmp_path)


def test_gone_is_only_what_a_successful_listing_lacks(libvirt):
    assert NwFilter("abox-p", libvirt.virsh).read() is None
    libvirt.failure = HostError(what="virsh failed", why="no daemon", remedy="start it")
    with pytest.raises(HostError, match="no daemon"):
        NwFilter("abox-p", libvirt.virsh).read()


def test_a_name_is_never_taken_for_another_that_begins_like_it(libvirt):
    libvirt.filters["abox-p.link"] = OPEN
    assert NwFilter("abox-p", libvirt.virsh).read() is None


def test_a_filter_with_another_id_is_replaced_under_its_own(libvirt):
    libvirt.filters["abox-p"] = OPEN
    live = NwFilter("abox-p", libvirt.virsh).apply(XML)
    assert "<uuid>x</uuid>" in live
    assert normal_form(live) == normal_form(XML)


def test_a_repair_of_the_kernels_rules_changes_priorities_and_nothing_else(libvirt):
    filtering = NwFilter("abox-p", libvirt.virsh)
    filtering.apply(XML)
    libvirt.calls.clear()
    filtering.apply(XML)
    defined = [call[-1] for call in libvirt.calls if call[0] == "nwfilter-define"]
    assert len(defined) == 2
    assert defined[0] != defined[1]
    assert normal_form(defined[0]) == normal_form(defined[1]) == normal_form(XML)


def test_a_filter_that_is_changed_meanwhile_is_an_error(libvirt):
    class Meddled(FakeLibvirt):
        def _nwfilter_dumpxml(self, _name):
            return OPEN

    with pytest.raises(HostError, match="isn't what was defined"):
        NwFilter("abox-p", Meddled(libvirt.folder).virsh).apply(XML)


def test_drift_is_told_rule_by_rule(libvirt):
    resource = NwFilterResource(libvirt.virsh)
    _, state = resource.create({"filter": "abox-p", "xml": XML})
    assert state["findings"] == []
    libvirt.filters["abox-p"] = with_uuid(OPEN, "x")
    read = resource.read("abox-p", {"filter": "abox-p", "xml": XML})
    assert read is not None
    assert "missing: drop out all" in read["findings"]
    assert "added: accept in" in read["findings"]
    assert resource.drift(read, {}) == {"findings": False}


def test_deleting_what_is_gone_is_no_error(libvirt):
    NwFilterResource(libvirt.virsh).delete("abox-p", {})
    assert [call[0] for call in libvirt.calls] == ["nwfilter-list"]
