"""`libvirt:index/volume:Volume`: a file of a pool; its path is its id, and nothing changes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit
from xml.etree import ElementTree as ET

from typing_extensions import override

from toolchain.plugins.bridge.fields import text, whole
from toolchain.plugins.bridge.resource import Resource, ResourceError, ResourceKind, values
from toolchain.plugins.libvirt.client import UPLOAD_S, Client, LibvirtError
from toolchain.plugins.libvirt.stylesheet import child, transformed, xml_field
from toolchain.plugins.wire_values import Properties, Value

QCOW2_HEADER: Final = b"QFI\xfb\x00\x00\x00\x03"
"""First bytes of a qcow2 file of version 3."""

EXISTS: Final = "exists already"
NOT_FOUND: Final = "Storage volume not found: "

KIND: Final = ResourceKind(
    token="libvirt:index/volume:Volume",  # noqa: S106 -- a type token, no password
    fields={
        "name": text(required=True, autonamed=True),
        "pool": text(default="default"),
        "source": text(),
        "size": whole(computed=True, replaces=True),
        "format": text(computed=True),
        "baseVolumeId": text(),
        "baseVolumePool": text(),
        "baseVolumeName": text(),
        "xml": xml_field(replaces=True),
    },
)


@dataclass(frozen=True)
class Volume(Resource):
    """Volumes of one libvirt."""

    client: Client

    @override
    def create(self, wanted: Mapping[str, Value]) -> str:
        """Make it in its pool and upload its source; one of the same name is taken over."""
        pool, name = str(values(wanted, "pool") or "default"), str(wanted["name"])
        with self.client.pool_alone(pool):
            if pool not in self.client.lines("pool-list", "--all", "--name"):
                raise ResourceError(f"can't find storage pool '{pool}'")
            self.client.call("pool-refresh", pool)
            source = _local_file(values(wanted, "source"))
            document = self._document(pool, wanted, source)
            try:
                self.client.call_with("vol-create", pool, document=transformed(document, wanted))
            except LibvirtError as error:
                if EXISTS not in str(error):
                    raise ResourceError(f"error creating libvirt volume: {error}") from error
            key = self.client.call("vol-key", "--pool", pool, "--vol", name)
            if source is not None:
                self._upload(key, source)
        return key

    def _document(self, pool: str, wanted: Mapping[str, Value], source: Path | None) -> ET.Element:
        document = ET.Element("volume")
        child(document, "name", str(wanted["name"]))
        image_format = str(values(wanted, "format") or "qcow2")
        base = None
        if source is not None:
            _refuse_beside_source(wanted)
            capacity = source.stat().st_size
            image_format = _format_of(source, values(wanted, "format"))
        else:
            base = self._base(pool, wanted)
            capacity = _capacity(values(wanted, "size"), base)
        child(document, "capacity", str(capacity), unit="bytes")
        target = child(document, "target")
        child(target, "format", type=image_format)
        child(child(target, "permissions"), "mode", "644")
        if base is not None:
            backing = child(document, "backingStore")
            child(backing, "path", base.findtext("target/path"))
            found = base.find("target/format")
            if found is not None:
                child(backing, "format", type=found.get("type", ""))
        return document

    def _base(self, pool: str, wanted: Mapping[str, Value]) -> ET.Element | None:
        """Description of the volume that lies below, None if there is none."""
        identity, name = values(wanted, "baseVolumeId"), values(wanted, "baseVolumeName")
        if identity:
            if name:
                raise ResourceError(
                    "'base_volume_name' can't be specified when also 'base_volume_id' is given"
                )
            try:
                return self.client.describe("vol-dumpxml", str(identity))
            except LibvirtError as error:
                raise ResourceError(f"can't retrieve volume ID '{identity}': {error}") from error
        if not name:
            return None
        holder = str(values(wanted, "baseVolumePool") or pool)
        try:
            return self.client.describe("vol-dumpxml", "--pool", holder, "--vol", str(name))
        except LibvirtError as error:
            raise ResourceError(
                f"can't retrieve base volume with name '{name}': {error}"
            ) from error

    def _upload(self, key: str, source: Path) -> None:
        try:
            self.client.call("vol-upload", key, str(source), timeout_s=UPLOAD_S)
        except ResourceError as error:
            raise ResourceError(f"error while uploading source {source}: {error}") from error

    @override
    def read(self, identity: str, state: Mapping[str, Value]) -> tuple[str, Properties] | None:
        """The live volume; like the official plugin, this starts a stopped pool to look."""
        try:
            live = self.client.describe("vol-dumpxml", identity)
        except LibvirtError as error:
            if not str(error).startswith(NOT_FOUND):
                raise
            pool = str(values(state, "pool") or "default")
            if not self._start_stopped(pool, identity):
                return None
            return self.read(identity, state)
        found = live.find("target/format")
        read: Properties = {
            **state,
            "pool": self.client.call("vol-pool", identity),
            "name": live.findtext("name"),
            "size": int(live.findtext("capacity") or 0),
        }
        if found is not None and found.get("type"):
            read["format"] = found.get("type")
        return identity, read

    def _start_stopped(self, pool: str, identity: str) -> bool:
        """Start a pool that isn't active; whether it was stopped."""
        if pool in self.client.lines("pool-list", "--name"):
            return False
        if pool not in self.client.lines("pool-list", "--all", "--name"):
            raise ResourceError(
                f"error retrieving pool {pool} for volume {identity}: Storage pool not found: "
                f"no storage pool with matching name '{pool}'"
            )
        try:
            self.client.call("pool-start", pool)
        except LibvirtError as error:
            raise ResourceError(f"error starting pool {pool}: {error}") from error
        return True

    @override
    def update(
        self, identity: str, prior: Mapping[str, Value], planned: Mapping[str, Value]
    ) -> Properties:
        """Nothing can be changed in place, so nothing has to be done."""
        return dict(planned)

    @override
    def delete(self, identity: str, state: Mapping[str, Value]) -> None:
        """Remove the file; it may be gone already."""
        try:
            pool = self.client.call("vol-pool", identity)
            with self.client.pool_alone(pool):
                self.client.call("pool-refresh", pool)
                self.client.call("vol-delete", identity)
        except LibvirtError as error:
            if not str(error).startswith(NOT_FOUND):
                raise ResourceError(f"can't delete volume {identity}: {error}") from error


def _local_file(source: Value) -> Path | None:
    """The file that a source names.

    Raises:
        ResourceError: it is no file of this host.
    """
    if not source:
        return None
    parts = urlsplit(str(source))
    if parts.scheme not in ("", "file"):
        raise ResourceError(
            f"don't know how to handle image URI from '{source}' (scheme: {parts.scheme}); this "
            "stand-in takes files of this host only"
        )
    path = Path(parts.path)
    if not path.is_file():
        raise ResourceError(f"error while determining image type for {path}: no such file")
    return path


def _refuse_beside_source(wanted: Mapping[str, Value]) -> None:
    refused = {
        "size": "'size' can't be specified when also 'source' is given (the size will be set to "
        "the size of the source image",
        "baseVolumeId": "'base_volume_id' can't be specified when also 'source' is given",
        "baseVolumeName": "'base_volume_name' can't be specified when also 'source' is given",
    }
    for key, text_of_error in refused.items():
        if values(wanted, key):
            raise ResourceError(text_of_error)


def _format_of(source: Path, given: Value) -> str:
    with source.open("rb") as file:
        is_qcow2 = file.read(len(QCOW2_HEADER)) == QCOW2_HEADER
    if is_qcow2 and given and given != "qcow2":
        raise ResourceError(
            f"format other than QCOW2 explicitly specified for image detected as QCOW2 image: "
            f"{source}"
        )
    return str(given or "qcow2")


def _capacity(size: Value, base: ET.Element | None) -> int:
    """Bytes of a volume without a source: as given, else as much as what lies below."""
    if base is None:
        return int(size or 1)
    below = int(base.findtext("capacity") or 0)
    if size and size < below:
        raise ResourceError(
            "when 'size' is specified, it shouldn't\nbe smaller than the backing store specified "
            "with\n'base_volume_id' or 'base_volume_name/base_volume_pool'"
        )
    return int(size or below)
