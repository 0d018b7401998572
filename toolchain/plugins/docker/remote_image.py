"""`docker:index/remoteImage:RemoteImage`: an image of the engine, pulled if it isn't there."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from typing_extensions import override

from toolchain.plugins.bridge.fields import Kind, flag, mapping, objects, output, text, texts
from toolchain.plugins.bridge.resource import Resource, ResourceError, ResourceKind, values
from toolchain.plugins.docker.engine_api import TIMEOUTS, Engine, EngineError
from toolchain.plugins.docker.network import HTTP_NOT_FOUND
from toolchain.plugins.wire_values import Properties, Value

PULL_S: Final = 1200.0
"""Time limit of a pull: the official plugin's limit for creating an image."""

KIND: Final = ResourceKind(
    token="docker:index/remoteImage:RemoteImage",  # noqa: S106 -- a type token, no password
    timeouts=TIMEOUTS,
    importable=False,
    fields={
        "name": text(required=True),
        "imageId": output(),
        "repoDigest": output(),
        "keepLocally": flag(),
        "pullTriggers": texts(Kind.SET),
        "forceRemove": flag(),
        "build": objects(Kind.SET, {}, replaces=False, single=True, implemented=False),
        "triggers": mapping(),
        "platform": text(default=""),
    },
)


@dataclass(frozen=True)
class RemoteImage(Resource):
    """Images of one engine."""

    engine: Engine

    @override
    def create(self, wanted: Mapping[str, Value]) -> str:
        """Find the image, or have the engine pull it."""
        name = str(wanted["name"])
        try:
            found = find_image(self.engine, name, str(values(wanted, "platform") or ""))
        except ResourceError as error:
            raise ResourceError(f"Unable to read Docker image into resource: {error}") from error
        return f"{found['Id']}{name}"

    @override
    def read(self, identity: str, state: Mapping[str, Value]) -> tuple[str, Properties] | None:
        """The image that the name stands for at present."""
        name = str(state["name"])
        found = local_image(self.engine, name)
        if found is None:
            return None
        live = {"imageId": found["Id"], "repoDigest": _repo_digest(name, found)}
        return f"{found['Id']}{name}", {**state, **live}

    @override
    def update(
        self, identity: str, prior: Mapping[str, Value], planned: Mapping[str, Value]
    ) -> Properties:
        """Look the image up again, pulling it if need be."""
        self.create(planned)
        found = self.read(identity, planned)
        return dict(planned) if found is None else found[1]

    @override
    def delete(self, identity: str, state: Mapping[str, Value]) -> None:
        """Remove the name unless the program wants to keep it."""
        name = str(state["name"])
        if values(state, "keepLocally") or local_image(self.engine, name) is None:
            return
        try:
            self.engine.delete(f"/images/{quote(name)}", force=bool(values(state, "forceRemove")))
        except ResourceError as error:
            raise ResourceError(f"Unable to remove Docker image: {error}") from error


def local_image(engine: Engine, name: str) -> dict[str, Any] | None:
    """The image that a name stands for, from the engine's list of images."""
    try:
        inspected = engine.get(f"/images/{quote(name)}/json")
    except EngineError as error:
        if error.status == HTTP_NOT_FOUND:
            return None
        raise
    listed: list[dict[str, Any]] = engine.get("/images/json")
    return next((image for image in listed if image["Id"] == inspected["Id"]), None)


def find_image(engine: Engine, name: str, platform: str = "") -> dict[str, Any]:
    """The image, pulled by the engine if it isn't there.

    Raises:
        ResourceError: it can't be had.
    """
    found = local_image(engine, name)
    if found is not None:
        return found
    try:
        _pull(engine, name, platform)
    except ResourceError as error:
        raise ResourceError(
            f"unable to pull image {name}: error pulling image {name}: {error}"
        ) from error
    found = local_image(engine, name)
    if found is None:
        raise ResourceError(f"unable to find or pull image {name}")
    return found


def _pull(engine: Engine, name: str, platform: str) -> None:
    repository, tag = _split(name)
    query = {"fromImage": repository, "tag": tag}
    if platform:
        query["platform"] = platform
    progress = engine.post("/images/create", None, PULL_S, **query)
    lines = str(progress).splitlines() if isinstance(progress, str) else []
    for line in lines:
        message = json.loads(line).get("error") if line.startswith("{") else None
        if message:
            raise ResourceError(message)


def _split(name: str) -> tuple[str, str]:
    """Repository and tag or digest of an image's name."""
    repository, at, digest = name.partition("@")
    if at:
        return repository, digest
    head, colon, tag = name.rpartition(":")
    return (head, tag) if colon and "/" not in tag else (name, "latest")


def _repo_digest(name: str, image: Mapping[str, Any]) -> str:
    digests: list[str] = image.get("RepoDigests") or []
    if len(digests) <= 1:
        return digests[0] if digests else ""
    bare = name.partition(":")[0]
    return next((digest for digest in digests if digest.startswith(bare)), digests[0])
