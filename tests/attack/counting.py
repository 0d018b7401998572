"""Rules that count, on the host, what a sandbox sends after its own filters: no packet is missed.

They decide nothing. What the pod sends is counted as it enters the egress bridge's way out; what
the agent sends, and what gets to the host itself, after the sandbox's own table has let it pass.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tests import host

COUNTERS = ("allowed", "foreign", "leaked", "to_host", "logins")


@dataclass(frozen=True)
class Counting:
    """A table of counters for one sandbox; a context manager."""

    name: str
    bridge: str
    egress_bridge: str
    resolver: str
    allowed: Mapping[str, Iterable[int]]
    """Addresses that may be reached, and their TCP ports."""
    logins: bool = False
    """Whether the host logs in to the agent: then the answers of that come to the host."""

    def __enter__(self) -> Counting:
        """Begin to count."""
        host.run(["nft", "-f", "-"], text=self._rules())
        return self

    def __exit__(self, *_: object) -> None:
        """Remove the table."""
        host.run(["nft", "delete", "table", "inet", self.name], check=False)

    def _rules(self) -> str:
        places = [f"{self.resolver} . udp . 53", f"{self.resolver} . tcp . 53"]
        places += [f"{a} . tcp . {port}" for a, ports in self.allowed.items() for port in ports]
        known = ", ".join([self.resolver, *self.allowed])
        answers = "tcp sport 22 ct state established ct direction reply counter name logins return"
        logins = f'iifname "{self.bridge}" {answers}' if self.logins else ""
        note = "add @seen { ip saddr . ip daddr . meta l4proto . th dport }"
        return f"""
        table inet {self.name} {{
          {"; ".join(f"counter {name} {{}}" for name in COUNTERS)}
          set places {{
            type ipv4_addr . inet_proto . inet_service; elements = {{ {", ".join(places)} }}
          }}
          set seen {{
            type ipv4_addr . ipv4_addr . inet_proto . inet_service; flags dynamic; size 64;
          }}
          chain sent {{
            ip daddr . meta l4proto . th dport @places counter name allowed return
            ip daddr {{ {known} }} icmp type destination-unreachable counter name allowed return
            counter name foreign {note}
          }}
          chain prerouting {{
            type filter hook prerouting priority -310; policy accept;
            iifname "{self.egress_bridge}" jump sent
          }}
          chain forward {{
            type filter hook forward priority 310; policy accept;
            iifname "{self.bridge}" oifname != "{self.bridge}" counter name leaked {note}
          }}
          chain input {{
            type filter hook input priority 310; policy accept;
            {logins}
            iifname {{ "{self.bridge}", "{self.egress_bridge}" }} counter name to_host {note}
          }}
        }}
        """

    def read(self) -> dict[str, int]:
        """Packets by counter."""
        listed = json.loads(
            host.run(["nft", "-j", "list", "counters", "table", "inet", self.name]).stdout
        )
        counters = [entry["counter"] for entry in listed["nftables"] if "counter" in entry]
        return {counter["name"]: int(counter["packets"]) for counter in counters}

    def seen(self) -> list[str]:
        """Some of the packets that should not be: source, destination, protocol, port."""
        command = ["nft", "-j", "list", "set", "inet", self.name, "seen"]
        listed = json.loads(host.run(command).stdout)["nftables"]
        elements = next(entry["set"] for entry in listed if "set" in entry).get("elem", [])
        return [" ".join(map(str, element["concat"])) for element in elements]

    def reset(self) -> None:
        """Begin at zero."""
        host.run(["nft", "reset", "counters", "table", "inet", self.name])
