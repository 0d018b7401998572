"""Stand-ins for the official provider plugins, for where those can't be downloaded.

They take the same types, properties, defaults and ids as the official ones and are installed
under the same names and versions: `pulumi plugin install resource NAME VERSION --file DIR`, DIR
being made by `assemble`.
"""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path
from typing import Final

VERSIONS: Final = {"docker": "5.2.0", "command": "1.2.1"}
"""Name of each stand-in and the version of the official plugin that it stands in for."""

_SHARED: Final = ("__init__.py", "server.py", "wire_values.py", "bridge")
_HERE: Final = Path(__file__).resolve().parent

_LAUNCHER: Final = """\
#!/bin/sh
# The CLI starts this file and talks to what it becomes.
exec {python} -I "$(dirname "$0")/__main__.py" "$@"
"""

_ENTRY: Final = """\
\"""Entry point of the installed stand-in: the code lies beside this file.\"""

import runpy
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
runpy.run_module("toolchain.plugins.{name}", run_name="__main__", alter_sys=True)
"""


def assemble(name: str, target: Path, *, python: Path | None = None) -> Path:
    """Write a folder that `pulumi plugin install ... --file` takes as the plugin `name`.

    Args:
        name: a key of `VERSIONS`.
        target: folder to write; what it holds is replaced.
        python: interpreter of an environment with Pulumi's Python SDK, default: the running one.

    Returns: the folder.
    Raises: KeyError: there is no stand-in of that name.
    """
    version = VERSIONS[name]
    shutil.rmtree(target, ignore_errors=True)
    code = target / "toolchain" / "plugins"
    code.mkdir(parents=True)
    (target / "toolchain" / "__init__.py").touch()
    for part in (*_SHARED, name):
        _copy(_HERE / part, code / part)
    (target / "__main__.py").write_text(_ENTRY.format(name=name))
    (target / "VERSION").write_text(f"{version}\n")
    launcher = target / f"pulumi-resource-{name}"
    launcher.write_text(_LAUNCHER.format(python=shlex.quote(str(python or sys.executable))))
    launcher.chmod(0o755)
    return target


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        shutil.copyfile(source, target)
