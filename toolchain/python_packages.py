"""What is installed in a Python environment.

This file imports the standard library only: run as a script by any interpreter, it prints what
that interpreter sees as JSON.
"""

import importlib.metadata
import json
import re
import sys
from dataclasses import asdict, dataclass
from typing import Any

PLUGIN_FILE = "pulumi-plugin.json"
"""File in which a Pulumi SDK names the resource plugin that it needs."""


@dataclass(frozen=True, kw_only=True)
class Distribution:
    """One installed distribution."""

    name: str
    """Normalised: lower case, dashes."""
    version: str
    requires: list[str]
    """Normalised names of the distributions that it needs; optional ones are left out."""
    plugins: list[dict[str, Any]]
    """What its `pulumi-plugin.json` files say, as far as they ask for a resource plugin."""


def normalise(name: str) -> str:
    """A distribution's name as package indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def installed() -> list[Distribution]:
    """What this interpreter sees, sorted by name; of a name found twice the first on its path."""
    found: dict[str, Distribution] = {}
    for distribution in importlib.metadata.distributions():
        name = normalise(distribution.metadata["Name"] or "")
        if name and name not in found:
            found[name] = Distribution(
                name=name,
                version=distribution.version,
                requires=_requirements(distribution),
                plugins=_plugins(distribution),
            )
    return sorted(found.values(), key=lambda each: each.name)


def _requirements(distribution: importlib.metadata.Distribution) -> list[str]:
    """Names that a distribution needs in any case."""
    needed = []
    for line in distribution.requires or []:
        requirement, _, marker = line.partition(";")
        match = re.match(r"[A-Za-z0-9._-]+", requirement.strip())
        if match and "extra" not in marker:
            needed.append(normalise(match.group()))
    return needed


def _plugins(distribution: importlib.metadata.Distribution) -> list[dict[str, Any]]:
    """Resource plugins that a distribution asks for, from the top of its packages."""
    plugins = []
    for path in distribution.files or []:
        if path.name == PLUGIN_FILE and len(path.parts) == 2:
            plugin = json.loads(path.read_text())
            if plugin.get("resource") and plugin.get("name"):
                plugins.append(plugin)
    return plugins


if __name__ == "__main__":
    sys.stdout.write(json.dumps([asdict(each) for each in installed()]))
