"""The messages of Pulumi's protocol, without the SDK around them.

``import pulumi.runtime.proto`` runs the whole SDK first: as long as everything else that a plugin
of the toolchain imports, and the engine starts its plugins one after another, twice in a run.
"""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType


def take_alone() -> None:
    """Have packages that lead to the messages in place of the SDK's, for this whole process.

    To be called before anything imports ``pulumi``; where that has happened it does nothing.
    """
    found = importlib.util.find_spec("pulumi")
    if "pulumi" in sys.modules or found is None or not found.submodule_search_locations:
        return
    (folder,) = found.submodule_search_locations
    for name, path in (("pulumi", folder), ("pulumi.runtime", f"{folder}/runtime")):
        package = ModuleType(name)
        package.__path__ = [path]
        sys.modules[name] = package
