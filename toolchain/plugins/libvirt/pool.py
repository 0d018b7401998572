"""`libvirt:index/pool:Pool`: a folder of volumes; deleting it removes the folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from xml.etree import ElementTree as ET

from typing_extensions import override

from toolchain.plugins.bridge.fields import Kind, objects, text, whole
from toolchain.plugins.bridge.resource import Resource, ResourceError, ResourceKind, values
from toolchain.plugins.libvirt.client import Client, LibvirtError
from toolchain.plugins.libvirt.stylesheet import child, transformed, xml_field
from toolchain.plugins.wire_values import Properties, Value

KIND: Final = ResourceKind(
    token="libvirt:index/pool:Pool",  # noqa: S106 -- a type token, no password
    fields={
        "name": text(required=True, autonamed=True),
        "type": text(required=True, offered="dir"),
        "capacity": whole(computed=True, replaces=True),
        "allocation": whole(computed=True, replaces=True),
        "available": whole(computed=True, replaces=True),
        "source": objects(Kind.LIST, {}, single=True, implemented=False),
        "target": objects(
            Kind.LIST,
            {"path": text(computed=True)},
            computed=True,
            replaces=False,
            single=True,
        ),
        "xml": xml_field(replaces=True),
        "path": text(implemented=False),
    },
)


@dataclass(frozen=True)
class Pool(Resource):
    """Pools of one libvirt."""

    client: Client

    @override
    def create(self, wanted: Mapping[str, Value]) -> str:
        """Define, build, start: the folder is made if it isn't there."""
        name = str(wanted["name"])
        with self.client.pool_alone(name):
            if name in self.client.lines("pool-list", "--all", "--name"):
                raise ResourceError(f"storage pool '{name}' already exists")
            document = ET.Element("pool", type=str(wanted["type"]))
            child(document, "name", name)
            path = str((values(wanted, "target") or {}).get("path") or "")
            child(child(document, "target"), "path", path)
            self._step("creating", "pool-define", name, document=transformed(document, wanted))
            self._step("building", "pool-build", name)
            self._step("setting up", "pool-autostart", name)
            self._step("starting", "pool-start", name)
            self._step("refreshing", "pool-refresh", name)
            return self.client.call("pool-uuid", name)

    def _step(self, doing: str, command: str, name: str, document: str | None = None) -> None:
        try:
            if document is None:
                self.client.call(command, name)
            else:
                self.client.call_with(command, document=document)
        except LibvirtError as error:
            raise ResourceError(f"error {doing} libvirt storage pool: {error}") from error

    @override
    def read(self, identity: str, state: Mapping[str, Value]) -> tuple[str, Properties] | None:
        """The live pool; gone only if libvirt's list of all pools lacks it."""
        if identity not in self.client.lines("pool-list", "--all", "--uuid"):
            return None
        live = self.client.describe("pool-dumpxml", identity)
        sizes = {
            key: int(live.findtext(key) or 0) for key in ("capacity", "allocation", "available")
        }
        return identity, {
            **state,
            **sizes,
            "name": live.findtext("name"),
            "type": live.get("type"),
            "target": {"path": live.findtext("target/path") or ""},
        }

    @override
    def update(
        self, identity: str, prior: Mapping[str, Value], planned: Mapping[str, Value]
    ) -> Properties:
        """Nothing can be changed in place, so nothing has to be done."""
        return dict(planned)

    @override
    def delete(self, identity: str, state: Mapping[str, Value]) -> None:
        """Stop it, remove its folder and forget it; it may be gone already."""
        if identity not in self.client.lines("pool-list", "--all", "--uuid"):
            return
        with self.client.pool_alone(str(state["name"])):
            try:
                if identity in self.client.lines("pool-list", "--uuid"):
                    self.client.call("pool-destroy", identity)
                self.client.call("pool-delete", identity)
                self.client.call("pool-undefine", identity)
            except LibvirtError as error:
                raise ResourceError(f"error deleting storage pool: {error}") from error
