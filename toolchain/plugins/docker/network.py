"""`docker:index/network:Network`: never changed in place, and read back whole."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from typing_extensions import override

from toolchain.plugins.bridge.fields import LABEL, Kind, flag, mapping, objects, output, text
from toolchain.plugins.bridge.resource import Resource, ResourceError, ResourceKind, values
from toolchain.plugins.docker.engine_api import Engine, EngineError
from toolchain.plugins.docker.labels import labels_of, labels_to_map
from toolchain.plugins.wire_values import Properties, Value

REMOVAL_S: Final = 30.0
"""How long a network that still has members is waited for."""

RETRY_S: Final = 0.5

KIND: Final = ResourceKind(
    token="docker:index/network:Network",  # noqa: S106 -- a type token, no password
    schema_version=1,
    fields={
        "name": text(required=True, autonamed=True),
        "labels": objects(Kind.SET, LABEL),
        "driver": text(computed=True),
        "options": mapping(computed=True),
        "internal": flag(computed=True, replaces=True),
        "attachable": flag(replaces=True),
        "ingress": flag(replaces=True),
        "ipv6": flag(replaces=True),
        "ipamDriver": text(default="default"),
        "ipamOptions": mapping(),
        "ipamConfigs": objects(
            Kind.SET,
            {
                "subnet": text(),
                "ipRange": text(),
                "gateway": text(),
                "auxAddress": mapping(),
            },
            computed=True,
            upstream="ipam_config",
        ),
        "scope": output(),
    },
)


@dataclass(frozen=True)
class Network(Resource):
    """Networks of one engine."""

    engine: Engine

    @override
    def create(self, wanted: Mapping[str, Value]) -> str:
        """Make the network; one of the same name is a conflict."""
        try:
            made = self.engine.post("/networks/create", _creation(wanted))
        except ResourceError as error:
            raise ResourceError(f"Unable to create network: {error}") from error
        return str(made["Id"])

    @override
    def read(self, identity: str, state: Mapping[str, Value]) -> tuple[str, Properties] | None:
        """The live network, found by its id."""
        try:
            found = self.engine.get(f"/networks/{quote(identity)}")
        except EngineError as error:
            # Only the engine's own word is taken for it; the official plugin takes any error so.
            if error.status == HTTP_NOT_FOUND:
                return None
            raise
        return identity, {**state, **_live(found)}

    @override
    def update(
        self, identity: str, prior: Mapping[str, Value], planned: Mapping[str, Value]
    ) -> Properties:
        """Nothing can be changed in place, so nothing has to be done."""
        return dict(planned)

    @override
    def delete(self, identity: str, state: Mapping[str, Value]) -> None:
        """Remove it; members that are about to go are waited for."""
        deadline = time.monotonic() + REMOVAL_S
        while True:
            try:
                self.engine.delete(f"/networks/{quote(identity)}")
            except EngineError as error:
                if error.status == HTTP_NOT_FOUND:
                    return
                if not error.says("has active endpoints"):
                    raise
                if time.monotonic() > deadline:
                    raise ResourceError(
                        "timeout while waiting for state to become 'removed' "
                        f"(last state: 'pending', timeout: {REMOVAL_S:.0f}s)"
                    ) from error
                time.sleep(RETRY_S)
            else:
                return


HTTP_NOT_FOUND: Final = 404


def _creation(wanted: Mapping[str, Value]) -> dict[str, Any]:
    body: dict[str, Any] = {
        "Name": wanted["name"],
        "CheckDuplicate": True,
        "Driver": values(wanted, "driver") or "",
        "Internal": bool(values(wanted, "internal")),
        "Attachable": bool(values(wanted, "attachable")),
        "Ingress": bool(values(wanted, "ingress")),
        "Options": values(wanted, "options") or {},
        "Labels": labels_to_map(values(wanted, "labels")),
        "IPAM": {
            "Driver": values(wanted, "ipamDriver") or "",
            "Options": values(wanted, "ipamOptions") or {},
            "Config": [_ipam(item) for item in values(wanted, "ipamConfigs") or []],
        },
    }
    if values(wanted, "ipv6"):
        body["EnableIPv6"] = True
    return body


def _ipam(item: Mapping[str, Value]) -> dict[str, Any]:
    names = {
        "Subnet": "subnet",
        "IPRange": "ipRange",
        "Gateway": "gateway",
        "AuxiliaryAddresses": "auxAddress",
    }
    return {theirs: item[ours] for theirs, ours in names.items() if values(item, ours)}


def _live(found: Mapping[str, Any]) -> Properties:
    ipam = found.get("IPAM") or {}
    return {
        "name": found["Name"],
        "labels": labels_of(found.get("Labels")),
        "driver": found["Driver"],
        "options": found.get("Options") or {},
        "internal": found["Internal"],
        "attachable": found["Attachable"],
        "ingress": found["Ingress"],
        "ipv6": found["EnableIPv6"],
        "ipamDriver": ipam.get("Driver", ""),
        "ipamOptions": ipam.get("Options") or {},
        "ipamConfigs": [
            {
                "subnet": item.get("Subnet", ""),
                "ipRange": item.get("IPRange", ""),
                "gateway": item.get("Gateway", ""),
                "auxAddress": item.get("AuxiliaryAddresses") or {},
            }
            for item in ipam.get("Config") or []
        ],
        "scope": found["Scope"],
    }
