"""The libvirt pool with a VM's disks: what a killed run left of it, or in it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

from abox.host_state import disk_folder
from provider.records import Record, Records
from provider.resource import Data, Field, Resource

ROLE = "pool"
"""Name of the record of a sandbox's pool."""


def stray_pools(virsh: Callable[..., str], sandbox: str, held: str) -> list[str]:
    """Names of pools of a sandbox that hold nothing, other than ``held``.

    A pool that a run made and couldn't record never got a volume. One with volumes is a stack's.
    """
    folder = Path(disk_folder(sandbox))
    if folder.is_dir() and any(folder.iterdir()):
        return []
    listed = virsh("pool-list", "--all", "--name").split()
    named = [name for name in listed if name.startswith(f"{sandbox}-") and name != held]
    return sorted(name for name in named if _target(virsh, name) == str(folder))


def forget_pool(virsh: Callable[..., str], name: str) -> None:
    """Take an empty pool out of libvirt; its folder goes if it is there."""
    if name in virsh("pool-list", "--name").split():
        virsh("pool-destroy", name)
    folder = Path(_target(virsh, name))
    virsh("pool-undefine", name)
    if folder.is_dir():
        folder.rmdir()


def _target(virsh: Callable[..., str], name: str) -> str:
    # libvirt's own dump: the parser meets no hostile document.
    parsed = ElementTree.fromstring(virsh("pool-dumpxml", name))  # noqa: S314
    return parsed.findtext("target/path", "")


class PoolCleanupResource(Resource):
    """Stands between a pool and its volumes: remembers the one, and tidies up after the others.

    libvirt removes no pool that holds a volume, and a volume that a killed run couldn't record is
    in no stack.
    """

    type_name = "PoolCleanup"
    fields = (
        Field(name="sandbox", kind=str, replaces=True),
        Field(name="pool", kind=str, replaces=True),
    )

    def __init__(self, virsh: Callable[..., str], records: Callable[[], Records]) -> None:
        self._virsh = virsh
        self._records = records

    def planned(self, inputs: Data, old: Data | None) -> Data:  # noqa: ARG002
        """Nothing to tell."""
        return {}

    def create(self, inputs: Data) -> tuple[str, Data]:
        """Remember that the pool is a stack's."""
        self._records().keep(inputs["sandbox"], ROLE, Record(inputs["pool"], {}))
        return f"{inputs['sandbox']}/{inputs['pool']}", {}

    def read(self, resource_id: str, state: Data) -> Data:  # noqa: ARG002
        """Nothing on the host stands for it."""
        return {}

    def update(self, resource_id: str, old: Data, new: Data) -> Data:  # noqa: ARG002
        """No input changes in place."""
        return {}

    def delete(self, resource_id: str, state: Data) -> None:  # noqa: ARG002
        """The stack's volumes went before: what bears the sandbox's name still, no stack holds."""
        sandbox, pool = state["sandbox"], state["pool"]
        self._records().forget(sandbox, ROLE)
        if pool not in self._virsh("pool-list", "--name").split():
            return
        self._virsh("pool-refresh", pool)
        for line in self._virsh("vol-list", pool).splitlines():
            volume = line.split()[:1]
            if volume and volume[0].startswith(f"{sandbox}-"):
                self._virsh("vol-delete", *volume, "--pool", pool)
