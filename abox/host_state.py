"""Where abox keeps what it knows of a host: names only, no look at the disk."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath, PurePosixPath
from typing import TypeVar

from abox.naming import check_name, is_name

AnyPath = TypeVar("AnyPath", bound=PurePath)

STATE_DIR = "/var/lib/abox"
"""Leases, records and logs of this host's sandboxes."""
POOLS = "/var/lib/libvirt/images/abox"
"""Holds one folder of disks for each VM; QEMU's user may enter it."""
LIBVIRT_URI = "qemu:///system"
"""Where libvirt's daemon of the whole host answers: VMs are never a user session's."""
STATE_VARIABLE = "ABOX_STATE_DIR"
"""Variable that names another folder."""


def state_dir(environment: Mapping[str, str]) -> PurePosixPath:
    """Folder of the host's state.

    Args:
        environment: variables of the process that asks.
    """
    return PurePosixPath(environment.get(STATE_VARIABLE) or STATE_DIR)


def disk_folder(sandbox: str) -> str:
    """Folder of a VM's disks.

    Raises: SettingsError if that isn't a sandbox's name.
    """
    return f"{POOLS}/{check_name(sandbox)}"


def instance_dir(state: AnyPath, sandbox: str) -> AnyPath:
    """The instance directory: what belongs to one sandbox.

    Raises: SettingsError if that isn't a sandbox's name.
    """
    return state / "sandboxes" / check_name(sandbox)


def key_log(state: AnyPath, sandbox: str) -> AnyPath:
    """File with the TLS keys of a capture, in the format that tshark reads (NSS key log).

    Raises: SettingsError if that isn't a sandbox's name.
    """
    return instance_dir(state, sandbox) / "logs" / "keys.log"


def verdict_log(state: AnyPath, sandbox: str) -> AnyPath:
    """Folder of the verdict log, which the gateway writes: beside what is root's alone.

    Raises: SettingsError if that isn't a sandbox's name.
    """
    return instance_dir(state, sandbox) / "logs" / "verdicts"


def is_verdict_log(path: str) -> bool:
    """Whether a path is the verdict log of a sandbox, in the usual place and spelling."""
    parts = path.split("/")
    sandbox = parts[-3] if len(parts) > 3 else ""
    return is_name(sandbox) and path == str(verdict_log(PurePosixPath(STATE_DIR), sandbox))


def monitor_socket(state: AnyPath, sandbox: str) -> AnyPath:
    """Socket that the monitor port of a sandbox's VM connects to while somebody listens there.

    Raises: SettingsError if that isn't a sandbox's name.
    """
    return instance_dir(state, sandbox) / "monitor" / "port"


def last_heartbeat(state: AnyPath, sandbox: str) -> AnyPath:
    """File with the last heartbeat that a reader of the monitor port saw.

    Raises: SettingsError if that isn't a sandbox's name.
    """
    return monitor_socket(state, sandbox).parent / "last.json"


def ssh_config(state: AnyPath, sandbox: str) -> AnyPath:
    """Settings by which ssh on this host reaches a sandbox's VM; key and known host lie beside.

    Raises: SettingsError if that isn't a sandbox's name.
    """
    return instance_dir(state, sandbox) / "ssh" / "config"
