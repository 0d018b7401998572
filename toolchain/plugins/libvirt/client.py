"""libvirt by its own client, virsh, with libvirt's own words in errors.

A process a call: it is what Debian packages, needs no bindings built for this Python, and a
daemon that hangs ends in an error instead of a plugin that never answers.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final
from xml.etree import ElementTree as ET

from abox.filter_race import again_if_lost
from toolchain.plugins.bridge.resource import ResourceError
from toolchain.plugins.libvirt.programs import ProgramError, run

TIMEOUT_S: Final = 120.0
"""Time limit of a call: libvirt may look at QEMU first."""

UPLOAD_S: Final = 1200.0
"""Time limit of an upload."""

ERROR: Final = "error: "


class LibvirtError(ResourceError):
    """libvirt refused a call; the text is libvirt's own."""


@dataclass(frozen=True)
class _Guest:
    """What QEMU can run on this host."""

    arch: str
    emulator: str
    machines: Mapping[str, str | None]
    """Name of a machine type to the type that it stands for, None if it is one itself."""


@dataclass
class Client:
    """One libvirt, named by its URI; safe to use from many threads."""

    uri: str
    _pools: defaultdict[str, threading.Lock] = field(
        default_factory=lambda: defaultdict(threading.Lock), init=False
    )
    _known_guest: _Guest | None = field(default=None, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    def call(self, command: str, *arguments: str, timeout_s: float = TIMEOUT_S) -> str:
        """What a command of virsh prints.

        Raises:
            LibvirtError: libvirt refused.
            ResourceError: no virsh, or no answer in time.
        """
        call = ["virsh", "--quiet", "--connect", self.uri, command, *arguments]
        try:
            said = again_if_lost(lambda: run(call, timeout_s=timeout_s), ProgramError, time.sleep)
        except ProgramError as error:
            raise LibvirtError(_reason(str(error))) from error
        return said.strip()

    def call_with(self, command: str, *arguments: str, document: str) -> str:
        """Like `call`, with a document as the last argument."""
        with tempfile.NamedTemporaryFile("w", prefix="abox-libvirt-", suffix=".xml") as file:
            file.write(document)
            file.flush()
            return self.call(command, *arguments, file.name)

    def describe(self, command: str, *arguments: str) -> ET.Element:
        """The XML that a command prints, parsed."""
        return ET.fromstring(self.call(command, *arguments))  # noqa: S314 -- libvirt's own

    def lines(self, command: str, *arguments: str) -> list[str]:
        """The lines that a command prints, empty ones left out."""
        return [
            line.strip() for line in self.call(command, *arguments).splitlines() if line.strip()
        ]

    @contextmanager
    def pool_alone(self, name: str) -> Iterator[None]:
        """One change of a pool at a time: libvirt refuses a refresh while a volume is made."""
        with self._lock:
            lock = self._pools[name]
        with lock:
            yield

    def architecture(self) -> str:
        """Name of this host's processor architecture."""
        return self._guest().arch

    def emulator(self) -> str:
        """Path of QEMU for this host's architecture."""
        return self._guest().emulator

    def canonical_machine(self, arch: str, name: str) -> str:
        """The machine type that a name stands for.

        Raises:
            ResourceError: QEMU knows no such type.
        """
        guest = self._guest()
        if arch != guest.arch:
            raise ResourceError(f"guests of {arch} are not implemented on a host of {guest.arch}")
        if name not in guest.machines:
            raise ResourceError(f"[WARN] Cannot find machine type {name} for hvm/{arch}")
        return guest.machines[name] or name

    def short_machine(self, canonical: str) -> str:
        """The name that stands for a machine type, or the type itself."""
        named = (name for name, meant in self._guest().machines.items() if meant == canonical)
        return next(named, canonical)

    def _guest(self) -> _Guest:
        with self._lock:
            if self._known_guest is None:
                self._known_guest = _guest_of_host(self.describe("capabilities"))
            return self._known_guest


def _reason(said: str) -> str:
    """Message of libvirt itself: the last one that virsh prints, since the first is virsh's."""
    lines = [line.removeprefix(ERROR) for line in said.splitlines() if line.startswith(ERROR)]
    return lines[-1] if lines else said


def _guest_of_host(capabilities: ET.Element) -> _Guest:
    """What QEMU can run on this host's own architecture.

    Raises:
        ResourceError: nothing.
    """
    host = capabilities.findtext("host/cpu/arch") or ""
    for guest in capabilities.iterfind("guest"):
        arch = guest.find("arch")
        if arch is None or guest.findtext("os_type") != "hvm" or arch.get("name") != host:
            continue
        machines = [*arch.iterfind("machine"), *arch.iterfind("domain/machine")]
        return _Guest(
            arch=host,
            emulator=arch.findtext("emulator") or "",
            machines={machine.text or "": machine.get("canonical") for machine in machines},
        )
    raise ResourceError(f"Could not find any guests for architecture type hvm/{host}")
