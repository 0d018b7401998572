"""Stacks of the tests: made by the project's own program, with a state of their own.

The program and the provider are the checkout's; project file, configuration, state and passphrase
stand in a temporary folder, so a user's stacks are never touched.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import yaml

from tests import host
from toolchain.environment import process_environment
from toolchain.layout import Checkout

UP_S = 180
"""Limit of one run of Pulumi."""
DRIFT_CODE = 7
"""Exit code of a preview that expected no changes and found some."""


class Project:
    """A folder that Pulumi takes for the project; a context manager."""

    def __init__(self, *, program: Path | None = None) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="abxt-project-")
        self.path = Path(self._folder.name)
        self.checkout = Checkout(host.ROOT)
        self.extra: dict[str, str] = {}
        self.limit_s: float = UP_S
        """Limit of one run of Pulumi in seconds."""
        self._write(program or host.ROOT)

    def __enter__(self) -> Project:
        """The project."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Remove the folder. Stacks must have been destroyed."""
        self._folder.cleanup()

    def _write(self, program: Path) -> None:
        document = yaml.safe_load((host.ROOT / "Pulumi.yaml").read_text())
        document["main"] = str(program)
        options = document["runtime"]["options"]
        options["virtualenv"] = str(host.ROOT / options["virtualenv"])
        for plugin in document["plugins"]["providers"]:
            plugin["path"] = str(host.ROOT / plugin["path"])
        (self.path / "Pulumi.yaml").write_text(yaml.safe_dump(document))
        (self.path / document["stackConfigDir"]).mkdir()
        (self.path / "state").mkdir()

    @property
    def environment(self) -> dict[str, str]:
        """Variables for Pulumi on this project."""
        variables = process_environment(self.checkout, os.environ)
        variables.pop("PULUMI_CONFIG_PASSPHRASE_FILE", None)
        return {
            **variables,
            "PULUMI_BACKEND_URL": f"file://{self.path / 'state'}?metadata=skip",
            "PULUMI_CONFIG_PASSPHRASE": "abxt",
            "PYTHONDONTWRITEBYTECODE": "1",
            **self.extra,
        }

    def pulumi(
        self, *args: str, check: bool = True, path_first: Path | None = None
    ) -> host.Completed:
        """Run the Pulumi CLI; `path_first` is a folder to find tools in before all others."""
        environment = self.environment
        if path_first is not None:
            environment["PATH"] = f"{path_first}{os.pathsep}{environment['PATH']}"
        return host.run(
            ["pulumi", *args, "--non-interactive", "--color=never"],
            env=environment,
            cwd=self.path,
            timeout_s=self.limit_s,
            check=check,
        )


class Stack:
    """One stack of a project."""

    def __init__(self, project: Project, name: str) -> None:
        self.project, self.name = project, name
        self._known = False

    def configure(self, settings: Mapping[str, Any]) -> None:
        """Write the stack's configuration: the value of ``abox:sandbox``."""
        if not self._known:
            self.project.pulumi("stack", "init", self.name, "--secrets-provider=passphrase")
            self._known = True
        path = self.project.path / "stacks" / f"Pulumi.{self.name}.yaml"
        document = yaml.safe_load(path.read_text()) if path.exists() else {}
        document = document or {}
        document.setdefault("config", {})["abox:sandbox"] = dict(settings)
        path.write_text(yaml.safe_dump(document))

    def state_file(self) -> Path:
        """Where Pulumi keeps what it knows of the stack."""
        return self.project.path / "state" / ".pulumi" / "stacks" / "abox" / f"{self.name}.json"

    def up(self, *, check: bool = True, path_first: Path | None = None) -> host.Completed:
        """Bring it to what its configuration says."""
        return self.project.pulumi(
            "up",
            "--yes",
            "--skip-preview",
            "--stack",
            self.name,
            check=check,
            path_first=path_first,
        )

    def preview(self, *flags: str) -> host.Completed:
        """A refreshing preview."""
        return self.project.pulumi("preview", "--stack", self.name, *flags, check=False)

    def drifted(self) -> bool:
        """Whether a refreshing preview reports a change.

        Raises: CommandError if the preview fails for another reason.
        """
        done = self.preview("--expect-no-changes")
        if done.code not in (0, DRIFT_CODE):
            raise host.CommandError(done)
        return done.code == DRIFT_CODE

    def destroy(self, *, check: bool = True) -> host.Completed:
        """Take everything away."""
        return self.project.pulumi(
            "destroy", "--yes", "--skip-preview", "--stack", self.name, check=check
        )

    def outputs(self) -> dict[str, Any]:
        """The stack's outputs."""
        done = self.project.pulumi("stack", "output", "--json", "--stack", self.name)
        outputs: dict[str, Any] = json.loads(done.stdout)
        return outputs

    def export(self) -> host.Completed:
        """The stored state."""
        return self.project.pulumi("stack", "export", "--stack", self.name)

    def secret_outputs(self) -> dict[str, Any]:
        """Resources of the stored state with their secrets in the clear."""
        done = self.project.pulumi("stack", "export", "--show-secrets", "--stack", self.name)
        state: dict[str, Any] = json.loads(done.stdout)
        return state

    def remove(self) -> None:
        """Destroy it and forget it; for the end of a test, so nothing stops it."""
        if self._known:
            if self.destroy(check=False).code != 0:  # of a run that was killed the lock is left
                self.project.pulumi("cancel", "--yes", "--stack", self.name, check=False)
                self.destroy(check=False)
            self.project.pulumi("stack", "rm", "--yes", "--force", self.name, check=False)
            self._known = False
