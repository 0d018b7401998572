"""Where things stand: in a checkout, in the user's cache and on the host.

Versions are read from the files that pin them, so that each stands in one place.
"""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from abox.errors import SettingsError
from abox.host_state import STATE_DIR

HOST_STATE = Path(STATE_DIR)
"""State of this host: leases, sandboxes, the engine's log."""

HOST_RUN = Path("/run/abox")
"""Process ids and locks of this host."""

PLUGINS = ("docker", "command", "libvirt")
"""Resource plugins that the program uses; each has a stand-in in `toolchain/plugins/`."""


@dataclass(frozen=True)
class Checkout:
    """A checkout of this repository and the state that it keeps in `.abox/`."""

    root: Path

    @property
    def state(self) -> Path:
        """All that is made in the checkout; `make clean` removes it."""
        return self.root / ".abox"

    @property
    def venv(self) -> Path:
        """Virtual environment of the program, the provider, the policy pack and the tests."""
        return self.state / "venv"

    @property
    def python(self) -> Path:
        """Interpreter of the virtual environment."""
        return self.venv / "bin" / "python"

    @property
    def bin(self) -> Path:
        """Commands: pulumi and what belongs to it, if it isn't the user's own, and abox."""
        return self.state / "bin"

    @property
    def pulumi_home(self) -> Path:
        """Pulumi's own folder: plugins, selected stacks."""
        return self.state / "pulumi"

    @property
    def backend(self) -> Path:
        """Folder of the stacks' states."""
        return self.state / "state"

    @property
    def passphrase(self) -> Path:
        """Passphrase that encrypts the stacks' secrets."""
        return self.state / "passphrase"

    @property
    def stamps(self) -> Path:
        """Content hashes of what each finished step was made from."""
        return self.state / "stamps"

    @property
    def toolchain(self) -> Path:
        """Sources of this package."""
        return self.root / "toolchain"

    @property
    def go_module(self) -> Path:
        """Go module that pins the CLI."""
        return self.toolchain / "go"

    @property
    def requirements(self) -> Path:
        """Folder of the pinned Python requirements."""
        return self.root / "requirements"

    def stack_file(self, stack: str) -> Path:
        """Configuration of a stack."""
        return self.root / "stacks" / f"Pulumi.{stack}.yaml"

    @property
    def pulumi_version(self) -> str:
        """Version of the CLI that go.mod pins, without `v`."""
        return self._pinned(
            self.go_module / "go.mod", r"github\.com/pulumi/pulumi/pkg/v3 v(\d+\.\d+\.\d+)$"
        )

    def plugin_version(self, name: str) -> str:
        """Version of a resource plugin: that of its SDK in the requirements."""
        lock = self.requirements / "runtime.txt"
        return self._pinned(lock, rf"pulumi-{re.escape(name)}==(\d+\.\d+\.\d+)\b")

    @staticmethod
    def _pinned(path: Path, pattern: str) -> str:
        """The version in the first line that the pattern is found in."""
        found = re.search(pattern, path.read_text(), re.MULTILINE)
        if found is None:
            raise SettingsError(
                what=f"{path}: no line matches {pattern!r}",
                why="the toolchain reads the version from there",
                remedy="restore the file from the repository",
            )
        return found.group(1)


def this_checkout() -> Checkout:
    """The checkout that this file belongs to."""
    return Checkout(Path(__file__).resolve().parent.parent)


def user_cache() -> Path:
    """Folder of what all checkouts of a user share."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "abox"
