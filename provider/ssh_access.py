"""What this host needs to log in to a VM: key, known host and settings of ssh, in one folder."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from abox.host_state import ssh_config
from abox.render.ssh import ALIAS, SshSpec, render_config, render_known_hosts
from provider import host
from provider.resource import UNKNOWN, Data, Field, Resource, is_unknown

CONFIG, KEY, KNOWN_HOSTS = "config", "id_ed25519", "known_hosts"


@dataclass(frozen=True)
class SshAccess:
    """The folder of one sandbox; ``write_private`` writes a file for its owner's eyes alone."""

    folder: Path
    write_private: Callable[[Path, str], None]

    def read(self) -> str | None:
        """Digest of the files; None if one is gone."""
        parts = [host.read_file(str(self.folder / name)) for name in (CONFIG, KEY, KNOWN_HOSTS)]
        found = [part.decode(errors="replace") for part in parts if part is not None]
        return digest(found) if len(found) == len(parts) else None

    def write(self, files: dict[str, str]) -> None:
        """Write the files."""
        for name, content in files.items():
            self.write_private(self.folder / name, content)

    def delete(self) -> None:
        """Remove the files and the folder."""
        for name in (CONFIG, KEY, KNOWN_HOSTS):
            host.remove_document(self.folder / name)
        host.remove_empty_folder(self.folder.parent)


def digest(parts: list[str]) -> str:
    """SHA-256 of the files' contents in lower-case hex."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


class SshAccessResource(Resource):
    """Adapter of ``SshAccess``."""

    type_name = "SshAccess"
    fields = (
        Field(name="sandbox", kind=str, replaces=True),
        Field(name="address", kind=str),
        Field(name="user", kind=str),
        Field(name="host_public", kind=str),
        Field(name="private_key", kind=str, secret=True),
    )
    drift_fields: ClassVar = ("live_digest",)

    def __init__(
        self, state_dir: Callable[[], Path], write_private: Callable[[Path, str], None]
    ) -> None:
        self._state_dir = state_dir
        self._write_private = write_private

    def drift(self, state: Data, inputs: Data) -> dict[str, bool]:  # noqa: ARG002
        """Files that aren't what was written."""
        return {"live_digest": False} if state.get("live_digest") != state.get("digest") else {}

    def planned(self, inputs: Data, old: Data | None) -> Data:  # noqa: ARG002
        """Known as soon as the inputs are."""
        if is_unknown(inputs):
            return dict.fromkeys(("config", "digest", "live_digest"), UNKNOWN)
        return self._outputs(inputs)

    def create(self, inputs: Data) -> tuple[str, Data]:
        """Write the files."""
        return inputs["sandbox"], self._apply(inputs)

    def read(self, resource_id: str, state: Data) -> Data | None:  # noqa: ARG002
        """The files beside what was written."""
        live = self._access(state).read()
        if live is None:
            return None
        return {**self._outputs(state), "live_digest": live}

    def update(self, resource_id: str, old: Data, new: Data) -> Data:  # noqa: ARG002
        """Write the files again."""
        return self._apply(new)

    def delete(self, resource_id: str, state: Data) -> None:  # noqa: ARG002
        """Remove the files."""
        self._access(state).delete()

    def _apply(self, inputs: Data) -> Data:
        self._access(inputs).write(self._files(inputs))
        return self._outputs(inputs)

    def _access(self, inputs: Data) -> SshAccess:
        return SshAccess(self._folder(inputs), self._write_private)

    def _folder(self, inputs: Data) -> Path:
        return ssh_config(self._state_dir(), inputs["sandbox"]).parent

    def _files(self, inputs: Data) -> dict[str, str]:
        folder = str(self._folder(inputs))
        spec = SshSpec(
            address=inputs["address"],
            user=inputs["user"],
            key_file=f"{folder}/{KEY}",
            known_hosts_file=f"{folder}/{KNOWN_HOSTS}",
        )
        return {
            CONFIG: render_config(spec),
            KEY: inputs["private_key"],
            KNOWN_HOSTS: render_known_hosts(ALIAS, inputs["host_public"]),
        }

    def _outputs(self, inputs: Data) -> Data:
        files = self._files(inputs)
        written = digest([files[name] for name in (CONFIG, KEY, KNOWN_HOSTS)])
        config = str(self._folder(inputs) / CONFIG)
        return {"config": config, "digest": written, "live_digest": written}
