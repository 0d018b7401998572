"""A host, two sandboxes and a world in network namespaces, to try the rendered table on a kernel.

Nothing of it touches the machine's own network: the lab's host is a namespace as well. The agents
are as strong as can be (root, raw sockets, a default route), so only the table holds them.
"""

from __future__ import annotations

import json
import secrets
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from pathlib import Path

from abox.render.nftables import TableSpec, render_table
from tests import host
from tests.world import cables

SPEC = TableSpec(
    table="abox-one",
    bridge="abx-ona",
    egress_bridge="abx-onae",
    subnet=IPv4Network("10.10.1.0/24"),
    gateway=IPv4Address("10.10.1.2"),
    agent=IPv4Address("10.10.1.10"),
    host=IPv4Address("10.10.1.1"),
    egress_subnet=IPv4Network("10.11.1.0/24"),
    pod_egress=IPv4Address("10.11.1.2"),
    egress_subnet_v6=IPv6Network("fdab:5c1e:7d04:1::/64"),
    pod_egress_v6=IPv6Address("fdab:5c1e:7d04:1::2"),
    proxy_port=8080,
    upstream_dns=(IPv4Address("198.51.100.53"),),
    tcp_ports=(80, 443),
    allow_private_cidrs=(IPv4Network("198.51.100.0/24"), IPv6Network("fd66::/32")),
)
"""The sandbox under test."""

OTHER = replace(
    SPEC,
    table="abox-two",
    bridge="abx-twa",
    egress_bridge="abx-twae",
    subnet=IPv4Network("10.10.2.0/24"),
    gateway=IPv4Address("10.10.2.2"),
    agent=IPv4Address("10.10.2.10"),
    host=IPv4Address("10.10.2.1"),
    egress_subnet=IPv4Network("10.11.2.0/24"),
    pod_egress=IPv4Address("10.11.2.2"),
    egress_subnet_v6=IPv6Network("fdab:5c1e:7d04:2::/64"),
    pod_egress_v6=IPv6Address("fdab:5c1e:7d04:2::2"),
)
"""A second sandbox on the same host."""

HOST_UPLINK = "198.51.100.250"
HOST_UPLINK_V6, WORLD_V6 = "2001:db8:ffff::250", "2001:db8:ffff::251"
WORLD_ADDRESSES = (
    "198.51.100.10/32",
    "198.51.100.53/32",
    "198.51.100.54/32",
    "11.0.0.10/32",
    "10.99.0.5/32",
    "169.254.169.254/32",
    "fd66:0:1::5/128",
    "fd66:0:ffff:ffff:ffff:ffff:ffff:ffff/128",
    "fd66:1::/128",
    "2600::5/128",
)
PORTS = (22, 53, 80, 443, 2222, 8080, 9901)
"""Open everywhere, TCP and UDP, so that only a filter can refuse."""

PEER = Path(__file__).with_name("firewall_peer.py")

COUNTING = """table inet seen {
  chain pre {
    type filter hook prerouting priority -150
    iifname "lo" accept
    ip protocol igmp ip saddr { BRIDGES } ip daddr 224.0.0.22 accept
    ct state new counter
    meta l4proto != { tcp, udp, icmp, ipv6-icmp } counter
  }
}
""".replace("BRIDGES", "10.10.1.1, 10.11.1.1, 10.10.2.1, 10.11.2.1")
"""Beginnings only: the last packets of an earlier attempt may come late.

Nor is counted what a bridge of the lab's host says of itself: that it snoops (RFC 4286), in IGMP
reports at moments of the kernel's choice.
"""


@dataclass
class Lab:
    """The namespaces, by role."""

    prefix: str

    def namespace(self, role: str) -> str:
        """Name of the namespace of host, world, agent, pod or other-agent, other-pod."""
        return f"{self.prefix}-{role}"

    def inside(self, role: str, *args: str, text: str = "", check: bool = True) -> host.Completed:
        """Run a command in a namespace."""
        command = ["ip", "netns", "exec", self.namespace(role), *args]
        return host.run(command, text=text, check=check, timeout_s=20)

    def load(self, *specs: TableSpec) -> None:
        """Put the tables of these sandboxes on the lab's host."""
        for spec in specs:
            self.inside("host", "nft", "-f", "-", text=render_table(spec))

    def unload(self) -> None:
        """Take every rule off the lab's host."""
        self.inside("host", "nft", "flush", "ruleset")

    def probe(
        self, role: str, proto: str, to: str, port: int = 0, *, source: str = "", iface: str = ""
    ) -> str:
        """How an attempt ends: connected, answered, reset, prohibited, silent or sent."""
        args = [sys.executable, str(PEER), "probe", proto, to, str(port), source, iface]
        return self.inside(role, *args).stdout.strip()

    def seen(self, role: str) -> int:
        """Attempts that have arrived in a namespace, from anywhere but itself."""
        listed = json.loads(self.inside(role, "nft", "-j", "list", "table", "inet", "seen").stdout)
        expressions = [
            e for entry in listed["nftables"] for e in entry.get("rule", {}).get("expr", [])
        ]
        return sum(e["counter"]["packets"] for e in expressions if "counter" in e)

    def link_local(self, role: str, device: str) -> str:
        """IPv6 link-local address of a device."""
        shown = json.loads(self.inside(role, "ip", "-j", "-6", "addr", "show", device).stdout)
        return str(shown[0]["addr_info"][0]["local"])


@contextmanager
def laboratory() -> Iterator[Lab]:
    """The lab, without any rule on its host."""
    run = cables.register()  # else another run's sweeper would take the lab for a leftover
    lab = Lab(run.world)
    with ExitStack() as undo:
        undo.callback(cables.unregister, run)
        roles = ("host", "world", "agent", "pod", "other-agent", "other-pod")
        for role in roles:
            host.run(["ip", "netns", "add", lab.namespace(role)])
            undo.callback(host.run, ["ip", "netns", "delete", lab.namespace(role)], check=False)
            lab.inside(role, "ip", "link", "set", "lo", "up")
        _wire(lab)
        for role in roles:
            if role != "host":
                lab.inside(role, "nft", "-f", "-", text=COUNTING)
            undo.callback(host.end, _serve(lab, role))
        yield lab


def _wire(lab: Lab) -> None:
    for name in ("net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1",
                 "net.bridge.bridge-nf-call-iptables=1",
                 "net.bridge.bridge-nf-call-ip6tables=1"):  # fmt: skip
        lab.inside("host", "sysctl", "-qw", name)
    _cable(lab, "uplink", "world", "leg")
    _address(lab, "host", "uplink", f"{HOST_UPLINK}/24")
    _address(lab, "world", "leg", "198.51.100.251/24")
    _address(lab, "host", "uplink", f"{HOST_UPLINK_V6}/64")
    _address(lab, "world", "leg", f"{WORLD_V6}/64")
    for address in WORLD_ADDRESSES:
        _address(lab, "world", "lo", address)
    lab.inside("host", "ip", "route", "add", "default", "via", "198.51.100.251")
    lab.inside("world", "ip", "route", "add", "default", "via", HOST_UPLINK)
    lab.inside("host", "ip", "-6", "route", "add", "default", "via", WORLD_V6)
    lab.inside("world", "ip", "-6", "route", "add", "default", "via", HOST_UPLINK_V6)
    for spec, agent, pod in ((SPEC, "agent", "pod"), (OTHER, "other-agent", "other-pod")):
        _bridge(lab, spec.bridge, f"{spec.host}/24")
        _bridge(lab, spec.egress_bridge, f"{next(spec.egress_subnet.hosts())}/24")
        _member(lab, spec.bridge, agent, "eth0", f"{spec.agent}/24")
        _member(lab, spec.bridge, pod, "eth0", f"{spec.gateway}/24")
        _member(lab, spec.egress_bridge, pod, "eth1", f"{spec.pod_egress}/24")
        gateway_v6 = str(next(spec.egress_subnet_v6.hosts()))
        _address(lab, "host", spec.egress_bridge, f"{gateway_v6}/64")
        _address(lab, pod, "eth1", f"{spec.pod_egress_v6}/64")
        lab.inside(pod, "ip", "-6", "route", "add", "default", "via", gateway_v6)
        lab.inside(agent, "ip", "route", "add", "default", "via", str(spec.host))
        gateway = str(next(spec.egress_subnet.hosts()))
        lab.inside(pod, "ip", "route", "add", "default", "via", gateway)


def _bridge(lab: Lab, name: str, address: str) -> None:
    lab.inside("host", "ip", "link", "add", name, "type", "bridge")
    _address(lab, "host", name, address)


def _member(lab: Lab, bridge: str, role: str, device: str, address: str) -> None:
    port = f"p{secrets.token_hex(4)}"
    _cable(lab, port, role, device)
    lab.inside("host", "ip", "link", "set", port, "master", bridge)
    _address(lab, role, device, address)


def _cable(lab: Lab, at_host: str, role: str, device: str) -> None:
    peer = ["peer", "name", device, "netns", lab.namespace(role)]
    lab.inside("host", "ip", "link", "add", at_host, "type", "veth", *peer)
    lab.inside("host", "ip", "link", "set", at_host, "up")
    lab.inside(role, "ip", "link", "set", device, "up")


def _address(lab: Lab, role: str, device: str, address: str) -> None:
    at_once = ["nodad"] if ":" in address else []
    lab.inside(role, "ip", "addr", "add", address, "dev", device, *at_once)
    lab.inside(role, "ip", "link", "set", device, "up")


def _serve(lab: Lab, role: str) -> host.Process[bytes]:
    ports: Sequence[str] = [str(port) for port in PORTS]
    command = [
        "ip",
        "netns",
        "exec",
        lab.namespace(role),
        sys.executable,
        str(PEER),
        "serve",
        *ports,
    ]
    process = host.spawn(command)
    if process.stdout is None or process.stdout.readline().strip() != b"ready":
        raise RuntimeError(f"no listeners in {role}")
    return process
