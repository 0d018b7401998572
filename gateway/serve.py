"""The daemon of ``control``: hands Envoy certificates, and writes the first files of all.

It keeps nothing in memory that isn't in its volumes: after a restart it goes on where it was, and
while it is away Envoy goes on with its last policy and the certificates it has.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from abox.name_shape import HEALTH_NAME
from abox.name_table import NameTable
from abox.render.paths import NAMES_FILE, READY_FILE, SDS_SOCKET, VALUES_DIR, VALUES_SOCKET
from gateway.authority import Authority
from gateway.files import read_file
from gateway.secrets import Found, SecretService, start_server
from gateway.values import Values
from gateway.watched_file import WatchedFile

POLL_S = 0.5
"""Seconds between two looks at the files of the authority and of the values."""
HELD_LEAVES = 256
"""Leaf certificates that Envoy holds: an agent makes names up below a wildcard without end."""
COLLECTOR_PAUSE_S = 1.0
"""Seconds before a collector that ended is started again."""
STOP_S = 1.5
"""Seconds that it has to write what it holds; the engine waits two."""
_LOG = logging.getLogger(__name__)
CERTIFICATE_NAME, KEY_NAME = "ca.pem", "ca.key"


def may_mint(names: WatchedFile[NameTable]) -> Callable[[str], bool]:
    """Certificates are made for names that the policy allows, and for the health name."""
    return lambda name: name == HEALTH_NAME or names.value().allows(name.lower())


@dataclass
class Certificates:
    """Leaf certificates for the names that may have one, from the authority in force."""

    may_mint: Callable[[str], bool]
    authority: Authority | None = None

    def find(self, name: str) -> Found | None:
        """Version and certificate for the proxy."""
        if self.authority is None or not self.may_mint(name):
            return None
        leaf = self.authority.leaf(name)
        return leaf.version, leaf.certificate


async def serve(ca_folder: Path) -> None:
    """Serve until told to stop."""
    await _write_first_files()
    names = WatchedFile(Path(NAMES_FILE), _read_names, NameTable())
    certificates = Certificates(may_mint(names))
    minting = SecretService(certificates.find, ready=False, held_max=HELD_LEAVES)
    values = Values(Path(VALUES_DIR))
    handing = SecretService(values.find)
    authority = WatchedFile[Authority | None](ca_folder / CERTIFICATE_NAME, _read_authority, None)
    servers = [
        await start_server(minting, Path(SDS_SOCKET)),
        await start_server(handing, Path(VALUES_SOCKET)),
    ]
    stamp = values.stamp()
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(_keep_collecting(stopped))
        while not stopped.is_set():
            found = authority.value()
            if found is not None and found is not certificates.authority:
                certificates.authority, minting.ready = found, True
                minting.renew()
            if (seen := values.stamp()) != stamp:
                stamp = seen
                handing.renew()
            await _happens(stopped, POLL_S)
    for server in servers:
        await server.stop(grace=0.2)


async def _keep_collecting(stopped: asyncio.Event) -> None:
    """Have a collector of the verdict log run; nothing else depends on it."""
    while not stopped.is_set():
        process = await asyncio.create_subprocess_exec("abox-gateway", "collect")
        ended, stop = asyncio.ensure_future(process.wait()), asyncio.ensure_future(stopped.wait())
        await asyncio.wait((ended, stop), return_when=asyncio.FIRST_COMPLETED)
        stop.cancel()
        if stopped.is_set() and process.returncode is None:
            process.terminate()
            await asyncio.wait((ended,), timeout=STOP_S)
        elif not stopped.is_set():
            _LOG.error("the collector of the verdict log ended with %s", process.returncode)
            await _happens(stopped, COLLECTOR_PAUSE_S)


async def _happens(event: asyncio.Event, timeout_s: float) -> None:
    """Wait for an event, but not for ever."""
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(event.wait(), timeout_s)


async def _write_first_files() -> None:
    """A pod that never had a policy denies everything.

    A process of its own renders the files: what it imports doesn't stay in the daemon's memory.
    """
    if Path(READY_FILE).exists():
        return
    process = await asyncio.create_subprocess_exec("abox-gateway", "init")
    if await process.wait() != 0:
        raise OSError("the first files could not be written")


def _read_names(path: Path) -> NameTable:
    return NameTable.from_json(path.read_text())


def _read_authority(path: Path) -> Authority | None:
    key = read_file(path.with_name(KEY_NAME))
    return Authority.from_pem(path.read_bytes(), key) if key is not None else None
