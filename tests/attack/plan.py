"""What the attacker knows and when it ends: one JSON object, handed over on its command line."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Plan:
    """An attack. The seed decides every move; only their timing differs between two runs."""

    seed: int
    seconds: float
    gateway: str
    proxy_port: int
    agent: str
    """The attacker's own address."""
    allowed: tuple[str, ...]
    """Names that it may ask for; asking for them goes on all the time."""
    denied: tuple[str, ...]
    """Names of the world that it may not reach."""
    addresses: tuple[str, ...]
    """Addresses worth trying: the host's, other sandboxes', origins', special-purpose ones."""
    raw: bool = False
    """Whether packets are written by hand, which takes root in the agent's namespace."""
    device: str = "eth0"
    mac: str = ""
    """The attacker's own hardware address."""
    next_mac: str = ""
    """Where raw frames go: the gateway's hardware address."""

    def to_text(self) -> str:
        """The plan as one argument."""
        return json.dumps(asdict(self))

    @classmethod
    def from_text(cls, text: str) -> Plan:
        """The plan as it was handed over."""
        given = json.loads(text)
        lists = {name: tuple(given[name]) for name in ("allowed", "denied", "addresses")}
        return cls(**{**given, **lists})
