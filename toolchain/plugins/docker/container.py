"""`docker:index/container:Container`: made, started, read, changed in place, taken away."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from typing_extensions import override

from toolchain.plugins.bridge.resource import (
    HalfMadeError,
    Resource,
    ResourceError,
    ResourceKind,
    values,
)
from toolchain.plugins.bridge.set_order import in_set_order
from toolchain.plugins.docker.container_creation import (
    MIB,
    attachment_body,
    creation_body,
    restart_policy,
    swap_bytes,
    throttles,
    upload_archive,
)
from toolchain.plugins.docker.container_fields import CONTAINER
from toolchain.plugins.docker.container_reading import live_state
from toolchain.plugins.docker.engine_api import TIMEOUT_S, TIMEOUTS, Engine, EngineError
from toolchain.plugins.docker.remote_image import find_image
from toolchain.plugins.wire_values import Properties, Value

KIND: Final = ResourceKind(
    token="docker:index/container:Container",  # noqa: S106 -- a type token, no password
    fields=CONTAINER,
    timeouts=TIMEOUTS,
    schema_version=2,
    deletes_before_replacing=True,
)

UPDATED_IN_PLACE: Final = (
    "restart",
    "maxRetryCount",
    "cpuShares",
    "memory",
    "memoryReservation",
    "cpuSet",
    "memorySwap",
    "deviceReadBps",
    "deviceReadIops",
    "deviceWriteBps",
    "deviceWriteIops",
)
"""What an update tells the engine. Other changes that force no new container are only noted in
the state: so does the official plugin, for example with `healthcheck`, `tmpfs` and `init`."""

GONE: Final = ("No such container", "is already in progress")
"""Answers to a removal that mean: it is gone, or about to be."""


@dataclass(frozen=True)
class Container(Resource):
    """Containers of one engine."""

    engine: Engine

    @override
    def create(self, wanted: Mapping[str, Value]) -> str:
        """Make the container, connect it, fill in its files and start it."""
        image = str(wanted["image"])
        try:
            find_image(self.engine, image)
        except ResourceError as error:
            raise ResourceError(
                f"Unable to create container with image {image}: {error}"
            ) from error
        body = creation_body(wanted, self.engine.version())
        query = {"name": wanted["name"]}
        if values(wanted, "platform"):
            query["platform"] = wanted["platform"]
        try:
            made = self.engine.post("/containers/create", body, **query)
        except ResourceError as error:
            raise ResourceError(f"Unable to create container: {error}") from error
        identity = str(made["Id"])
        try:
            self._finish(identity, wanted)
        except ResourceError as error:
            raise HalfMadeError(str(error), identity) from error
        return identity

    def _finish(self, identity: str, wanted: Mapping[str, Value]) -> None:
        if values(wanted, "networksAdvanced"):
            self._connect(identity, wanted)
        for upload in values(wanted, "uploads") or []:
            archive = upload_archive(upload)
            try:
                self.engine.put_archive(identity, archive)
            except ResourceError as error:
                raise ResourceError(f"Unable to upload volume content: {error}") from error
        if values(wanted, "start"):
            self._start(identity)
            if values(wanted, "wait"):
                self._wait_healthy(identity, values(wanted, "waitTimeout") or 0)

    def _connect(self, identity: str, wanted: Mapping[str, Value]) -> None:
        try:
            self.engine.post("/networks/bridge/disconnect", {"Container": identity})
        except EngineError as error:
            if not error.says(
                "is not connected to the network bridge", "is not connected to bridge"
            ):
                raise ResourceError(f"Unable to disconnect the default network: {error}") from error
        attachments = in_set_order(CONTAINER["networksAdvanced"], wanted["networksAdvanced"])
        for attachment in attachments:
            network = str(attachment["name"])
            try:
                self.engine.post(
                    f"/networks/{quote(network, safe='')}/connect",
                    attachment_body(identity, attachment),
                )
            except ResourceError as error:
                raise ResourceError(f"Unable to connect to network '{network}': {error}") from error

    def _start(self, identity: str) -> None:
        try:
            self.engine.post(f"/containers/{quote(identity)}/start")
        except ResourceError as error:
            raise ResourceError(f"Unable to start container: {error}") from error

    def _wait_healthy(self, identity: str, timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        while True:
            health = self._inspect(identity)["State"].get("Health")
            if health is None:
                raise ResourceError(
                    "you have supplied a 'wait' argument, but the container does not have a "
                    "healthcheck defined. Please remove the 'wait' argument or add a "
                    "'healthcheck' attribute"
                )
            if health["Status"] == "healthy":
                return
            if time.monotonic() > deadline:
                raise ResourceError("container failed to be in healthy state")
            time.sleep(0.25)

    def _inspect(self, identity: str) -> dict[str, Any]:
        found: dict[str, Any] = self.engine.get(f"/containers/{quote(identity)}/json")
        return found

    @override
    def read(self, identity: str, state: Mapping[str, Value]) -> tuple[str, Properties] | None:
        """The live container; gone only if the engine's list of all containers lacks it."""
        listed = self.engine.get("/containers/json", all=True)
        if not any(container["Id"] == identity for container in listed):
            return None
        return identity, live_state(self._inspect(identity), state)

    @override
    def update(
        self, identity: str, prior: Mapping[str, Value], planned: Mapping[str, Value]
    ) -> Properties:
        """Start a stopped container and pass on what the engine can change live."""
        must_run = planned.get("mustRun") and not prior.get("mustRun")
        if must_run and planned.get("start"):
            self._start(identity)
        if any(prior.get(key) != planned.get(key) for key in UPDATED_IN_PLACE):
            try:
                self.engine.post(f"/containers/{quote(identity)}/update", _update_body(planned))
            except ResourceError as error:
                raise ResourceError(f"Unable to update a container: {error}") from error
        return dict(planned)

    @override
    def delete(self, identity: str, state: Mapping[str, Value]) -> None:
        """Stop it within its grace time and remove it; it may be gone already."""
        path = f"/containers/{quote(identity)}"
        grace_s = int(values(state, "destroyGraceSeconds") or 0)
        try:
            self.engine.post(f"{path}/stop", None, TIMEOUT_S + grace_s, t=grace_s)
        except EngineError as error:
            if not error.says(GONE[0]):
                raise ResourceError(f"Error stopping container {identity}: {error}") from error
        try:
            self.engine.delete(path, v=bool(values(state, "removeVolumes")), force=True)
        except EngineError as error:
            if not error.says(*GONE):
                raise ResourceError(f"Error deleting container {identity}: {error}") from error
        condition = "removed" if values(state, "rm") else "not-running"
        try:
            self.engine.post(f"{path}/wait", condition=condition)
        except EngineError as error:
            if not error.says(*GONE):
                raise ResourceError(
                    f"Error waiting for container removal '{identity}': {error}"
                ) from error


def _update_body(planned: Mapping[str, Value]) -> dict[str, Any]:
    body: dict[str, Any] = {
        "RestartPolicy": restart_policy(planned),
        "CpuShares": values(planned, "cpuShares") or 0,
        "Memory": (values(planned, "memory") or 0) * MIB,
        "MemoryReservation": (values(planned, "memoryReservation") or 0) * MIB,
        "CpusetCpus": values(planned, "cpuSet") or "",
        **throttles(planned),
    }
    if values(planned, "memorySwap"):
        body["MemorySwap"] = swap_bytes(planned["memorySwap"])
    return body
