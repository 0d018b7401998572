"""Placeholders of the cases, looked up only where a case uses them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from ipaddress import IPv6Address
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from abox.naming import filter_name
from abox.render.paths import CA_DIR, POLICY_DIR
from tests import host
from tests.cases.sandbox import Sandbox
from tests.world.certificates import Authority

MARK = re.compile(r"\{([a-z][a-z0-9_]*)\}")
ADMIN_PORT = 9901
"""Where Envoy's control port usually is. Ours listens on a unix socket: nobody may answer here."""


def link_local(mac: str) -> str:
    """The IPv6 link-local address that a device derives from its hardware address (RFC 4291)."""
    parts = bytes.fromhex(mac.replace(":", ""))
    identity = bytes([parts[0] ^ 2]) + parts[1:3] + b"\xff\xfe" + parts[3:]
    return str(IPv6Address(b"\xfe\x80" + bytes(6) + identity))


def network_name(sandbox: Sandbox) -> str:
    """The sandbox's network, as the engine calls it."""
    networks = sandbox.inspect(sandbox.facts.container("pause"))["NetworkSettings"]["Networks"]
    found = (name for name, leg in networks.items() if leg["IPAddress"] == sandbox.gateway)
    return str(next(found))


def filter_uuid(sandbox: Sandbox) -> str:
    """Identity of the VM's packet filter, which a definition by hand has to name."""
    shown = host.run(
        ["virsh", "-c", "qemu:///system", "nwfilter-dumpxml", filter_name(sandbox.name)]
    )
    return ElementTree.fromstring(shown.stdout).findtext("uuid", "")


def other_host_address(sandbox: Sandbox) -> str:
    """An address of the host that isn't on the sandbox's bridges."""
    listed = host.run(["ip", "-4", "-o", "address", "show", "scope", "global"]).stdout
    found = re.findall(r"^\d+: (\S+)\s+inet ([\d.]+)/", listed, re.MULTILINE)
    mine = [a for device, a in found if not device.startswith(("abx", "br-", "veth"))]
    return mine[0] if mine else sandbox.host_address


class Placeholders:
    """Fills the placeholders of one run of a case."""

    def __init__(
        self, sandbox: Sandbox, folder: Path, other: Callable[[], Sandbox], gateway_role: str
    ) -> None:
        box = sandbox
        self._values: Mapping[str, Callable[[], Any]] = {
            "gateway": lambda: box.gateway,
            "gateway_link_local": lambda: link_local(box.gateway_mac()),
            "gateway_container": lambda: box.facts.container(gateway_role),
            "proxy_port": lambda: box.proxy_port,
            "admin_port": lambda: ADMIN_PORT,
            "envoy_config": lambda: f"{POLICY_DIR}/routes-outer.json",
            "ca_cert": lambda: f"{CA_DIR}/ca.pem",
            "ca_key_line": lambda: box.authority["key"].splitlines()[1],
            "generated_ca": lambda: Authority("abxt foreign authority").pem,
            "agent": lambda: box.agent_address,
            "agent_mac": lambda: box.seat.mac(),
            "agent_container": lambda: box.facts.agent_container,
            "domain": lambda: box.facts.outputs["domain"],
            "nwfilter": lambda: filter_name(box.name),
            "nwfilter_uuid": lambda: filter_uuid(box),
            "network": lambda: network_name(box),
            "sandbox_network": lambda: network_name(box),
            "subnet": lambda: str(box.subnet),
            "unused_ip": lambda: str(box.subnet[200]),
            "bridge": lambda: box.bridge,
            "bridge_ip": lambda: box.host_address,
            "host_lan": lambda: other_host_address(box),
            "nft_table": lambda: box.table,
            "nft_chain": lambda: "forward",
            "other_gateway": lambda: other().gateway,
            "other_agent": lambda: other().agent_address,
            "tmp": lambda: str(folder),
        }

    def fill(self, value: Any) -> Any:
        """`value` with every known placeholder filled in; a text that is only one keeps its type.

        Other braces, and placeholders that change from one repetition to the next, stay.
        """
        if isinstance(value, str):
            whole = MARK.fullmatch(value)
            if whole and whole.group(1) in self._values:
                return self._values[whole.group(1)]()
            return MARK.sub(self._text, value)
        if isinstance(value, dict):
            return {self.fill(k): self.fill(v) for k, v in value.items()}
        if isinstance(value, list):
            return [self.fill(part) for part in value]
        return value

    def _text(self, found: re.Match[str]) -> str:
        known = self._values.get(found.group(1))
        return str(known()) if known else found.group(0)
