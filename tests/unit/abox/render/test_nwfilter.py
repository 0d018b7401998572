"""The nwfilters: the list rule by rule, exact text, nothing that a value can add."""

from dataclasses import replace
from ipaddress import IPv4Address
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from abox.render.nwfilter import (
    FilterSpec,
    filter_uuid,
    normal_form,
    render_filter,
    render_link_filter,
)

SPEC = FilterSpec(
    name="abox-dev",
    link="abox-dev.link",
    mac="52:54:00:AB:CD:EF",
    agent=IPv4Address("10.10.3.10"),
    gateway=IPv4Address("10.10.3.2"),
    host=IPv4Address("10.10.3.1"),
    proxy_port=8080,
)

EXPECTED = f"""\
<filter name="abox-dev" chain="root">
  <uuid>{filter_uuid("abox-dev")}</uuid>
  <filterref filter="abox-dev.link" />
  <rule action="accept" direction="in" priority="100">
    <all state="ESTABLISHED,RELATED" />
  </rule>
  <rule action="accept" direction="out" priority="110">
    <all state="ESTABLISHED,RELATED" />
  </rule>
  <rule action="accept" direction="in" priority="120">
    <tcp state="NEW" dstportstart="22" />
  </rule>
  <rule action="accept" direction="out" priority="130">
    <udp state="NEW" dstipaddr="10.10.3.2" dstportstart="53" />
  </rule>
  <rule action="accept" direction="out" priority="140">
    <tcp state="NEW" dstipaddr="10.10.3.2" dstportstart="8080" />
  </rule>
  <rule action="accept" direction="out" priority="150">
    <icmp state="NEW" dstipaddr="10.10.3.2" />
  </rule>
  <rule action="drop" direction="in" priority="160">
    <all />
  </rule>
  <rule action="drop" direction="out" priority="170">
    <all />
  </rule>
</filter>
"""

FRAMES = [
    "chain root",
    "accept out arp arpdstipaddr=10.10.3.2 arpsrcipaddr=10.10.3.10 "
    "arpsrcmacaddr=52:54:00:ab:cd:ef srcmacaddr=52:54:00:ab:cd:ef",
    "accept in arp arpdstipaddr=10.10.3.10 arpsrcipaddr=10.10.3.2",
    "accept out arp arpdstipaddr=10.10.3.1 arpsrcipaddr=10.10.3.10 "
    "arpsrcmacaddr=52:54:00:ab:cd:ef srcmacaddr=52:54:00:ab:cd:ef",
    "accept in arp arpdstipaddr=10.10.3.10 arpsrcipaddr=10.10.3.1",
    "accept out ip dstipaddr=10.10.3.2 dstportstart=53 protocol=udp srcipaddr=10.10.3.10 "
    "srcmacaddr=52:54:00:ab:cd:ef",
    "accept in ip dstipaddr=10.10.3.10 protocol=udp srcipaddr=10.10.3.2 srcportstart=53",
    "accept out ip dstipaddr=10.10.3.2 dstportstart=8080 protocol=tcp srcipaddr=10.10.3.10 "
    "srcmacaddr=52:54:00:ab:cd:ef",
    "accept in ip dstipaddr=10.10.3.10 protocol=tcp srcipaddr=10.10.3.2 srcportstart=8080",
    "accept out ip dstipaddr=10.10.3.2 protocol=icmp srcipaddr=10.10.3.10 "
    "srcmacaddr=52:54:00:ab:cd:ef",
    "accept in ip dstipaddr=10.10.3.10 protocol=icmp srcipaddr=10.10.3.2",
    "accept out ip dstipaddr=10.10.3.1 protocol=tcp srcipaddr=10.10.3.10 "
    "srcmacaddr=52:54:00:ab:cd:ef srcportstart=22",
    "accept in ip dstipaddr=10.10.3.10 dstportstart=22 protocol=tcp srcipaddr=10.10.3.1",
    "drop inout mac",
]


def altered(field: str, value: Any) -> FilterSpec:
    change: dict[str, Any] = {field: value}
    return replace(SPEC, **change)


def test_the_filter_is_the_list_rule_by_rule() -> None:
    assert render_filter(SPEC) == EXPECTED


def test_frames_are_judged_by_true_addresses_and_the_same_conversations() -> None:
    assert normal_form(render_link_filter(SPEC)) == FRAMES


def test_an_id_belongs_to_a_name_for_good() -> None:
    assert filter_uuid("abox-dev") == filter_uuid("abox-dev") != filter_uuid("abox-dev.link")


@pytest.mark.parametrize("port", [0, 65536, -1, True, "80", 80.0, None])
def test_a_port_outside_its_range_is_refused(port: Any) -> None:
    with pytest.raises(ValueError, match="port"):
        replace(SPEC, proxy_port=port)


@pytest.mark.parametrize("field", ["agent", "gateway", "host"])
def test_addresses_are_typed(field: str) -> None:
    with pytest.raises(TypeError, match="IPv4"):
        altered(field, "10.10.3.9")


def test_roles_are_different() -> None:
    with pytest.raises(ValueError, match="different"):
        replace(SPEC, host=SPEC.gateway)
    with pytest.raises(ValueError, match="different"):
        replace(SPEC, link=SPEC.name)


HOSTILE = st.text(alphabet="<>'\"&$ \n\0/-=abox:0.é{}", max_size=24)


@given(HOSTILE, st.sampled_from(["name", "link", "mac"]))
def test_no_value_adds_to_the_xml(value: str, field: str) -> None:
    try:
        spec = altered(field, value)
    except ValueError:
        return
    for text in (render_filter(spec), render_link_filter(spec)):
        assert len(list(ElementTree.fromstring(text).iter("rule"))) in (8, 13)


@pytest.mark.parametrize(
    "value", ["52:54:00:AB:CD:EF\n", "52-54-00-AB-CD-EF", "52:54:00:ab:cd", ""]
)
def test_a_near_miss_of_a_hardware_address_is_refused(value: str) -> None:
    with pytest.raises(ValueError, match="must match"):
        replace(SPEC, mac=value)


def test_equal_specs_give_equal_bytes() -> None:
    assert render_filter(SPEC) == render_filter(replace(SPEC))


REORDERED = (
    "<filter name='x'><rule action='drop' direction='in' priority='9'><all/></rule>"
    "<rule action='accept' direction='in' priority='1'><all/></rule></filter>"
)


def test_the_normal_form_is_in_the_order_of_judgement() -> None:
    assert normal_form(REORDERED) == ["chain root", "accept in all", "drop in all"]


@pytest.mark.parametrize(
    "change",
    [
        ("drop", "accept"),
        ('direction="out"', 'direction="in"'),
        ('priority="160"', 'priority="1"'),
        ('state="NEW" dstportstart="22"', 'dstportstart="22"'),
        ("10.10.3.2", "10.10.3.3"),
        ('<filterref filter="abox-dev.link" />', ""),
        ('chain="root"', 'chain="root" priority="-1"'),
        ("<all />", "<all />" + "<all-ipv6 />"),
        ('priority="120"', 'priority="120" statematch="0"'),
    ],
    ids=lambda change: change[0][:20],
)
def test_every_change_that_filters_otherwise_has_another_normal_form(
    change: tuple[str, str],
) -> None:
    assert change[0] in EXPECTED
    assert normal_form(EXPECTED.replace(*change, 1)) != normal_form(EXPECTED)


def test_ids_names_and_layout_are_no_difference() -> None:
    other = EXPECTED.replace(filter_uuid("abox-dev"), "other").replace("  ", "\t")
    assert normal_form(other) == normal_form(EXPECTED)


@pytest.mark.parametrize("text", ["", "<rule/>", "<filter>", "no xml"])
def test_what_is_no_filter_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"XML|filter"):
        normal_form(text)
