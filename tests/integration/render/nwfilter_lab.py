"""libvirt of its own in the lab's host, so that its packet filters are tried without a VM.

libvirt binds a filter to any port of a bridge. Here it is the port of the lab's agent, which is as
strong as a VM's root: every frame that it can make meets the rules that a tap would have. The
lab's libvirt has its own state and its own network namespace, and ends with the lab.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from abox.render.nwfilter import FilterSpec, render_filter, render_link_filter
from tests import host
from tests.integration.render import frames
from tests.integration.render.firewall_lab import SPEC as TABLE
from tests.integration.render.firewall_lab import Lab, laboratory
from toolchain.hypervisor import WITHOUT_KVM

SPEC = FilterSpec(
    name="abox-one",
    link="abox-one.link",
    mac="52:54:00:00:00:00",
    agent=TABLE.agent,
    gateway=TABLE.gateway,
    host=TABLE.host,
    proxy_port=TABLE.proxy_port,
)
"""The filters of the lab's sandbox; the agent's hardware address is known when the lab stands."""

FOLDERS = ("/run", "/etc/libvirt", "/var/lib/libvirt", "/var/log/libvirt", "/var/cache/libvirt")
"""What libvirt would share with the machine's own."""

OWNER = "d54df46f-1ab5-4a22-8618-4560ef5fac2c"
START_S = 60
READY = "/run/abxt-lab"
"""Stands where the lab's libvirt keeps its sockets."""


@dataclass
class FilteredLab:
    """The lab, and the libvirt on its host."""

    lab: Lab
    libvirt: host.Process[bytes]
    spec: FilterSpec
    port: str
    """The agent's port on the bridge."""

    def virsh(self, *args: str, text: str = "", check: bool = True) -> host.Completed:
        """Ask the lab's libvirt."""
        inside = ["nsenter", f"--target={self.libvirt.pid}", "--mount", "--net", "--"]
        return host.run([*inside, "virsh", "-q", *args], text=text, check=check)

    def own(self) -> bool:
        """Whether it has its own folders; before that virsh would reach the machine's libvirt."""
        inside = ["nsenter", f"--target={self.libvirt.pid}", "--mount", "--"]
        return host.run([*inside, "test", "-e", READY], check=False).code == 0

    def define(self, xml: str) -> None:
        """Define a filter, or replace it live."""
        self.virsh("nwfilter-define", "/dev/stdin", text=xml)

    def bind(self) -> None:
        """Define both filters and put them on the agent's port."""
        self.define(render_link_filter(self.spec))
        self.define(render_filter(self.spec))
        self.virsh("nwfilter-binding-create", "/dev/stdin", text=self._binding())

    def _binding(self) -> str:
        return (
            f"<filterbinding><owner><name>one</name><uuid>{OWNER}</uuid></owner>"
            f"<portdev name='{self.port}'/><mac address='{self.spec.mac}'/>"
            f"<filterref filter='{self.spec.name}'/></filterbinding>"
        )

    @property
    def bridge(self) -> str:
        """The sandbox's bridge."""
        return TABLE.bridge

    def mac_of(self, role: str, device: str) -> str:
        """Hardware address of a device."""
        shown = json.loads(self.lab.inside(role, "ip", "-j", "link", "show", device).stdout)
        return str(shown[0]["address"])

    def program(self, role: str, *args: str) -> host.Process[bytes]:
        """Start `frames` as a program in a namespace; it ends when its input closes."""
        inside = ["ip", "netns", "exec", self.lab.namespace(role)]
        return host.spawn([*inside, *frames.PROGRAM, *args])

    def packet_rules(self) -> str:
        """What `iptables-save` and `ebtables-save` print on the lab's host."""
        saved = self.lab.inside("host", "iptables-save", "-t", "filter").stdout
        return saved + self.lab.inside("host", "ebtables-save").stdout

    def bridge_of_port(self, port: str) -> str:
        """Name of the bridge that an interface of the lab's host is a port of."""
        shown = self.lab.inside("host", "ip", "-j", "link", "show", port, check=False).stdout
        return str(json.loads(shown or "[{}]")[0].get("master", ""))

    def set_bridge(self, port: str, bridge: str) -> None:
        """Make an interface of the lab's host a port of a bridge."""
        self.lab.inside("host", "ip", "link", "set", port, "master", bridge)

    def is_confined(self, machine: str) -> bool:
        """Whether the QEMU process of a machine has a system call filter."""
        inside = ["nsenter", f"--target={self.libvirt.pid}", "--mount", "--"]
        pid = host.run([*inside, "cat", f"/run/libvirt/qemu/{machine}.pid"]).stdout.strip()
        return "Seccomp:\t2" in Path(f"/proc/{pid}/status").read_text()

    def unfilter(self) -> None:
        """Take the filters off the port."""
        self.virsh("nwfilter-binding-delete", self.port)


@contextmanager
def filtered_laboratory(*, tables: bool) -> Iterator[FilteredLab]:
    """The lab with the filters on its agent's port.

    Args:
        tables: whether the sandbox's nftables tables stand as well; without them only libvirt's
            rules can refuse anything.
    """
    with laboratory() as lab:
        if tables:
            lab.load(TABLE)
        mounts = "".join(f"mkdir -p {f}; mount -t tmpfs none {f}; " for f in FOLDERS)
        # virtlogd keeps the output of QEMU; it ends with the mounts that it writes to.
        daemons = "virtlogd & libvirtd & trap 'kill %1 %2' TERM; wait"
        start = f"{mounts} touch {READY}; {daemons}"
        libvirt = host.spawn(
            [
                *("ip", "netns", "exec", lab.namespace("host")),
                # A KVM that doesn't work would be tried anew at every call.
                *("unshare", "--mount", "sh", "-euc", WITHOUT_KVM, "lab", f"/run/{lab.prefix}-dev"),
                *("bash", "-ec", start),
            ]
        )
        try:
            agent = json.loads(lab.inside("agent", "ip", "-j", "link", "show", "eth0").stdout)[0]
            port = _port(lab, int(agent["link_index"]))
            spec = replace(SPEC, mac=agent["address"])
            filtered = FilteredLab(lab, libvirt, spec, port)
            host.wait_until(
                lambda: filtered.own() and filtered.virsh("nwfilter-list", check=False).code == 0,
                timeout_s=START_S,
                describe=lambda: f"libvirtd {libvirt.poll()}",
            )
            filtered.bind()
            yield filtered
        finally:
            libvirt.terminate()
            host.end(libvirt)


def _port(lab: Lab, index: int) -> str:
    links = json.loads(lab.inside("host", "ip", "-j", "link", "show").stdout)
    return next(str(link["ifname"]) for link in links if link["ifindex"] == index)
