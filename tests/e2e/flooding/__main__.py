"""The project's program with a VM that boots from another initial root filesystem.

``ABXT_INITRD`` is its path. All else of the VM is as the program makes it.
"""

import os
import runpy
import sys
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT))

from abox.settings import VmSettings  # noqa: E402
from components import images  # noqa: E402
from components.vm import Machine  # noqa: E402

read = images.read_machine


def read_flooding(root: Path, settings: VmSettings, acceleration: str) -> Machine:
    """What the program reads, but for the initial root filesystem."""
    return replace(read(root, settings, acceleration), initrd=os.environ["ABXT_INITRD"])


images.read_machine = read_flooding
runpy.run_path(str(ROOT / "__main__.py"), run_name="__main__")
