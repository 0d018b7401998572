"""Real containers and networks for the provider's resources, under the tests' prefix."""

from __future__ import annotations

import contextlib
import json
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import docker.errors
import pytest
from docker.types import IPAMConfig, IPAMPool

from provider import host
from provider.container_posture import ContainerPosture
from provider.engine import Engine
from provider.posture import Expected, findings
from tests.host import ROOT

SLEEP = ["/usr/bin/tini", "--", "sleep", "infinity"]
PIDS_LIMIT = 64
MEMORY_MB = 64
POOL_V6 = "fd21:3000:0"
"""Networks of IPv6 of these tests, out of the range of leases."""


@dataclass
class Bench:
    """Makes containers and networks, and takes them all away."""

    engine: Engine
    prefix: str = field(default_factory=lambda: f"abxt-{secrets.token_hex(3)}")
    containers: list[str] = field(default_factory=list)
    networks: list[str] = field(default_factory=list)
    volumes: list[str] = field(default_factory=list)

    @property
    def image(self) -> str:
        """Id of an image that every checkout has built."""
        lock = json.loads((ROOT / ".abox" / "images.lock.json").read_text())
        return str(lock["base"]["id"])

    def network(
        self, number: int, *, labels: dict[str, str] | None = None, ipv6: bool = False, **options
    ) -> str:
        """An internal /24 out of the range of leases, and a /64 beside it if wanted."""
        name = f"{self.prefix}-{len(self.networks)}"
        block = (f"10.213.{number}.0/24", f"10.213.{number}.1")
        made = self.engine.create_network(
            name,
            driver="bridge",
            internal=options.pop("internal", True),
            ipam=IPAMConfig(
                pool_configs=[
                    IPAMPool(subnet=block[0], gateway=block[1]),
                    *([IPAMPool(subnet=f"{POOL_V6}:{number:x}::/64")] if ipv6 else []),
                ]
            ),
            enable_ipv6=ipv6,
            labels=labels,
            **options,
        )
        self.networks.append(made["Id"])
        return made["Id"]

    def container(
        self, *, image=None, start=True, networks=None, command=SLEEP, labels=None, **settings
    ):
        """A container as hardened as the program's, except for `settings` of its host part."""
        hardened = {
            "cap_drop": ["ALL"],
            "security_opt": ["no-new-privileges:true"],
            "read_only": True,
            "pids_limit": PIDS_LIMIT,
            "mem_limit": MEMORY_MB * 1024 * 1024,
            "memswap_limit": MEMORY_MB * 1024 * 1024,
            "network_mode": next(iter(networks)) if networks else "none",
        }
        config: dict[str, Any] = {
            key: settings.pop(key) for key in ("environment", "user") if key in settings
        }
        if networks:
            first, address = next(iter(networks.items()))
            # The stubs want one endpoint, the SDK a map of them.
            endpoints: Any = {first: self.engine.create_endpoint_config(ipv4_address=address)}
            config["networking_config"] = self.engine.create_networking_config(endpoints)
        made = self.engine.create_container(
            image or self.image,
            command=command,
            name=f"{self.prefix}-c{len(self.containers)}",
            host_config=self.engine.create_host_config(**{**hardened, **settings}),
            labels=labels,
            **config,
        )
        self.containers.append(made["Id"])
        if start:
            self.engine.start(made["Id"])
        return made["Id"]

    def expected(self, **fields) -> Expected:
        """What the program would ask of `container`."""
        asked = {
            "image": self.image,
            "command": SLEEP,
            "pids_limit": PIDS_LIMIT,
            "memory_mb": MEMORY_MB,
        }
        return Expected.parse({**asked, **fields})

    def posture(self, container: str, expected: Expected) -> ContainerPosture:
        return ContainerPosture(container, expected, host.engine, host.network_namespace)

    def texts(self, posture: ContainerPosture) -> list[str]:
        """Findings in words."""
        facts = posture.read()
        assert facts is not None
        return [finding.text for finding in findings(posture.expected, facts)]

    def run(self, container: str, *command: str) -> int:
        """Exit code of a command in a container."""
        return self.engine.exec_with_input(
            container, list(command), stdin=b"", timeout_s=10
        ).exit_code

    def clean(self) -> None:
        for container in self.containers:
            with contextlib.suppress(docker.errors.NotFound):
                self.engine.remove_container(container, force=True, v=True)
        for network in self.networks:
            with contextlib.suppress(docker.errors.NotFound):
                self.engine.remove_network(network)
        for volume in self.volumes:
            with contextlib.suppress(docker.errors.NotFound):
                self.engine.remove_volume(volume, force=True)


@pytest.fixture
def bench() -> Iterator[Bench]:
    """Makes containers and networks for one test."""
    made = Bench(host.engine())
    try:
        yield made
    finally:
        made.clean()
