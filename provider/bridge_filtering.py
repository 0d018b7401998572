"""The kernel's switch that sends bridged frames through the firewall."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from abox.errors import HostError
from provider.resource import Data, Resource

MODULE = "br_netfilter"

WANTED = {
    "net.bridge.bridge-nf-call-ip6tables": "1",
    "net.bridge.bridge-nf-call-iptables": "1",
}
"""Without these, frames between two ports of a bridge skip the sandbox's table."""


@dataclass(frozen=True)
class BridgeFiltering:
    """The settings of ``WANTED``; reading gives None for one that the kernel lacks."""

    read_setting: Callable[[str], str | None]
    write_setting: Callable[[str, str], None]
    load_module: Callable[[str], None]

    def read(self) -> dict[str, str]:
        """The settings as they are; an absent one is left out."""
        found = {name: self.read_setting(name) for name in WANTED}
        return {name: value for name, value in found.items() if value is not None}

    def apply(self) -> dict[str, str]:
        """Switch bridge filtering on, loading the module where the kernel has it as one."""
        if self.read().keys() != WANTED.keys():
            self.load_module(MODULE)
        for name, value in WANTED.items():
            if self.read_setting(name) != value:
                self.write_setting(name, value)
        live = self.read()
        if live != WANTED:
            raise HostError(
                what=f"bridge filtering can't be switched on: {live or 'settings absent'}",
                why=f"the kernel has no {MODULE}, or refuses the settings",
                remedy=f"use a kernel with {MODULE}; `modprobe {MODULE}` must succeed as root",
            )
        return live


class BridgeFilteringResource(Resource):
    """Adapter of ``BridgeFiltering``; host-wide, so delete leaves it on."""

    type_name = "BridgeFiltering"
    fields = ()
    drift_fields: ClassVar = ("settings",)

    def __init__(self, filtering: BridgeFiltering) -> None:
        self._filtering = filtering

    def drift(self, state: Data, inputs: Data) -> dict[str, bool]:  # noqa: ARG002
        """A setting that is off."""
        return {} if state.get("settings") == WANTED else {"settings": False}

    def planned(self, inputs: Data, old: Data | None) -> Data:  # noqa: ARG002
        """The settings are the same for everybody."""
        return {"settings": dict(WANTED)}

    def create(self, inputs: Data) -> tuple[str, Data]:  # noqa: ARG002
        """Switch it on."""
        return "bridge-filtering", {"settings": self._filtering.apply()}

    def read(self, resource_id: str, state: Data) -> Data:  # noqa: ARG002
        """The settings as they are."""
        return {"settings": self._filtering.read()}

    def update(self, resource_id: str, old: Data, new: Data) -> Data:  # noqa: ARG002
        """Switch it on again."""
        return {"settings": self._filtering.apply()}

    def delete(self, resource_id: str, state: Data) -> None:
        """Nothing: other sandboxes and other tools rely on the setting."""
