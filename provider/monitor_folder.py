"""The host's folder in which QEMU looks for the reader of a VM's monitor port."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from abox.errors import HostError
from abox.host_state import monitor_socket
from provider import host
from provider.folder import FolderResource
from provider.host import FolderFacts
from provider.resource import Data, Failure, is_unknown

SOCKET_PATH_MAX = 107
"""Bytes of a unix socket's path (sun_path without its zero byte)."""

MODE = 0o710
"""Root makes the sockets, QEMU's group may reach them by name, and nobody else."""


@dataclass(frozen=True)
class MonitorFolder:
    """The folder of one sandbox.

    ``virsh`` runs the tool and raises HostError with its stderr; ``can_be_entered`` tells whether
    every user may pass through a folder.
    """

    path: Path
    virsh: Callable[..., str]
    can_be_entered: Callable[[Path], bool]

    def findings(self) -> list[str]:
        """In words, what is not as it should be."""
        found, wanted = host.read_folder(self.path), self._wanted()
        if found is None:
            return [f"{self.path} is gone"]
        wrong = [] if found == wanted else [f"{self.path} has {found} instead of {wanted}"]
        if not self.can_be_entered(self.path.parent):
            wrong.append(f"QEMU's user can't pass through {self.path.parent}")
        return wrong

    def apply(self) -> None:
        """Make it, or give it its owner and mode back."""
        host.let_enter(self.path.parent)
        host.make_folder(self.path, self._wanted())
        if left := self.findings():
            raise HostError(
                what=f"the monitor port can't reach {self.path}",
                why="; ".join(left),
                remedy="let every user pass through the folders above (chmod o+x), or remove "
                "monitor.enabled",
            )

    def remove(self) -> None:
        """Remove it with all that is in it."""
        host.remove_folder(self.path, and_above=1)

    def _wanted(self) -> FolderFacts:
        return FolderFacts(owner=0, group=qemu_group(self.virsh("capabilities")), mode=MODE)


def qemu_group(capabilities: str) -> int:
    """Id of the group that libvirt runs QEMU as; root's where it doesn't change it.

    Args:
        capabilities: what libvirt says of the host, in XML.
    """
    # libvirt's own: the parser meets no hostile document.
    root = ElementTree.fromstring(capabilities)  # noqa: S314
    for model in root.iter("secmodel"):
        label = model.findtext("baselabel", "")
        if model.findtext("model") == "dac" and label:
            return int(label.split(":")[1].lstrip("+"))
    return 0


class MonitorFolderResource(FolderResource):
    """Adapter of ``MonitorFolder``."""

    type_name = "MonitorFolder"

    def __init__(
        self,
        virsh: Callable[..., str],
        can_be_entered: Callable[[Path], bool],
        state_dir: Callable[[], Path],
    ) -> None:
        self._virsh = virsh
        self._can_be_entered = can_be_entered
        self._state_dir = state_dir

    def folder(self, sandbox: str) -> MonitorFolder:
        """The folder of a sandbox's monitor port."""
        path = monitor_socket(self._state_dir(), sandbox).parent
        return MonitorFolder(path, self._virsh, self._can_be_entered)

    def problems(self, inputs: Data, old: Data) -> Iterator[Failure]:  # noqa: ARG002
        """A path that no socket can have."""
        if not is_unknown(inputs["sandbox"]):
            length = len(str(monitor_socket(self._state_dir(), inputs["sandbox"])).encode())
            if length > SOCKET_PATH_MAX:
                yield Failure(
                    "sandbox",
                    f"the monitor port's socket would have a path of {length} bytes, and "
                    f"{SOCKET_PATH_MAX} is the most: shorten the folder of the state",
                )
