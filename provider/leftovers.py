"""Takes away what bears a sandbox's label or bridge name and isn't in any stack's state.

Containers and networks belong to pulumi-docker. Here only orphans go: what an
interrupted run made and didn't record, and hand-made twins of a bridge that block its repair.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from abox.naming import LABEL_SANDBOX
from provider.engine import Engine
from provider.host import bridge_of, docker_errors


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

    def remove_twins(self, sandbox: str, interfaces: tuple[str, ...]) -> None:
        """Remove Docker networks that hold a bridge name of the sandbox without its label."""
        with docker_errors(f"take away hand-made twins of the bridges of sandbox {sandbox!r}"):
            engine = self.engine()
            for network in engine.networks():
                ours = (network.get("Labels") or {}).get(LABEL_SANDBOX) == sandbox
                if bridge_of(network) in interfaces and not ours:
                    self._remove_network(engine, network["Id"])

    @staticmethod
    def _remove_network(engine: Engine, network: str) -> None:
        members = engine.inspect_network(network).get("Containers") or {}
        for member in list(members):
            engine.disconnect_container_from_network(member, network, force=True)
        engine.remove_network(network)
