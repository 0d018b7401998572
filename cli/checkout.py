"""The checkout that a command works on: its folder, its stacks, the environment of its tools."""

import difflib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from abox.errors import SettingsError
from abox.naming import is_name
from toolchain.environment import process_environment
from toolchain.layout import Checkout as ToolchainCheckout

ROOT_VARIABLE = "ABOX_ROOT"
CHANGEABLE = (
    "PULUMI_BACKEND_URL",
    "PULUMI_HOME",
    "PULUMI_CONFIG_PASSPHRASE_FILE",
    "PULUMI_CONFIG_PASSPHRASE",
)
"""Variables that a user may set to something else after `make -s env`."""

PROJECT_FILE = "Pulumi.yaml"
STACK_FOLDER = "stacks"
"""As `stackConfigDir` in Pulumi.yaml says."""

OWN_ROOT = Path(__file__).resolve().parent.parent
"""The checkout that this command itself belongs to."""


@dataclass(frozen=True)
class Checkout:
    """A folder that holds the project."""

    root: Path

    def stack_file(self, stack: str) -> Path:
        """Settings of one stack."""
        return self.root / STACK_FOLDER / f"Pulumi.{stack}.yaml"

    def stacks(self) -> list[str]:
        """Names of the stacks that have a settings file, sorted."""
        files = (self.root / STACK_FOLDER).glob("Pulumi.*.yaml")
        names = (file.name.removeprefix("Pulumi.").removesuffix(".yaml") for file in files)
        return sorted(name for name in names if is_name(name))

    def environment(self) -> dict[str, str]:
        """This process's variables with what Pulumi needs: what `make -s env` prints, applied.

        In a shell that has them already, what the user has changed since holds: `abox` must work
        on the same state as the user's own `pulumi`.
        """
        found = process_environment(ToolchainCheckout(self.root), os.environ)
        if os.environ.get(ROOT_VARIABLE) == str(self.root):
            found |= {name: os.environ[name] for name in CHANGEABLE if name in os.environ}
        return found


def find_checkout(environment: Mapping[str, str], folder: Path) -> Checkout:
    """The checkout meant: ABOX_ROOT, else the nearest folder upwards, else this command's own.

    Raises:
        SettingsError: ABOX_ROOT is set and is no checkout.
    """
    named = environment.get(ROOT_VARIABLE)
    if named:
        if not _is_checkout(Path(named)):
            raise SettingsError(
                what=f"{ROOT_VARIABLE}={named} is no checkout of abox",
                why=f"there is no {PROJECT_FILE} of a project called abox in it",
                remedy=f"unset {ROOT_VARIABLE}, or set it to the folder that holds {PROJECT_FILE}",
            )
        return Checkout(Path(named).resolve())
    for candidate in (folder, *folder.parents):
        if _is_checkout(candidate):
            return Checkout(candidate.resolve())
    return Checkout(OWN_ROOT)


def current_checkout() -> Checkout:
    """The checkout meant by this process's environment and working directory."""
    return find_checkout(os.environ, Path.cwd())


def _is_checkout(folder: Path) -> bool:
    """Whether a folder holds the Pulumi project called abox."""
    try:
        text = (folder / PROJECT_FILE).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return False
    return any(line.split("#")[0].strip() in _NAME_LINES for line in text.splitlines())


_NAME_LINES = frozenset({"name: abox", "name: 'abox'", 'name: "abox"'})


def unknown_stack(stack: str, known: Iterable[str]) -> SettingsError:
    """Error for a name that is no stack; it lists those that are, the nearest first."""
    names = sorted(known)
    near = difflib.get_close_matches(stack, names, n=1)
    meant = f"did you mean {near[0]}? " if near else ""
    listed = ", ".join(names) if names else "none yet: write stacks/Pulumi.NAME.yaml"
    return SettingsError(
        what=f"there is no stack called {stack!r}",
        why="neither a settings file in stacks/ nor a container on this host has that name",
        remedy=f"{meant}known stacks: {listed}",
    )
