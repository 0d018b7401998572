"""What must be true of the host before anything of a sandbox is made."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import docker.errors

from abox.errors import AboxError, ErrorCollector, HostError
from provider.resource import Data, Failure, Field, Resource

MIN_FREE_MB = 512
"""Free space that the engine's and abox's own folders need for a sandbox to start."""


class Images(Protocol):
    """The part of the engine that is asked."""

    def find_image(self, image: str) -> dict[str, Any] | None:
        """Inspection of an image, None if the engine says that it doesn't exist."""

    def info(self) -> dict[str, Any]:
        """What the engine says about itself."""


@dataclass(frozen=True)
class Preflight:
    """Looks at privileges, engine, images and free space; changes nothing."""

    engine: Callable[[], Images]
    effective_uid: Callable[[], int]
    free_mb: Callable[[str], int]
    """Free megabytes of the file system that a path, or the nearest existing parent, is on."""
    state_dir: Callable[[], str]

    def errors(self, images: list[str]) -> Iterator[AboxError]:
        """Everything that stands in the way, all at once.

        Args:
            images: ids of images that must be there already.
        """
        if self.effective_uid() != 0:
            yield HostError(
                what="abox has no privileges on this host",
                why="bridges, nftables and the engine need root",
                remedy="run as root, for example with sudo",
            )
        folders = [self.state_dir()]
        try:
            engine = self.engine()
            folders.append(str(engine.info().get("DockerRootDir") or "/var/lib/docker"))
            yield from _missing_images(engine, images)
        except AboxError as error:
            yield error
        except (docker.errors.DockerException, OSError) as error:
            yield HostError(
                what="the Docker engine doesn't answer",
                why=" ".join(str(error).split()),
                remedy="run `make engine`, or start docker",
            )
        yield from self._full_disks(folders)

    def _full_disks(self, folders: list[str]) -> Iterator[AboxError]:
        for folder in folders:
            if (free := self.free_mb(folder)) < MIN_FREE_MB:
                yield HostError(
                    what=f"{folder} has {free} MB left",
                    why=f"a sandbox needs {MIN_FREE_MB} MB to start",
                    remedy="make room, for example with `docker image prune`",
                )


def _missing_images(engine: Images, images: list[str]) -> Iterator[AboxError]:
    for image in images:
        if engine.find_image(image) is None:
            yield HostError(
                what=f"image {image} is missing",
                why="the engine doesn't have it, and an id alone can't be pulled",
                remedy="run `make images` for abox's own, or load yours; or name it name@sha256:…",
            )


class PreflightResource(Resource):
    """Adapter of ``Preflight``: fails at check, so that a preview already tells."""

    type_name = "Preflight"
    fields = (Field(name="images", kind=list),)

    def __init__(self, preflight: Preflight) -> None:
        self._preflight = preflight

    def problems(self, inputs: Data, old: Data) -> Iterator[Failure]:  # noqa: ARG002
        """What stands in the way of a sandbox on this host."""
        for error in self._preflight.errors(list(inputs["images"])):
            yield Failure("images" if "image" in error.what else "", str(error))

    def planned(self, inputs: Data, old: Data | None) -> Data:  # noqa: ARG002
        """Nothing is made."""
        return {}

    def create(self, inputs: Data) -> tuple[str, Data]:
        """Look once more, since time has passed since the check; nothing is made."""
        found = ErrorCollector()
        found.errors.extend(self._preflight.errors(list(inputs["images"])))
        found.raise_all()
        return "preflight", {}

    def read(self, resource_id: str, state: Data) -> Data:  # noqa: ARG002
        """Nothing can drift."""
        return {}

    def update(self, resource_id: str, old: Data, new: Data) -> Data:  # noqa: ARG002
        """Look once more."""
        return self.create(new)[1]

    def delete(self, resource_id: str, state: Data) -> None:
        """Nothing was made."""
