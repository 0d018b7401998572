"""The libvirt stand-in's provider: configuration and the three resource kinds."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Final

from typing_extensions import override

from toolchain.plugins.bridge.check import Failure
from toolchain.plugins.bridge.provider import BridgedProvider
from toolchain.plugins.bridge.resource import Resource, ResourceError, ResourceKind
from toolchain.plugins.bridge.traits import BRIDGE_3_102
from toolchain.plugins.libvirt import domain, pool, volume
from toolchain.plugins.libvirt.client import Client
from toolchain.plugins.wire_values import Value

NAME: Final = "libvirt"
VERSION: Final = "0.5.4"
"""Version of the official plugin that this one stands in for."""

URI_VARIABLE: Final = "LIBVIRT_DEFAULT_URI"
"""Where libvirt is, if the configuration doesn't say so."""

IGNORED_KEYS: Final = frozenset({"version", "pluginDownloadURL"})
"""Configuration that the engine adds for itself."""

LOCAL: Final = ("qemu:///", "test:///")
"""Addresses of this host's own libvirt; remote ones aren't implemented."""

RESOURCES: Final[Mapping[str, Callable[[Client], Resource]]] = {
    domain.KIND.token: domain.Domain,
    pool.KIND.token: pool.Pool,
    volume.KIND.token: volume.Volume,
}


class LibvirtProvider(BridgedProvider):
    """Pools, volumes and domains of the libvirt that the configuration names."""

    def __init__(self) -> None:
        kinds = (domain.KIND, pool.KIND, volume.KIND)
        super().__init__(NAME, VERSION, kinds, BRIDGE_3_102)
        self._client: Client | None = None

    @override
    def check_configuration(self, news: Mapping[str, Value]) -> list[Failure]:
        """Keys that aren't implemented, and addresses that can't be reached this way."""
        failures = [
            Failure(key, f"{key!r} is not implemented by this stand-in of the official plugin")
            for key in sorted(news.keys() - IGNORED_KEYS - {"uri"})
        ]
        uri = news.get("uri")
        if isinstance(uri, str) and not uri.startswith(LOCAL):
            known = ", ".join(LOCAL)
            failures.append(Failure("uri", f"{uri!r} is no address on this host: {known}"))
        return failures

    @override
    def configure(self, arguments: Mapping[str, Value]) -> None:
        """Point to libvirt; the first call finds out whether it answers."""
        uri = arguments.get("uri") or os.environ.get(URI_VARIABLE)
        self._client = Client(str(uri)) if uri else None

    @override
    def resource(self, kind: ResourceKind) -> Resource:
        """The resource on the configured libvirt."""
        if self._client is None:
            raise ResourceError(
                f"no libvirt is configured: set libvirt:uri or {URI_VARIABLE}, for example to "
                "qemu:///system"
            )
        return RESOURCES[kind.token](self._client)
