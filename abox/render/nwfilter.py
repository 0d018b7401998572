"""libvirt's packet filters of a VM: what passes its tap, judged by the kernel, default deny.

Two filters. The first is the list of who may talk to whom, with connection tracking. libvirt makes
iptables rules of it, which see bridged packets only while the kernel's br_netfilter is on, and
never those that the host itself sends. So it refers to a second one, which judges frames: every
sender's hardware and IP address, and once more the same conversations, without their state. libvirt
makes ebtables rules of that, which always apply.

Directions are the VM's: `out` is what it sends. Addresses are written out, because libvirt would
learn a variable `$IP` from the first packet that the VM sends.
"""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass, field
from ipaddress import IPv4Address
from xml.etree import ElementTree

DNS_PORT, SSH_PORT = 53, 22
PORT_MAX = 65535

MAC_PATTERN = "^([0-9A-Fa-f]{2}:){5}[0-9A-Fa-f]{2}$"
"""What a hardware address looks like: six bytes in hex with colons."""

_MAC = re.compile(MAC_PATTERN[1:-1])
_NAME = re.compile(r"[a-zA-Z][a-zA-Z0-9_.-]{0,127}")
_NAMESPACE = uuid.UUID("b3b0f9f4-5d1f-5c0a-9b43-6f2f3b3c7a51")
"""Of the filters' ids: a filter that is defined again must come with the id that it has."""


@dataclass(frozen=True, kw_only=True)
class FilterSpec:
    """What the filters are made of; every field is typed or matched, so that none adds a rule."""

    name: str
    """Of the first filter."""
    link: str
    """Of the second one."""
    mac: str
    """Hardware address of the VM."""
    agent: IPv4Address
    gateway: IPv4Address
    host: IPv4Address
    """The host on the host-only bridge."""
    proxy_port: int
    """TCP port of the forward proxy, 1 to 65535."""

    def __post_init__(self) -> None:
        for name in (self.name, self.link):
            if not _NAME.fullmatch(name):
                raise ValueError(f"{name!r}: letters, digits, '.', '-' and '_' only")
        if not _MAC.fullmatch(self.mac):
            raise ValueError(f"{self.mac!r}: must match {MAC_PATTERN}")
        port = self.proxy_port
        if isinstance(port, bool) or not isinstance(port, int) or not 1 <= port <= PORT_MAX:
            raise ValueError(f"port {port!r}: must be 1 to {PORT_MAX}")
        members = (self.agent, self.gateway, self.host)
        if not all(isinstance(member, IPv4Address) for member in members):
            raise TypeError(f"{members}: not IPv4 addresses")
        if len({*members, *map(str, (self.name, self.link))}) < 5:
            raise ValueError("agent, gateway and host are different, and so are the filters")


@dataclass(frozen=True)
class Rule:
    """One rule of a filter."""

    action: str
    """accept or drop."""
    direction: str
    """in, out or inout, as the VM sees it."""
    protocol: str
    """Element of libvirt: all, tcp, udp, icmp, mac, arp, ip."""
    match: dict[str, str] = field(default_factory=dict)


def filter_rules(spec: FilterSpec) -> tuple[Rule, ...]:
    """Who may talk to whom, in the order of judgement; the last two refuse the rest."""
    gateway, new = str(spec.gateway), "NEW"
    known = {"state": "ESTABLISHED,RELATED"}
    return (
        Rule("accept", "in", "all", known),
        Rule("accept", "out", "all", known),
        Rule("accept", "in", "tcp", {"state": new, "dstportstart": str(SSH_PORT)}),
        Rule("accept", "out", "udp", _to(gateway, DNS_PORT)),
        Rule("accept", "out", "tcp", _to(gateway, spec.proxy_port)),
        Rule("accept", "out", "icmp", {"state": new, "dstipaddr": gateway}),
        Rule("drop", "in", "all"),
        Rule("drop", "out", "all"),
    )


def _to(gateway: str, port: int) -> dict[str, str]:
    return {"state": "NEW", "dstipaddr": gateway, "dstportstart": str(port)}


def link_rules(spec: FilterSpec) -> tuple[Rule, ...]:
    """Frames that may pass, each with its sender's true addresses; no IPv6, no DHCP, no VLAN."""
    agent, gateway, host = str(spec.agent), str(spec.gateway), str(spec.host)
    mac = spec.mac.lower()
    asks = {"srcmacaddr": mac, "arpsrcmacaddr": mac, "arpsrcipaddr": agent}
    sends = {"srcmacaddr": mac, "srcipaddr": agent}
    conversations = (
        (gateway, "udp", "gateway", DNS_PORT),
        (gateway, "tcp", "gateway", spec.proxy_port),
        (gateway, "icmp", "", 0),
        (host, "tcp", "agent", SSH_PORT),
    )
    rules = []
    for peer in (gateway, host):
        rules.append(Rule("accept", "out", "arp", {**asks, "arpdstipaddr": peer}))
        rules.append(Rule("accept", "in", "arp", {"arpsrcipaddr": peer, "arpdstipaddr": agent}))
    for peer, protocol, server, port in conversations:
        there = {**sends, "dstipaddr": peer, "protocol": protocol}
        back = {"srcipaddr": peer, "dstipaddr": agent, "protocol": protocol}
        if port:
            there["srcportstart" if server == "agent" else "dstportstart"] = str(port)
            back["dstportstart" if server == "agent" else "srcportstart"] = str(port)
        rules.append(Rule("accept", "out", "ip", there))
        rules.append(Rule("accept", "in", "ip", back))
    rules.append(Rule("drop", "inout", "mac"))
    return tuple(rules)


def render_filter(spec: FilterSpec) -> str:
    """The first filter as libvirt's XML; equal specs give equal text."""
    return _render(spec.name, filter_rules(spec), spec.link)


def render_link_filter(spec: FilterSpec) -> str:
    """The second filter, which must be defined before the first."""
    return _render(spec.link, link_rules(spec))


FIRST_PRIORITY, PRIORITY_STEP = 100, 10
"""libvirt sorts by priority, lowest first; the steps leave the order in no doubt."""


def _render(name: str, rules: tuple[Rule, ...], refers_to: str = "") -> str:
    root = ElementTree.Element("filter", name=name, chain="root")
    ElementTree.SubElement(root, "uuid").text = filter_uuid(name)
    if refers_to:
        ElementTree.SubElement(root, "filterref", filter=refers_to)
    for number, rule in enumerate(rules):
        priority = str(FIRST_PRIORITY + number * PRIORITY_STEP)
        element = ElementTree.SubElement(
            root, "rule", action=rule.action, direction=rule.direction, priority=priority
        )
        ElementTree.SubElement(element, rule.protocol, rule.match)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode") + "\n"


def filter_uuid(name: str) -> str:
    """The id that a filter of this name has on every host."""
    return str(uuid.uuid5(_NAMESPACE, name))


def with_uuid(text: str, found: str) -> str:
    """The filter under the id that one of its name has already."""
    root = _parse(text)
    for element in root.findall("uuid"):
        element.text = found
    return ElementTree.tostring(root, encoding="unicode") + "\n"


def reordered(text: str) -> str:
    """The same filter under other priorities: for libvirt a change, for packets none."""
    root = _parse(text)
    for rule in root.iter("rule"):
        rule.set("priority", str(_priority(rule) + 1))
    return ElementTree.tostring(root, encoding="unicode") + "\n"


def normal_form(text: str) -> list[str]:
    """The normal form of a filter, one line a part, in the order in which libvirt judges.

    Two texts with equal normal forms filter alike: libvirt's dump of a filter and the text that
    it was defined from, for example. Names and ids aren't part of it.

    Args:
        text: XML of a filter, from the renderer or from libvirt's dump of it.
    Raises: ValueError if it is no filter.
    """
    root = _parse(text)
    head = [f"chain {root.get('chain', 'root')} {root.get('priority', '')}".rstrip()]
    parts = [part for part in root if part.tag != "uuid"]
    rules = sorted((part for part in parts if part.tag == "rule"), key=_priority)
    others = [_line(part) for part in parts if part.tag != "rule"]
    return head + others + [_rule_line(rule) for rule in rules]


def _parse(text: str) -> ElementTree.Element:
    try:
        # libvirt's own dump or our own rendering: the parser meets no hostile document.
        root = ElementTree.fromstring(text)  # noqa: S314
    except ElementTree.ParseError as error:
        raise ValueError(f"it is no XML: {error}") from error
    if root.tag != "filter":
        raise ValueError(f"a {root.tag} is no filter")
    return root


def _priority(rule: ElementTree.Element) -> int:
    return int(rule.get("priority", "500"))


def _rule_line(rule: ElementTree.Element) -> str:
    words = [rule.get("action", ""), rule.get("direction", "")]
    if rule.get("statematch"):
        words.append(f"statematch={rule.get('statematch')}")
    return " ".join([*words, *(_line(match) for match in rule)])


def _line(element: ElementTree.Element) -> str:
    attributes = [f"{name}={value}" for name, value in sorted(element.attrib.items())]
    return " ".join([element.tag, *attributes, *(f"({_line(child)})" for child in element)])
