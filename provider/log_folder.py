"""The host's folder that a sandbox's verdict log is kept in: it outlives the pod's containers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from abox.host_state import verdict_log
from abox.naming import LABEL_ROLE, LABEL_SANDBOX, Role
from abox.pod import CONTROL_ID
from provider import host
from provider.engine import Engine
from provider.folder import FolderResource
from provider.host import FolderFacts, docker_errors

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


class LogFolderResource(FolderResource):
    """Adapter of ``LogFolder``."""

    type_name = "LogFolder"

    def __init__(self, engine: Callable[[], Engine], state_dir: Callable[[], Path]) -> None:
        self._engine = engine
        self._state_dir = state_dir

    def folder(self, sandbox: str) -> LogFolder:
        """The folder of a sandbox's verdict log."""
        return LogFolder(verdict_log(self._state_dir(), sandbox), sandbox, self._engine)
