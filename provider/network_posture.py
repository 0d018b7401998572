"""A live Docker network beside what was asked of it, and who is connected."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import docker.errors

from abox.errors import HostError
from provider.engine import Engine
from provider.host import bridge_of, docker_errors
from provider.records import Records
from provider.resource import Data, Field, Resource


@dataclass(frozen=True)
class Facts:
    """What the host says about a network."""

    internal: bool
    ipv6: bool
    bridge: str
    """Interface name of its bridge."""
    up: bool
    """Whether that interface exists and is up."""
    forwards: bool
    """Whether the host forwards what comes in by that interface."""
    members: dict[str, str]
    """Connected containers: id to name."""


@dataclass(frozen=True)
class Links:
    """What is asked of the host about an interface, by name, and told it."""

    is_up: Callable[[str], bool]
    set_up: Callable[[str], None]
    forwards: Callable[[str], bool]
    stop_forwarding: Callable[[str], None]


@dataclass(frozen=True)
class NetworkPosture:
    """One network, by id, and what the host does with the interfaces of bridges."""

    network: str
    engine: Callable[[], Engine]
    links: Links

    def read(self) -> Facts | None:
        """What the host says; None only if the engine answers that there is no such network."""
        with docker_errors(f"look at network {self.network[:12]}"):
            found = self.engine().find_network(self.network)
        if found is None:
            return None
        bridge = bridge_of(found)
        members = found.get("Containers") or {}
        return Facts(
            internal=bool(found.get("Internal")),
            ipv6=bool(found.get("EnableIPv6")),
            bridge=bridge,
            up=self.links.is_up(bridge),
            forwards=self.links.forwards(bridge),
            members={each: value.get("Name", "") for each, value in members.items()},
        )

    def expel(self, members: list[str]) -> None:
        """Disconnect containers from the network; they themselves stay as they are."""
        with docker_errors(f"disconnect containers from network {self.network[:12]}"):
            engine = self.engine()
            for member in members:
                try:
                    engine.disconnect_container_from_network(member, self.network, force=True)
                except docker.errors.NotFound:
                    continue  # it left by itself


def findings(facts: Facts, *, bridge: str, internal: bool, ipv6: bool) -> list[str]:
    """Differences other than foreign members, in words."""
    found = []
    if facts.internal != internal:
        found.append(f"it is {'' if facts.internal else 'not '}internal")
    if facts.ipv6 != ipv6:
        found.append(f"it has {'' if facts.ipv6 else 'no '}IPv6")
    if facts.bridge != bridge:
        found.append(f"its bridge is {facts.bridge} instead of {bridge}")
    elif not facts.up:
        found.append(f"its bridge {bridge} is gone or down")
    elif internal and facts.forwards:
        found.append(f"the host forwards what comes in by its bridge {bridge}")
    return found


class NetworkPostureResource(Resource):
    """Adapter of ``NetworkPosture``."""

    type_name = "NetworkPosture"
    fields = (
        Field(name="sandbox", kind=str, replaces=True),
        Field(name="network", kind=str),
        Field(name="bridge", kind=str),
        Field(name="internal", kind=bool),
        Field(name="ipv6", kind=bool, default=False),
        Field(name="roles", kind=list),
    )
    drift_fields: ClassVar = ("foreign", "findings")

    def __init__(
        self,
        engine: Callable[[], Engine],
        links: Links,
        records: Callable[[], Records],
    ) -> None:
        self._engine = engine
        self._links = links
        self._records = records

    def drift(self, state: Data, inputs: Data) -> dict[str, bool]:  # noqa: ARG002
        """Any difference, any foreign member."""
        return {name: False for name in ("foreign", "findings") if state.get(name)}

    def planned(self, inputs: Data, old: Data | None) -> Data:  # noqa: ARG002
        """Nothing foreign and no difference will be left."""
        live = {name: inputs[name] for name in ("bridge", "internal", "ipv6")}
        return {"live": live, "foreign": [], "findings": []}

    def create(self, inputs: Data) -> tuple[str, Data]:
        """Compare and repair."""
        return f"{inputs['sandbox']}/{inputs['bridge']}", self._apply(inputs)

    def read(self, resource_id: str, state: Data) -> Data:  # noqa: ARG002
        """The network beside what was asked."""
        facts = self._posture(state).read()
        if facts is None:
            return {"live": {}, "foreign": [], "findings": ["the network is gone"]}
        outputs = self._outputs(facts, state)
        if self._records().find_network(state["sandbox"], state["bridge"]) != state["network"]:
            outputs["findings"].append("it isn't the recorded network")
        return outputs

    def update(self, resource_id: str, old: Data, new: Data) -> Data:  # noqa: ARG002
        """Compare and repair."""
        return self._apply(new)

    def delete(self, resource_id: str, state: Data) -> None:  # noqa: ARG002
        """Disconnect strangers, which would block the network's removal by pulumi-docker."""
        if "roles" not in state:
            return  # made by another version: who belongs there isn't known
        posture = self._posture(state)
        facts = posture.read()
        if facts is not None:
            posture.expel([each for each in facts.members if each not in self._allowed(state)])
        self._records().forget_network(state["sandbox"], state["bridge"])

    def _posture(self, inputs: Data) -> NetworkPosture:
        return NetworkPosture(inputs["network"], self._engine, self._links)

    def _apply(self, inputs: Data) -> Data:
        posture = self._posture(inputs)
        self._records().keep_network(inputs["sandbox"], inputs["bridge"], posture.network)
        facts = self._present(posture)
        posture.expel([each for each in facts.members if each not in self._allowed(inputs)])
        if facts.bridge == inputs["bridge"] and not facts.up:
            self._links.set_up(facts.bridge)
        if facts.bridge == inputs["bridge"] and inputs["internal"]:
            # Else the host is a router for the agent as soon as somebody flushes all rules.
            self._links.stop_forwarding(facts.bridge)
        outputs = self._outputs(self._present(posture), inputs)
        if left := outputs["foreign"] + outputs["findings"]:
            raise HostError(
                what=f"network {posture.network[:12]} isn't what was asked",
                why="; ".join(left),
                remedy=f"run `pulumi destroy` and `pulumi up`; if that fails, take it away with "
                f"`docker network rm {posture.network[:12]}`",
            )
        return outputs

    def _present(self, posture: NetworkPosture) -> Facts:
        facts = posture.read()
        if facts is None:
            raise HostError(
                what=f"network {posture.network[:12]} is gone",
                why="something removed it while `pulumi up` was running",
                remedy="run `pulumi up` once more, which makes it again",
            )
        return facts

    def _allowed(self, inputs: Data) -> set[str]:
        records = self._records()
        found = [records.find(inputs["sandbox"], role) for role in inputs.get("roles") or []]
        return {record.container for record in found if record is not None}

    def _outputs(self, facts: Facts, inputs: Data) -> Data:
        allowed = self._allowed(inputs)
        foreign = {each: name for each, name in facts.members.items() if each not in allowed}
        live: dict[str, Any] = {
            "bridge": facts.bridge,
            "internal": facts.internal,
            "ipv6": facts.ipv6,
        }
        return {
            "live": live,
            "foreign": sorted(f"{name} ({each[:12]})" for each, name in foreign.items()),
            "findings": findings(
                facts,
                bridge=inputs["bridge"],
                internal=inputs["internal"],
                ipv6=inputs.get("ipv6", False),
            ),
        }
