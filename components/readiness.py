"""The readiness gate: ``up`` goes on only when the pod answers."""

from __future__ import annotations

from collections.abc import Sequence

import pulumi_command as command
from pulumi import ComponentResource, Input, Output, Resource, ResourceOptions

READY_TIMEOUT_S = 60
"""Seconds that DNS and proxy get until they answer the health name."""


class Readiness(ComponentResource):
    """Waits until DNS and proxy answer the health name, plain and inside CONNECT.

    It reads nothing back, so nothing whose drift matters hangs on it: a changed container runs the
    gate once more, that is all.
    """

    def __init__(
        self,
        name: str,
        *,
        control: Input[str],
        triggers: Sequence[Input[str]],
        after: Sequence[Resource],
        opts: ResourceOptions | None = None,
    ) -> None:
        """Ask ``control`` (a container's name), once for each set of ``triggers``.

        Args:
            name: Pulumi name.
            control: name of the pod's control container.
            triggers: ids of containers; others than the last time run the gate once more.
            after: what must stand before it makes sense to ask.
            opts: resource options.
        """
        super().__init__("abox:readiness:Readiness", name, {}, opts)
        gate = command.local.Command(
            name,
            create=Output.concat(
                "docker exec ", control, f" abox-gateway ready --timeout {READY_TIMEOUT_S}"
            ),
            triggers=list(triggers),
            opts=ResourceOptions(parent=self, depends_on=after),
        )
        self.answer: Output[str] = gate.stdout
        self.register_outputs({"answer": self.answer})
