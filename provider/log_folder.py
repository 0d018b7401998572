"""The host's folder that a sandbox's verdict log is kept in: it outlives the pod's containers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from abox.host_state import verdict_log
from abox.naming import LABEL_ROLE, LABEL_SANDBOX, Role
from abox.pod import CONTROL_ID
from provider import host
from provider.engine import Engine
from provider.host import FolderFacts, docker_errors
from provider.resource import UNKNOWN, Data, Field, Resource, is_unknown

WANTED = FolderFacts(owner=CONTROL_ID, group=CONTROL_ID, mode=0o700)
"""Control alone writes; the folder above belongs to root, who alone reads."""

RESTART_TIMEOUT_S = 2


@dataclass(frozen=True)
class LogFolder:
    """The folder of one sandbox."""

    path: Path
    sandbox: str
    engine: Callable[[], Engine]

    def findings(self) -> list[str]:
        """In words, what is not as it should be."""
        found = host.read_folder(self.path)
        if found is None:
            return [f"{self.path} is gone"]
        return [] if found == WANTED else [f"{self.path} has {found} instead of {WANTED}"]

    def apply(self) -> None:
        """Make it, or give it its owner and mode back; control is told of a new one."""
        was_there = host.read_folder(self.path) is not None
        host.make_folder(self.path, WANTED)
        if not was_there:
            self._restart_control()

    def remove(self) -> None:
        """Remove it with all that is in it."""
        host.remove_folder(self.path)

    def _restart_control(self) -> None:
        """A container that ran before has the old folder mounted, which is nowhere."""
        labels = [f"{LABEL_SANDBOX}={self.sandbox}", f"{LABEL_ROLE}={Role.CONTROL}"]
        with docker_errors("restart the control container"):
            engine = self.engine()
            for found in engine.containers(filters={"label": labels}):
                engine.restart(found["Id"], timeout=RESTART_TIMEOUT_S)


class LogFolderResource(Resource):
    """Adapter of ``LogFolder``."""

    type_name = "LogFolder"
    fields = (Field(name="sandbox", kind=str, replaces=True),)
    drift_fields: ClassVar = ("findings",)

    def __init__(self, engine: Callable[[], Engine], state_dir: Callable[[], Path]) -> None:
        self._engine = engine
        self._state_dir = state_dir

    def _folder(self, sandbox: str) -> LogFolder:
        return LogFolder(verdict_log(self._state_dir(), sandbox), sandbox, self._engine)

    def drift(self, state: Data, inputs: Data) -> dict[str, bool]:  # noqa: ARG002
        """A folder that is gone or open to others."""
        return {"findings": False} if state.get("findings") else {}

    def planned(self, inputs: Data, old: Data | None) -> Data:
        """The path follows from the name."""
        sandbox = old["sandbox"] if old else inputs["sandbox"]
        path = UNKNOWN if is_unknown(sandbox) else str(self._folder(sandbox).path)
        return {"path": path, "findings": []}

    def create(self, inputs: Data) -> tuple[str, Data]:
        """Make the folder."""
        return inputs["sandbox"], self.update(inputs["sandbox"], {}, inputs)

    def read(self, resource_id: str, state: Data) -> Data:  # noqa: ARG002
        """The folder as it is."""
        folder = self._folder(resource_id)
        return {"path": str(folder.path), "findings": folder.findings()}

    def update(self, resource_id: str, old: Data, new: Data) -> Data:  # noqa: ARG002
        """Make it again, or mend it."""
        self._folder(resource_id).apply()
        return self.read(resource_id, new)

    def delete(self, resource_id: str, state: Data) -> None:  # noqa: ARG002
        """The log goes with its sandbox."""
        self._folder(resource_id).remove()
