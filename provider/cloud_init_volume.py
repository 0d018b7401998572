"""The seed disk of a VM: a volume whose name holds the digest of its content, read back."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from abox.errors import HostError
from abox.render.nocloud import image_digest, render_image
from provider.resource import UNKNOWN, Data, Field, Resource, is_unknown

DOCUMENTS = {
    "boot_script": "boot.sh",
    "meta_data": "meta-data",
    "network_config": "network-config",
    "user_data": "user-data",
}
"""Fields → names of the files on the disk."""

DIGEST_SHOWN = 16
"""Characters of the digest that the volume's name holds."""


@dataclass(frozen=True)
class SeedVolume:
    """One volume of a pool.

    ``virsh`` runs the tool and raises HostError with its stderr; ``read_file`` gives a file's
    bytes, None if there is no such file.
    """

    pool: str
    name: str
    virsh: Callable[..., str]

    def create(self, image: bytes) -> str:
        """Make the volume, or fill it again; returns its path."""
        if self.name not in self._listed():
            size = str(len(image))
            self.virsh("vol-create-as", self.pool, self.name, size, "--format", "raw")
        self.fill(image)
        return self.virsh("vol-path", self.name, "--pool", self.pool).strip()

    def fill(self, image: bytes) -> None:
        """Write the content."""
        # It holds the guest's private key; the file is its owner's alone.
        with tempfile.NamedTemporaryFile() as handle:
            handle.write(image)
            handle.flush()
            self.virsh("vol-upload", self.name, handle.name, "--pool", self.pool)

    def delete(self) -> None:
        """Take the volume away; no error if it, or its pool, is gone."""
        if self.pool in self._pools() and self.name in self._listed():
            self.virsh("vol-delete", self.name, "--pool", self.pool)

    def _pools(self) -> list[str]:
        return self.virsh("pool-list", "--name").split()

    def _listed(self) -> list[str]:
        self.virsh("pool-refresh", self.pool)
        lines = self.virsh("vol-list", self.pool).splitlines()
        return [line.split()[0] for line in lines if line.strip()]


class CloudInitVolumeResource(Resource):
    """Adapter of ``SeedVolume``: what the guest is told decides name and content."""

    type_name = "CloudInitVolume"
    fields = (
        Field(name="sandbox", kind=str, replaces=True),
        Field(name="pool", kind=str, replaces=True),
        Field(name="meta_data", kind=str, replaces=True),
        Field(name="network_config", kind=str, replaces=True),
        Field(name="user_data", kind=str, replaces=True, secret=True),
        Field(name="boot_script", kind=str, replaces=True, secret=True),
    )
    drift_fields: ClassVar = ("live_digest",)

    def __init__(self, virsh: Callable[..., str], read_file: Callable[[str], bytes | None]) -> None:
        self._virsh = virsh
        self._read_file = read_file

    def drift(self, state: Data, inputs: Data) -> dict[str, bool]:  # noqa: ARG002
        """A content that isn't what the name says."""
        return {"live_digest": False} if state.get("live_digest") != state.get("digest") else {}

    def planned(self, inputs: Data, old: Data | None) -> Data:
        """The digest is known as soon as the documents are."""
        if is_unknown({name: inputs[name] for name in DOCUMENTS}):
            return dict.fromkeys(("path", "digest", "live_digest"), UNKNOWN)
        digest = image_digest(_image(inputs))
        path = UNKNOWN if old is None else old["path"]
        return {"path": path, "digest": digest, "live_digest": digest}

    def create(self, inputs: Data) -> tuple[str, Data]:
        """Make the volume."""
        image = _image(inputs)
        path = self._volume(inputs, image).create(image)
        return path, self._outputs(path, image)

    def read(self, resource_id: str, state: Data) -> Data | None:
        """The content beside what it was; None if there is no such file."""
        content = self._read_file(resource_id)
        if content is None:
            return None
        digest = state["digest"]
        return {"path": resource_id, "digest": digest, "live_digest": image_digest(content)}

    def update(self, resource_id: str, old: Data, new: Data) -> Data:  # noqa: ARG002
        """Write the content again."""
        image = _image(new)
        self._volume(new, image).create(image)
        return self._outputs(resource_id, image)

    def delete(self, resource_id: str, state: Data) -> None:  # noqa: ARG002
        """Take the volume away."""
        self._volume(state, _image(state)).delete()

    def _volume(self, inputs: Data, image: bytes) -> SeedVolume:
        name = f"{inputs['sandbox']}-seed-{image_digest(image)[:DIGEST_SHOWN]}.img"
        return SeedVolume(inputs["pool"], name, self._virsh)

    def _outputs(self, path: str, image: bytes) -> Data:
        digest = image_digest(image)
        live = self._read_file(path)
        if live is None or image_digest(live) != digest:
            raise HostError(
                what=f"volume {path} doesn't hold what was written",
                why="it is gone or differs right after it was filled",
                remedy="make room on the disk, then run again",
            )
        return {"path": path, "digest": digest, "live_digest": digest}


def _image(inputs: Data) -> bytes:
    # An empty script is none: without a file of its name the guest asks cloud-init.
    return render_image({file: inputs[field] for field, file in DOCUMENTS.items() if inputs[field]})
