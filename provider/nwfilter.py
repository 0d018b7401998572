"""One libvirt nwfilter: defined, replaced live, and read back rule by rule."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from abox.errors import HostError
from abox.render.nwfilter import normal_form, reordered, with_uuid
from provider.firewall_table import differences
from provider.resource import Data, Field, Resource


@dataclass(frozen=True)
class NwFilter:
    """One filter by name; ``virsh`` runs the tool and raises HostError with its stderr."""

    name: str
    virsh: Callable[..., str]

    def read(self) -> str | None:
        """The filter's XML; None only if a successful listing lacks it."""
        return self.virsh("nwfilter-dumpxml", self.name) if self._uuid() else None

    def apply(self, xml: str) -> str:
        """Define ``xml``, live on every tap that refers to it; returns it as it is read back."""
        uuid = self._uuid()
        # A filter keeps its id for as long as it has its name, whoever made it.
        wanted = with_uuid(xml, uuid) if uuid else xml
        if uuid and normal_form(self.virsh("nwfilter-dumpxml", self.name)) == normal_form(xml):
            # libvirt leaves the kernel's rules alone when nothing has changed. The same rules
            # under other priorities are a change, and closed at every moment.
            self._define(reordered(wanted))
        self._define(wanted)
        live = self.read()
        if live is None or normal_form(live) != normal_form(xml):
            raise HostError(
                what=f"nwfilter {self.name} isn't what was defined",
                why="something else changes it at the same time",
                remedy=f"look at `virsh nwfilter-dumpxml {self.name}`, then run again",
            )
        return live

    def delete(self) -> None:
        """Take the filter away; no error if it is gone."""
        if self._uuid():
            self.virsh("nwfilter-undefine", self.name)

    def _define(self, xml: str) -> None:
        self.virsh("nwfilter-define", "/dev/stdin", stdin=xml)

    def _uuid(self) -> str:
        """The id of the filter, empty if a successful listing lacks it."""
        lines = [line.split() for line in self.virsh("nwfilter-list").splitlines()]
        return next((each[0] for each in lines if each[1:] == [self.name]), "")


def findings(asked: str, live: str) -> list[str]:
    """In words, what a filter's XML says beside what was asked."""
    return differences(*("\n".join(normal_form(text)) for text in (asked, live)))


class NwFilterResource(Resource):
    """Adapter of ``NwFilter``."""

    type_name = "NwFilter"
    fields = (
        Field(name="filter", kind=str, replaces=True),
        Field(name="xml", kind=str),
    )
    drift_fields: ClassVar = ("findings",)

    def __init__(self, virsh: Callable[..., str]) -> None:
        self._virsh = virsh

    def drift(self, state: Data, inputs: Data) -> dict[str, bool]:  # noqa: ARG002
        """A filter that isn't what was asked."""
        return {"findings": False} if state.get("findings") else {}

    def planned(self, inputs: Data, old: Data | None) -> Data:  # noqa: ARG002
        """No difference will be left."""
        return {"findings": []}

    def create(self, inputs: Data) -> tuple[str, Data]:
        """Define the filter."""
        return inputs["filter"], self._apply(inputs)

    def read(self, resource_id: str, state: Data) -> Data | None:
        """The filter beside what was asked."""
        live = NwFilter(resource_id, self._virsh).read()
        if live is None:
            return None
        return {"findings": findings(state["xml"], live)}

    def update(self, resource_id: str, old: Data, new: Data) -> Data:  # noqa: ARG002
        """Replace the filter live."""
        return self._apply(new)

    def delete(self, resource_id: str, state: Data) -> None:  # noqa: ARG002
        """Take the filter away."""
        NwFilter(resource_id, self._virsh).delete()

    def _apply(self, inputs: Data) -> Data:
        NwFilter(inputs["filter"], self._virsh).apply(inputs["xml"])
        return {"findings": []}
