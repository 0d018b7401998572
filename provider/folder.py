"""What the adapters of a sandbox's folders on the host have in common."""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path
from typing import ClassVar, Protocol

from provider.resource import UNKNOWN, Data, Field, Resource, is_unknown


class Folder(Protocol):
    """A folder of one sandbox."""

    @property
    def path(self) -> Path:
        """Where it is."""

    def findings(self) -> list[str]:
        """In words, what is not as it should be."""

    def apply(self) -> None:
        """Make it, or mend it."""

    def remove(self) -> None:
        """Remove it with all that is in it."""


class FolderResource(Resource):
    """Adapter of a folder: its path follows from the sandbox's name, drift is repaired in place."""

    fields = (Field(name="sandbox", kind=str, replaces=True),)
    drift_fields: ClassVar = ("findings",)

    @abstractmethod
    def folder(self, sandbox: str) -> Folder:
        """The folder of a sandbox."""

    def drift(self, state: Data, inputs: Data) -> dict[str, bool]:  # noqa: ARG002
        """A folder that is gone, or open to others than it should be."""
        return {"findings": False} if state.get("findings") else {}

    def planned(self, inputs: Data, old: Data | None) -> Data:
        """The path follows from the name."""
        sandbox = old["sandbox"] if old else inputs["sandbox"]
        path = UNKNOWN if is_unknown(sandbox) else str(self.folder(sandbox).path)
        return {"path": path, "findings": []}

    def create(self, inputs: Data) -> tuple[str, Data]:
        """Make the folder."""
        return inputs["sandbox"], self.update(inputs["sandbox"], {}, inputs)

    def read(self, resource_id: str, state: Data) -> Data:  # noqa: ARG002
        """The folder as it is."""
        folder = self.folder(resource_id)
        return {"path": str(folder.path), "findings": folder.findings()}

    def update(self, resource_id: str, old: Data, new: Data) -> Data:  # noqa: ARG002
        """Make it again, or mend it."""
        self.folder(resource_id).apply()
        return self.read(resource_id, new)

    def delete(self, resource_id: str, state: Data) -> None:  # noqa: ARG002
        """It goes with its sandbox."""
        self.folder(resource_id).remove()
