"""What the provider remembers of a sandbox between runs, outside the stack's state.

One file a role: the container that the posture watches and what was asked of it. One file a
bridge: its network. Resources that stand before the container or the network need them.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from abox.host_state import instance_dir
from abox.naming import check_name
from provider import host


@dataclass(frozen=True)
class Record:
    """The container of one role."""

    container: str
    """Its id."""
    expected: dict[str, Any]
    """What was asked of it, as ``Expected.to_document`` gives it."""


@dataclass(frozen=True)
class Records:
    """The records of all sandboxes of this host, each in its instance directory."""

    state: Path
    """Folder of the host's state."""

    def find(self, sandbox: str, role: str) -> Record | None:
        """The record of a role, None if there is none."""
        document = host.read_document(self._path(sandbox, role))
        if document is None:
            return None
        return Record(str(document.get("container")), dict(document.get("expected") or {}))

    def keep(self, sandbox: str, role: str, record: Record) -> None:
        """Write the record of a role."""
        host.write_document(
            self._path(sandbox, role),
            {"container": record.container, "expected": record.expected},
        )

    def forget(self, sandbox: str, role: str) -> None:
        """Remove the record of a role; no error if there is none."""
        host.remove_document(self._path(sandbox, role))

    def find_network(self, sandbox: str, bridge: str) -> str | None:
        """Id of the network that was last seen to have a bridge, None if there is none."""
        document = host.read_document(self._path(sandbox, f"network-{bridge}"))
        return None if document is None else str(document.get("network"))

    def keep_network(self, sandbox: str, bridge: str, network: str) -> None:
        """Write the record of a bridge."""
        host.write_document(self._path(sandbox, f"network-{bridge}"), {"network": network})

    def forget_network(self, sandbox: str, bridge: str) -> None:
        """Remove the record of a bridge; no error if there is none."""
        self.forget(sandbox, f"network-{bridge}")

    def _path(self, sandbox: str, role: str) -> Path:
        # A role has the form of a name as well, so it can't leave the folder.
        return instance_dir(self.state, sandbox) / f"{check_name(role)}.json"


def on_this_host() -> Records:
    """The real records."""
    return Records(host.state_dir())
