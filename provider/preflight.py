"""What must be true of the host before anything of a sandbox is made."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import docker.errors

from abox.errors import AboxError, ErrorCollector, HostError
from provider.resource import Data, Failure, Field, Resource, is_unknown

MIN_FREE_MB = 512
"""Free space that the engine's and abox's own folders need for a sandbox to start."""


class Images(Protocol):
    """The part of the engine that is asked."""

    def find_image(self, image: str) -> dict[str, Any] | None:
        """Inspection of an image, None if the engine says that it doesn't exist."""

    def info(self) -> dict[str, Any]:
        """What the engine says about itself."""


VM_TOOLS = ("virsh", "qemu-system-x86_64", "xsltproc", "ssh")
"""Programs that a VM needs on the host."""

VM_MIN_FREE_MB = 2048
"""Free space for the disks of a VM, which grow as the guest writes."""


@dataclass(frozen=True, kw_only=True)
class Hypervisor:
    """The part of the host that runs VMs."""

    virsh: Callable[..., str]
    """Runs libvirt's tool and raises HostError with its stderr."""
    has_tool: Callable[[str], bool]
    memory_mb: Callable[[], int]
    """Memory of the host."""
    file_digest: Callable[[str], str]
    """SHA-256 of a file, remembered until the file changes."""
    is_readable: Callable[[str], bool]
    """Whether every user of the host, and QEMU's with them, may read a file."""


@dataclass(frozen=True)
class Preflight:
    """Looks at privileges, engine, images, free space and the kernel; changes nothing."""

    engine: Callable[[], Images]
    effective_uid: Callable[[], int]
    free_mb: Callable[[str], int]
    """Free megabytes of the file system that a path, or the nearest existing parent, is on."""
    state_dir: Callable[[], str]
    hypervisor: Hypervisor
    has_ipv6: Callable[[], bool]
    """Whether the kernel has IPv6."""

    def errors(self, images: list[str], machine: Data, *, ipv6: bool) -> Iterator[AboxError]:
        """Everything that stands in the way, all at once.

        Args:
            images: ids of images that must be there already.
            machine: what a VM needs; empty: no VM is made.
            ipv6: whether the sandbox needs IPv6 on its egress bridge.
        """
        if ipv6 and not self.has_ipv6():
            yield HostError(
                what="this kernel has no IPv6, which allow_private_cidrs asks for",
                why="the networks of IPv6 in it can only be reached by IPv6",
                remedy="remove them, or boot without ipv6.disable=1",
            )
        if self.effective_uid() != 0:
            yield HostError(
                what="abox has no privileges on this host",
                why="bridges, nftables and the engine need root",
                remedy="run as root, for example with sudo",
            )
        folders = [self.state_dir()]
        try:
            engine = self.engine()
            folders.append(str(engine.info().get("DockerRootDir") or "/var/lib/docker"))
            yield from _missing_images(engine, images)
        except AboxError as error:
            yield error
        except (docker.errors.DockerException, OSError) as error:
            yield HostError(
                what="the Docker engine doesn't answer",
                why=" ".join(str(error).split()),
                remedy="run `make engine`, or start docker",
            )
        yield from self._full_disks(folders, MIN_FREE_MB)
        if machine:
            yield from self._machine_errors(machine)

    def _full_disks(self, folders: list[str], needed_mb: int) -> Iterator[AboxError]:
        for folder in folders:
            if (free := self.free_mb(folder)) < needed_mb:
                yield HostError(
                    what=f"{folder} has {free} MB left",
                    why=f"a sandbox needs {needed_mb} MB to start",
                    remedy="make room, for example with `docker image prune`",
                )

    def _machine_errors(self, machine: Data) -> Iterator[AboxError]:
        missing = [tool for tool in VM_TOOLS if not self.hypervisor.has_tool(tool)]
        if missing:
            yield HostError(
                what=f"backend: vm needs {', '.join(missing)}",
                why="no such program is on PATH",
                remedy="run `make vm`, which installs what VMs need",
            )
        else:
            yield from self._daemon_errors()
        memory_mb = self.hypervisor.memory_mb()
        if machine["memory_mb"] > memory_mb:
            yield HostError(
                what=f"abox:sandbox.vm.memory_mb: {machine['memory_mb']} is refused",
                why=f"this host has {memory_mb} MB",
                remedy="write less",
            )
        yield from self._full_disks([machine["folder"]], VM_MIN_FREE_MB)
        yield from self._image_errors(machine["image"], machine["digest"])

    def _daemon_errors(self) -> Iterator[AboxError]:
        try:
            self.hypervisor.virsh("version", "--daemon")
        except HostError as error:
            yield HostError(
                what="libvirt doesn't answer", why=error.why, remedy="run `make vm`, or start it"
            )

    def _image_errors(self, path: str, digest: str) -> Iterator[AboxError]:
        try:
            found = self.hypervisor.file_digest(path)
        except OSError as error:
            yield HostError(
                what=f"disk image {path} can't be read",
                why=error.strerror or str(error),
                remedy="run `make vm` for abox's own, or put yours in its place",
            )
            return
        if found != digest:
            yield HostError(
                what=f"disk image {path} isn't the one that was named",
                why=f"its digest is sha256:{found} instead of sha256:{digest}",
                remedy="find out who changed it; then name the new digest, or run `make vm` anew",
            )
        if not self.hypervisor.is_readable(path):
            yield HostError(
                what=f"disk image {path} can't be read by QEMU",
                why="QEMU runs as a user of its own, and the file or a folder on the way is closed",
                remedy="move it, for example to /var/lib/libvirt/images, and let everybody read it",
            )


def _missing_images(engine: Images, images: list[str]) -> Iterator[AboxError]:
    for image in images:
        if engine.find_image(image) is None:
            yield HostError(
                what=f"image {image} is missing",
                why="the engine doesn't have it, and an id alone can't be pulled",
                remedy="run `make images` for abox's own, or load yours; or name it name@sha256:…",
            )


class PreflightResource(Resource):
    """Adapter of ``Preflight``: fails at check, so that a preview already tells."""

    type_name = "Preflight"
    fields = (
        Field(name="images", kind=list),
        Field(name="machine", kind=dict, default={}),
        Field(name="ipv6", kind=bool, default=False),
    )

    def __init__(self, preflight: Preflight) -> None:
        self._preflight = preflight

    def problems(self, inputs: Data, old: Data) -> Iterator[Failure]:  # noqa: ARG002
        """What stands in the way of a sandbox on this host."""
        if is_unknown(inputs["machine"]):
            return
        for error in self._errors(inputs):
            yield Failure("images" if "image" in error.what else "", str(error))

    def _errors(self, inputs: Data) -> Iterator[AboxError]:
        images, ipv6 = list(inputs["images"]), inputs.get("ipv6", False)
        return self._preflight.errors(images, inputs["machine"], ipv6=ipv6)

    def planned(self, inputs: Data, old: Data | None) -> Data:  # noqa: ARG002
        """Nothing is made."""
        return {}

    def create(self, inputs: Data) -> tuple[str, Data]:
        """Look once more, since time has passed since the check; nothing is made."""
        found = ErrorCollector()
        found.errors.extend(self._errors(inputs))
        found.raise_all()
        return "preflight", {}

    def read(self, resource_id: str, state: Data) -> Data:  # noqa: ARG002
        """Nothing can drift."""
        return {}

    def update(self, resource_id: str, old: Data, new: Data) -> Data:  # noqa: ARG002
        """Look once more."""
        return self.create(new)[1]

    def delete(self, resource_id: str, state: Data) -> None:
        """Nothing was made."""
