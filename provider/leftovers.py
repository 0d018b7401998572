"""Takes away what bears a sandbox's label or bridge name and isn't in any stack's state.

Containers, networks and volumes belong to pulumi-docker. Here only orphans go: what an
interrupted run made and didn't record, and hand-made twins of a bridge that block its repair.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import docker.errors

from abox.naming import LABEL_ROLE, LABEL_SANDBOX
from provider.engine import Engine
from provider.host import bridge_of, docker_errors, is_empty_folder


@dataclass(frozen=True)
class Leftovers:
    """Orphans in one Docker engine."""

    engine: Callable[[], Engine]

    def remove(self, sandbox: str) -> None:
        """Remove the containers and networks that are labelled with ``sandbox``.

        Only right where the stack holds nothing of the sandbox that depends on its lease: before
        its first resource, or after its last. Volumes stay: they don't depend on the lease, so
        a lease that is replaced would take the user's files along.
        """
        chosen = {"label": f"{LABEL_SANDBOX}={sandbox}"}
        with docker_errors(f"take away what is left of sandbox {sandbox!r}"):
            engine = self.engine()
            for container in engine.containers(all=True, filters=chosen):
                engine.remove_container(container["Id"], force=True, v=True)
            for network in engine.networks(filters=chosen):
                self._remove_network(engine, network["Id"])

    def remove_volumes(self, sandbox: str) -> None:
        """Remove the volumes that are labelled with ``sandbox``, unused and empty.

        A volume that a run made and couldn't record was never mounted. One that holds anything
        is what an agent worked on, in a stack whose state was lost: it stays.
        """
        chosen = {"label": f"{LABEL_SANDBOX}={sandbox}", "dangling": True}
        with docker_errors(f"take away empty volumes of sandbox {sandbox!r}"):
            engine = self.engine()
            for volume in engine.volumes(filters=chosen)["Volumes"] or []:
                if is_empty_folder(Path(volume["Mountpoint"])):
                    with contextlib.suppress(docker.errors.NotFound):
                        engine.remove_volume(volume["Name"])

    def remove_twins(self, sandbox: str, interfaces: tuple[str, ...]) -> None:
        """Remove Docker networks that hold a bridge name of the sandbox without its label."""
        with docker_errors(f"take away hand-made twins of the bridges of sandbox {sandbox!r}"):
            engine = self.engine()
            for network in engine.networks():
                ours = (network.get("Labels") or {}).get(LABEL_SANDBOX) == sandbox
                if bridge_of(network) in interfaces and not ours:
                    self._remove_network(engine, network["Id"])

    def stray_networks(self, sandbox: str, recorded: Mapping[str, str | None]) -> list[str]:
        """Labelled networks that hold a bridge of the sandbox and aren't the recorded one.

        Args:
            sandbox: name of the sandbox.
            recorded: recorded network of each bridge, None if there is no record. Then only an
                empty network counts: it may be the stack's own with its record lost.
        """
        with docker_errors(f"look for unfinished networks of sandbox {sandbox!r}"):
            engine = self.engine()
            found = engine.networks(filters={"label": f"{LABEL_SANDBOX}={sandbox}"})
            candidates = [n for n in found if recorded.get(bridge_of(n), n["Id"]) != n["Id"]]
            return sorted(
                network["Id"]
                for network in candidates
                if recorded[bridge_of(network)] is not None
                or not engine.inspect_network(network["Id"]).get("Containers")
            )

    def all_networks_stand(self, networks: Iterable[str | None]) -> bool:
        """Whether all of these ids are of networks that exist."""
        with docker_errors("look for recorded networks"):
            return all(each and self.engine().find_network(each) for each in networks)

    def remove_networks(self, networks: list[str]) -> None:
        """Remove networks, whoever is connected; one that is gone is no error."""
        with docker_errors("remove unfinished networks"):
            for network in networks:
                with contextlib.suppress(docker.errors.NotFound):
                    self._remove_network(self.engine(), network)

    def strays(self, sandbox: str, role: str, held: str) -> list[str]:
        """Ids of containers that are labelled with a role of the sandbox, other than ``held``."""
        chosen = {"label": [f"{LABEL_SANDBOX}={sandbox}", f"{LABEL_ROLE}={role}"]}
        with docker_errors(f"look for unfinished containers of sandbox {sandbox!r}"):
            found = self.engine().containers(all=True, filters=chosen)
        return sorted(each["Id"] for each in found if each["Id"] != held)

    def silence_containers(self, containers: list[str]) -> None:
        """Stop containers and free their addresses, but leave their removal to who holds them."""
        with docker_errors("silence unfinished containers"):
            engine = self.engine()
            for container in containers:
                with contextlib.suppress(docker.errors.NotFound):
                    engine.stop(container, timeout=0)
                    for network in self._networks_of(engine, container):
                        engine.disconnect_container_from_network(container, network, force=True)

    def remove_containers(self, containers: list[str]) -> None:
        """Remove containers; one that is gone is no error."""
        with docker_errors("remove unfinished containers"):
            for container in containers:
                with contextlib.suppress(docker.errors.NotFound):
                    self.engine().remove_container(container, force=True, v=True)

    @staticmethod
    def _networks_of(engine: Engine, container: str) -> list[str]:
        networks = engine.inspect_container(container)["NetworkSettings"].get("Networks") or {}
        return [network["NetworkID"] for network in networks.values() if network.get("NetworkID")]

    @staticmethod
    def _remove_network(engine: Engine, network: str) -> None:
        members = engine.inspect_network(network).get("Containers") or {}
        for member in list(members):
            engine.disconnect_container_from_network(member, network, force=True)
        engine.remove_network(network)
