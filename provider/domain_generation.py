"""A number that grows when a sandbox's VM must be made again, and what makes room for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from abox.naming import FIRST_GENERATION
from provider.domain_posture import PAUSED, ROLE, Domain, Tools, strays
from provider.generation import next_generation
from provider.records import Records
from provider.resource import Data, Field, Resource


class DomainGenerationResource(Resource):
    """Stands before the domain, which carries the number in its description.

    The engine judges a domain before its posture, and pulumi-libvirt can neither resume a paused
    machine nor share disks with one that a killed run left. See
    docs/decisions/0002-repair-of-posture.md, which holds for VMs as well.
    """

    type_name = "DomainGeneration"
    fields = (Field(name="sandbox", kind=str, replaces=True),)
    drift_fields: ClassVar = ("damage", "strays", "suspended")

    def __init__(self, tools: Tools, records: Callable[[], Records]) -> None:
        self._tools = tools
        self._records = records

    def drift(self, state: Data, inputs: Data) -> dict[str, bool]:  # noqa: ARG002
        """Any damage, any stray domain, a paused machine."""
        return {name: False for name in self.drift_fields if state.get(name)}

    def planned(self, inputs: Data, old: Data | None) -> Data:  # noqa: ARG002
        """The number is plain arithmetic, so that preview shows the replacement."""
        return _generation(next_generation(old or {}, "damage"))

    def create(self, inputs: Data) -> tuple[str, Data]:
        """Start at 1."""
        self._make_room(inputs["sandbox"])
        return inputs["sandbox"], _generation(FIRST_GENERATION)

    def read(self, resource_id: str, state: Data) -> Data:  # noqa: ARG002
        """Look at the recorded domain, and for others that bear the sandbox's name."""
        held = self._held(state["sandbox"])
        found = strays(self._tools, state["sandbox"], held)
        exists = held in self._tools.virsh("list", "--all", "--uuid").split()
        paused = exists and self._tools.virsh("domstate", held).strip() == PAUSED
        return {
            "generation": state["generation"],
            # Either the stack holds the stray and it wasn't recorded, or nobody holds it. Both
            # end well with a replacement: pulumi-libvirt removes what it holds, the posture the
            # rest.
            "damage": ["a run that made it was interrupted"] if found and not exists else [],
            "strays": found,
            "suspended": [held] if paused else [],
        }

    def update(self, resource_id: str, old: Data, new: Data) -> Data:  # noqa: ARG002
        """The next number if there was damage; strays end, a paused machine goes on."""
        self._make_room(new["sandbox"])
        for uuid in old.get("suspended") or []:
            Domain(uuid, self._tools).resume()
        return _generation(next_generation(old, "damage"))

    def delete(self, resource_id: str, state: Data) -> None:  # noqa: ARG002
        """The domain went before: what bears its sandbox's name still, no stack holds."""
        for uuid in strays(self._tools, state["sandbox"], ""):
            Domain(uuid, self._tools).remove()

    def _held(self, sandbox: str) -> str:
        record = self._records().find(sandbox, ROLE)
        return "" if record is None else record.container

    def _make_room(self, sandbox: str) -> None:
        for uuid in strays(self._tools, sandbox, self._held(sandbox)):
            Domain(uuid, self._tools).silence()


def _generation(number: str) -> Data:
    return {"generation": number, "damage": [], "strays": [], "suspended": []}
