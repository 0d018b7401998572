"""The Docker stand-in's provider: configuration and the four resource kinds."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import urlsplit

from typing_extensions import override

from toolchain.plugins.bridge.check import Failure
from toolchain.plugins.bridge.provider import BridgedProvider
from toolchain.plugins.bridge.resource import Resource, ResourceKind
from toolchain.plugins.docker import container, network, remote_image, volume
from toolchain.plugins.docker.engine_api import SCHEMES, Engine
from toolchain.plugins.wire_values import Value

NAME: Final = "docker"
VERSION: Final = "5.2.0"
"""Version of the official plugin that this one stands in for."""

DEFAULT_HOST: Final = "unix:///var/run/docker.sock"
"""Where the engine is if neither the configuration nor DOCKER_HOST says so."""

IGNORED_KEYS: Final = frozenset({"version", "pluginDownloadURL"})
"""Configuration that the engine adds for itself."""

RESOURCES: Final[Mapping[str, Callable[[Engine], Resource]]] = {
    container.KIND.token: container.Container,
    network.KIND.token: network.Network,
    remote_image.KIND.token: remote_image.RemoteImage,
    volume.KIND.token: volume.Volume,
}


class DockerProvider(BridgedProvider):
    """Containers, networks, images and volumes of the engine that the configuration names."""

    def __init__(self) -> None:
        kinds = (container.KIND, network.KIND, remote_image.KIND, volume.KIND)
        super().__init__(NAME, VERSION, kinds)
        self._engine = Engine(os.environ.get("DOCKER_HOST") or DEFAULT_HOST)

    @override
    def check_configuration(self, news: Mapping[str, Value]) -> list[Failure]:
        """Keys that aren't implemented, and addresses that can't be reached this way."""
        failures = [
            Failure(key, f"{key!r} is not implemented by this stand-in of the official plugin")
            for key in sorted(news.keys() - IGNORED_KEYS - {"host", "disableDockerDaemonCheck"})
        ]
        host = news.get("host")
        if isinstance(host, str) and urlsplit(host).scheme not in SCHEMES:
            schemes = ", ".join(f"{scheme}://" for scheme in SCHEMES)
            failures.append(Failure("host", f"{host!r} is not an address with one of {schemes}"))
        return failures

    @override
    def configure(self, arguments: Mapping[str, Value]) -> None:
        """Point to the engine; the first call finds out whether it answers."""
        host = arguments.get("host") or os.environ.get("DOCKER_HOST") or DEFAULT_HOST
        unchecked = arguments.get("disableDockerDaemonCheck") in (True, "true")
        self._engine = Engine(str(host), checked=not unchecked)

    @override
    def resource(self, kind: ResourceKind) -> Resource:
        """The resource on the configured engine."""
        return RESOURCES[kind.token](self._engine)
