"""Takes away what runs of a sandbox that were killed made and no stack recorded."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

from abox.errors import HostError
from abox.host_state import instance_dir
from abox.naming import filter_name, link_filter_name, table_name
from provider import host, storage_pool
from provider.firewall_table import FirewallTable
from provider.generation import generation_of, next_generation
from provider.leftovers import Leftovers
from provider.nwfilter import NwFilter
from provider.records import Records
from provider.resource import Data, Field, Resource
from provider.storage_pool import forget_pool, stray_pools


class CleanupResource(Resource):
    """Stands before all that a sandbox has on the host but its lease, and goes after all of it.

    What a run made just before it was killed is in no state, so nothing but its name or label
    leads to it. The lease says that those are this checkout's.
    """

    type_name = "Cleanup"
    fields = (
        Field(name="sandbox", kind=str, replaces=True),
        Field(name="machine", kind=bool),
    )
    drift_fields: ClassVar = ("strays",)

    def __init__(
        self,
        leftovers: Callable[[], Leftovers],
        nft: Callable[..., str],
        virsh: Callable[..., str],
        state_dir: Callable[[], Path],
    ) -> None:
        self._leftovers = leftovers
        self._nft = nft
        self._virsh = virsh
        self._state_dir = state_dir

    def drift(self, state: Data, inputs: Data) -> dict[str, bool]:  # noqa: ARG002
        """What would be in the way of the stack's own."""
        return {"strays": False} if state.get("strays") else {}

    def planned(self, inputs: Data, old: Data | None) -> Data:  # noqa: ARG002
        """Nothing will be in the way."""
        return _state(next_generation(old or {}, "strays"))

    def create(self, inputs: Data) -> tuple[str, Data]:
        """What would be in the way goes, and empty volumes of an earlier life."""
        self._leftovers().remove_volumes(inputs["sandbox"])
        return inputs["sandbox"], self.update(inputs["sandbox"], {}, inputs)

    def read(self, resource_id: str, state: Data) -> Data:
        """Only one pool can have a folder."""
        # Either the stack holds it and it wasn't recorded, or nobody holds it. Both end well with
        # a pool of another name: pulumi-libvirt forgets what it holds, and the update the rest.
        strays = self._pools(resource_id) if state["machine"] else []
        return {**_state(generation_of(state)), "strays": strays}

    def update(self, resource_id: str, old: Data, new: Data) -> Data:
        """Take what is in the way away."""
        if new["machine"]:
            self._remove_pools(resource_id)
        return _state(next_generation(old, "strays"))

    def delete(self, resource_id: str, state: Data) -> None:
        """What bears the sandbox's name now, no stack holds."""
        # A stack that was a VM once may have been killed then; its host may lack libvirt by now.
        with contextlib.nullcontext() if state["machine"] else contextlib.suppress(HostError):
            for name in (filter_name(resource_id), link_filter_name(resource_id)):
                NwFilter(name, self._virsh).delete()
            self._remove_pools(resource_id)
        self._leftovers().remove_volumes(resource_id)
        FirewallTable(table_name(resource_id), self._nft).delete()
        host.remove_folder(instance_dir(self._state_dir(), resource_id), and_above=1)

    def _pools(self, sandbox: str) -> list[str]:
        record = Records(self._state_dir()).find(sandbox, storage_pool.ROLE)
        return stray_pools(self._virsh, sandbox, "" if record is None else record.container)

    def _remove_pools(self, sandbox: str) -> None:
        for pool in self._pools(sandbox):
            forget_pool(self._virsh, pool)


def _state(generation: str) -> Data:
    return {"strays": [], "generation": generation}
