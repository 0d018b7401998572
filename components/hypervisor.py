"""How this host runs VMs: what the toolchain's probe found out."""

from __future__ import annotations

import json
from pathlib import Path

from abox.errors import HostError
from abox.render.domain import ACCELERATED, EMULATED

PROBED = Path("/var/lib/abox/hypervisor/acceleration.json")
"""Written by the probe, which boots a kernel: only that proves hardware virtualisation."""


def host_acceleration(path: Path = PROBED) -> str:
    """Type of the domains that work here: kvm if a probe proved it, else qemu.

    Raises: HostError if the probe's answer can't be read.
    """
    try:
        found = json.loads(path.read_text())["type"]
    except FileNotFoundError:
        return EMULATED
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise _unreadable(path, str(error)) from error
    if found not in (EMULATED, ACCELERATED):
        raise _unreadable(path, f"{found!r} is neither {EMULATED} nor {ACCELERATED}")
    return str(found)


def _unreadable(path: Path, why: str) -> HostError:
    return HostError(
        what=f"{path} can't be read", why=why, remedy="remove the file and run `make vm`"
    )
