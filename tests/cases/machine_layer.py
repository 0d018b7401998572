"""Runs cases about the definition of a VM: its XML, its packet filter, its first boot."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from ipaddress import IPv4Address, IPv4Interface
from typing import Any
from xml.etree import ElementTree

import yaml

from abox.errors import AboxError
from abox.naming import bridge_name, default_mac, filter_name, link_filter_name
from abox.render.cloud_init import GuestSpec, render_seed
from abox.render.domain import DomainSpec, render_stylesheet
from abox.render.nwfilter import FilterSpec, Rule, filter_rules, link_rules
from abox.render.volume import render_overlay_stylesheet
from abox.settings import Settings, parse_settings
from abox.vm_settings import split_image
from tests.cases import mapping
from tests.cases.model import Case
from tests.cases.settings_layer import DEFAULT_NAME
from tests.plugin_domain import plugins_domain, transformed

HOST, GATEWAY, AGENT = (f"10.10.7.{number}" for number in (1, 2, 10))
"""Addresses of a sandbox that stands nowhere."""


class Definition:
    """What a VM with these settings would be made of."""

    def __init__(self, settings: Settings) -> None:
        self._settings, self._name = settings, settings.sandbox
        self._mac = settings.vm.mac or default_mac(self._name)
        self.filter = FilterSpec(
            name=filter_name(self._name),
            link=link_filter_name(self._name),
            mac=self._mac,
            agent=IPv4Address(AGENT),
            gateway=IPv4Address(GATEWAY),
            host=IPv4Address(HOST),
            proxy_port=settings.proxy_port,
        )

    def domain(self) -> ElementTree.Element:
        """The domain as libvirt gets it."""
        plugins = plugins_domain(name=self._name, bridge=bridge_name(self._name), mac=self._mac)
        sheet = render_stylesheet(DomainSpec(sandbox=self._name, filter=self.filter.name))
        return ElementTree.fromstring(transformed(sheet, plugins))

    def image(self) -> str:
        """The image's path as it is read back from the XML of the root disk."""
        path, _ = split_image(self._settings.vm.image)
        sheet = ElementTree.fromstring(render_overlay_stylesheet(path, "qcow2"))
        return next(sheet.iter("backingStore")).findtext("path", "")

    def seed(self) -> dict[str, str]:
        """cloud-init's documents."""
        return render_seed(
            GuestSpec(
                sandbox=self._name,
                user=self._settings.vm.user,
                authorized_keys=(),
                host_key="private",
                host_key_public="public",
                mac=self._mac,
                address=IPv4Interface(f"{AGENT}/24"),
                gateway=GATEWAY,
                proxy_url=f"http://{GATEWAY}:{self._settings.proxy_port}",
                ca_certificate="certificate",
            )
        )

    def passes(self, packet: Mapping[str, Any]) -> bool:
        """Whether both filters let a packet that begins a conversation through."""
        sides = (filter_rules(self.filter), link_rules(self.filter))
        return all(_verdict(rules, packet) == "accept" for rules in sides)


def _verdict(rules: Iterable[Rule], packet: Mapping[str, Any]) -> str:
    """Action of the first rule that matches."""
    return next((rule.action for rule in rules if _matches(rule, packet)), "accept")


def _matches(rule: Rule, packet: Mapping[str, Any]) -> bool:
    going_out = packet["dir"] == "out"
    facts = {
        "state": "NEW",
        "protocol": str(packet["proto"]),
        "srcipaddr": str(packet.get("from", AGENT if going_out else "")),
        "dstipaddr": str(packet.get("to", "" if going_out else AGENT)),
        "srcportstart": str(packet.get("sport", "")),
        "dstportstart": str(packet.get("dport", "")),
    }
    six = ":" in facts["srcipaddr"] or ":" in facts["dstipaddr"]
    kinds = {"mac"} if six else {"mac", "ip", "all", facts["protocol"]}
    wanted = {key: value for key, value in rule.match.items() if key in facts}
    return (
        rule.direction in (packet["dir"], "inout")
        and rule.protocol in kinds
        and all(facts[key] == value for key, value in wanted.items())
    )


def run_machine(case: Case) -> list[str]:
    """What of the case doesn't hold."""
    config = {**case.given, **case.do["config"]}
    config.pop("started_twice", None)
    try:
        settings = parse_settings(
            config.get("name", DEFAULT_NAME), mapping.settings_of_config(config)
        )
    except AboxError as error:
        return [] if case.expect.get("or_config_error") else [str(error).splitlines()[0]]
    definition = Definition(settings)
    expect = _filled(case.expect, settings.proxy_port)
    faults = []
    for key, wanted in expect.items():
        if key in JUDGES:
            faults += [f"{key}: {fault}" for fault in JUDGES[key](definition, wanted)]
        elif key != "or_config_error":
            faults.append(f"{key}: nobody can judge this for a definition")
    return faults


def _filled(value: Any, proxy_port: int) -> Any:
    if isinstance(value, Mapping):
        return {key: _filled(part, proxy_port) for key, part in value.items()}
    if isinstance(value, list):
        return [_filled(part, proxy_port) for part in value]
    places = {"{gateway}": GATEWAY, "{bridge_ip}": HOST, "{proxy_port}": proxy_port}
    return places.get(value, value) if isinstance(value, str) else value


def _xml_has(definition: Definition, wanted: Any) -> list[str]:
    domain = definition.domain()
    return [f"no {each['path']}" for each in wanted if domain.find(each["path"]) is None]


def _accepts(definition: Definition, wanted: Any) -> list[str]:
    return [f"{packet} is dropped" for packet in wanted if not definition.passes(packet)]


def _refuses(definition: Definition, wanted: Any) -> list[str]:
    return [f"{packet} passes" for packet in wanted if definition.passes(packet)]


def _round_trip(definition: Definition, wanted: Any) -> list[str]:
    if wanted != "image":
        return [f"nobody can judge {wanted}"]
    return [] if definition.image() else ["it is not in the XML"]


def _cloud_init(definition: Definition, wanted: Any) -> list[str]:
    network = yaml.safe_load(definition.seed()["network-config"])["ethernets"]["eth0"]
    found = {
        "dhcp": network["dhcp4"] or network["dhcp6"],
        "nameservers": network["nameservers"]["addresses"],
        "search": network["nameservers"]["search"],
        "instance_id_stable": definition.seed() == definition.seed(),
    }
    return [f"{key} is {found.get(key)}" for key in wanted if found.get(key) != wanted[key]]


JUDGES: Mapping[str, Callable[[Definition, Any], list[str]]] = {
    "xml_has": _xml_has,
    "filter_accepts": _accepts,
    "filter_refuses": _refuses,
    "xml_round_trip": _round_trip,
    "cloud_init": _cloud_init,
}
