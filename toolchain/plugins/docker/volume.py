"""`docker:index/volume:Volume`: named by its id, never changed in place."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from typing_extensions import override

from toolchain.plugins.bridge.fields import LABEL, Kind, mapping, objects, output, text
from toolchain.plugins.bridge.resource import Resource, ResourceError, ResourceKind, values
from toolchain.plugins.docker.engine_api import Engine, EngineError
from toolchain.plugins.docker.labels import labels_of, labels_to_map
from toolchain.plugins.docker.network import HTTP_NOT_FOUND
from toolchain.plugins.wire_values import Properties, Value

REMOVAL_S: Final = 30.0
"""How long a volume that is still in use is waited for."""

RETRY_S: Final = 0.5

KIND: Final = ResourceKind(
    token="docker:index/volume:Volume",  # noqa: S106 -- a type token, no password
    schema_version=1,
    fields={
        "name": text(computed=True, autonamed=True),
        "labels": objects(Kind.SET, LABEL),
        "driver": text(computed=True),
        "driverOpts": mapping(),
        "mountpoint": output(),
        "cluster": objects(Kind.LIST, {}, replaces=False, single=True, implemented=False),
    },
)


@dataclass(frozen=True)
class Volume(Resource):
    """Volumes of one engine."""

    engine: Engine

    @override
    def create(self, wanted: Mapping[str, Value]) -> str:
        """Make the volume; one of the same name is taken over, as Docker does."""
        body = {
            "Name": values(wanted, "name") or "",
            "Driver": values(wanted, "driver") or "",
            "DriverOpts": values(wanted, "driverOpts") or {},
            "Labels": labels_to_map(values(wanted, "labels")),
        }
        try:
            made = self.engine.post("/volumes/create", body)
        except ResourceError as error:
            raise ResourceError(f"Unable to create volume: {error}") from error
        return str(made["Name"])

    @override
    def read(self, identity: str, state: Mapping[str, Value]) -> tuple[str, Properties] | None:
        """The live volume."""
        try:
            found = self.engine.get(f"/volumes/{quote(identity, safe='')}")
        except EngineError as error:
            if error.status == HTTP_NOT_FOUND:
                return None
            raise ResourceError(f"Unable to inspect volume: {error}") from error
        live = {
            "name": found["Name"],
            "labels": labels_of(found.get("Labels")),
            "driver": found["Driver"],
            "driverOpts": found.get("Options") or {},
            "mountpoint": found["Mountpoint"],
        }
        return identity, {**state, **live}

    @override
    def update(
        self, identity: str, prior: Mapping[str, Value], planned: Mapping[str, Value]
    ) -> Properties:
        """Nothing can be changed in place, so nothing has to be done."""
        return dict(planned)

    @override
    def delete(self, identity: str, state: Mapping[str, Value]) -> None:
        """Remove it; containers that are about to go are waited for."""
        deadline = time.monotonic() + REMOVAL_S
        while True:
            try:
                self.engine.delete(f"/volumes/{quote(identity, safe='')}", force=True)
            except EngineError as error:
                if not error.says("volume is in use"):
                    raise
                if time.monotonic() > deadline:
                    raise ResourceError(
                        "timeout while waiting for state to become 'removed' "
                        f"(last state: 'in_use', timeout: {REMOVAL_S:.0f}s)"
                    ) from error
                time.sleep(RETRY_S)
            else:
                return
