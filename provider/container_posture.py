"""A live container beside what was asked of it: read, compared, repaired where that works live."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from abox.errors import HostError
from abox.naming import FIRST_GENERATION
from provider.engine import Engine
from provider.generation import next_generation
from provider.host import docker_errors
from provider.leftovers import Leftovers
from provider.posture import Expected, Facts, Finding, Repair, findings, summary
from provider.records import Record, Records
from provider.resource import UNKNOWN, Data, Failure, Field, Resource, is_unknown

RESTART_TIMEOUT_S = 5
"""Seconds that a container gets to stop before it is killed."""


@dataclass(frozen=True)
class ContainerPosture:
    """One container, by id; ``namespace`` tells a process's network namespace."""

    container: str
    expected: Expected
    engine: Callable[[], Engine]
    namespace: Callable[[int], str]

    def read(self) -> Facts | None:
        """What the host says; None only if the engine answers that there is no such container."""
        with docker_errors(f"look at container {self.container[:12]}"):
            engine = self.engine()
            found = engine.find_container(self.container)
            if found is None:
                return None
            joined = self.expected.joined and engine.find_container(self.expected.joined)
            return Facts(
                container=found,
                image=engine.find_image(self.expected.image) or {},
                namespace=self._namespace_of(found),
                joined_namespace=self._namespace_of(joined or {}) or "gone",
            )

    def apply(self) -> Facts:
        """Repair what can be repaired live and return the container as it is then.

        Raises:
            HostError: something is left that only a replacement can put right.
        """
        facts = self._present()
        wrong = findings(self.expected, facts)
        # Networks first: a foreign one is a way out. Limits before anything may run again.
        repairs = {
            Repair.NETWORKS: self._repair_networks,
            Repair.LIMITS: self._repair_limits,
            Repair.STATE: self._repair_state,
        }
        for kind, repair in repairs.items():
            if any(finding.repair is kind for finding in wrong):
                with docker_errors(f"repair container {self.container[:12]}"):
                    repair(self.engine(), facts)
        facts = self._present() if wrong else facts
        if left := findings(self.expected, facts):
            raise HostError(
                what=f"container {self.container[:12]} isn't what was asked",
                why="; ".join(finding.text for finding in left),
                remedy="run `pulumi up` once more, which replaces it; if it comes back, the "
                "program asks for something that Docker doesn't do",
            )
        return facts

    def _present(self) -> Facts:
        facts = self.read()
        if facts is None:
            raise HostError(
                what=f"container {self.container[:12]} is gone",
                why="something removed it while `pulumi up` was running",
                remedy="run `pulumi up` once more, which makes it again",
            )
        return facts

    def _namespace_of(self, container: dict[str, Any]) -> str:
        pid = (container.get("State") or {}).get("Pid") or 0
        return self.namespace(pid) if pid else ""

    def _repair_networks(self, engine: Engine, facts: Facts) -> None:
        live = summary(facts)["networks"]
        wanted = self.expected.networks
        for network, address in live.items():
            if wanted.get(network) != address:
                engine.disconnect_container_from_network(self.container, network, force=True)
        for network, addresses in wanted.items():
            if live.get(network) != addresses:
                address, _, address_v6 = addresses.partition(" ")
                engine.connect_container_to_network(
                    self.container,
                    network,
                    ipv4_address=address,
                    ipv6_address=address_v6 or None,
                )

    def _repair_limits(self, engine: Engine, facts: Facts) -> None:  # noqa: ARG002
        memory = self.expected.memory_mb * 1024 * 1024
        engine.set_resources(
            self.container,
            {
                "PidsLimit": self.expected.pids_limit or -1,
                "Memory": memory,
                "MemorySwap": memory,
                "NanoCpus": round(self.expected.cpus * 1_000_000_000),
                "RestartPolicy": {"Name": self.expected.restart, "MaximumRetryCount": 0},
            },
        )

    def _repair_state(self, engine: Engine, facts: Facts) -> None:
        state = facts.container["State"]
        if state.get("Paused"):
            engine.unpause(self.container)
        if not state.get("Running"):
            engine.start(self.container)
        elif self.expected.joined and facts.namespace != facts.joined_namespace:
            # A restart enters the namespace that the joined container has now.
            engine.restart(self.container, timeout=RESTART_TIMEOUT_S)


class ContainerPostureResource(Resource):
    """Adapter of ``ContainerPosture``."""

    type_name = "ContainerPosture"
    fields = (
        Field(name="sandbox", kind=str, replaces=True),
        Field(name="role", kind=str, replaces=True),
        Field(name="container", kind=str),
        Field(name="expected", kind=dict),
    )
    drift_fields: ClassVar = ("findings",)

    def __init__(
        self,
        engine: Callable[[], Engine],
        namespace: Callable[[int], str],
        records: Callable[[], Records],
    ) -> None:
        self._engine = engine
        self._namespace = namespace
        self._records = records

    def problems(self, inputs: Data, old: Data) -> Iterator[Failure]:  # noqa: ARG002
        """An expectation that can't be read."""
        try:
            Expected.parse(inputs["expected"])
        except ValueError as error:
            if not is_unknown(inputs["expected"]):
                yield Failure("expected", f"expected: {error}")

    def drift(self, state: Data, inputs: Data) -> dict[str, bool]:  # noqa: ARG002
        """Any difference."""
        return {"findings": False} if state.get("findings") else {}

    def planned(self, inputs: Data, old: Data | None) -> Data:  # noqa: ARG002
        """No difference will be left."""
        return {"live": UNKNOWN, "findings": []}

    def create(self, inputs: Data) -> tuple[str, Data]:
        """Record the container, then compare and repair."""
        return f"{inputs['sandbox']}/{inputs['role']}", self._apply(inputs)

    def read(self, resource_id: str, state: Data) -> Data:  # noqa: ARG002
        """The container beside what was asked."""
        posture = self._posture(state)
        facts = posture.read()
        if facts is None:
            return {"live": {}, "findings": ["the container is gone"]}
        found = [*findings(posture.expected, facts), *self._record_findings(state, posture)]
        return _outputs(facts, found)

    def update(self, resource_id: str, old: Data, new: Data) -> Data:  # noqa: ARG002
        """Record the container, then compare and repair."""
        return self._apply(new)

    def delete(self, resource_id: str, state: Data) -> None:  # noqa: ARG002
        """Forget the record; the container belongs to pulumi-docker."""
        self._records().forget(state["sandbox"], state["role"])

    def _apply(self, inputs: Data) -> Data:
        posture = self._posture(inputs)
        # Recorded before it is judged: if it fails, ContainerGeneration replaces it next time.
        record = Record(posture.container, posture.expected.to_document())
        self._records().keep(inputs["sandbox"], inputs["role"], record)
        outputs = _outputs(posture.apply(), [])
        # The stack holds this container. So what else bears its role is what a run that was
        # killed made and couldn't record.
        strays = Leftovers(self._engine).strays(inputs["sandbox"], inputs["role"], record.container)
        Leftovers(self._engine).remove_containers(strays)
        return outputs

    def _record_findings(self, state: Data, posture: ContainerPosture) -> Iterator[Finding]:
        """NetworkPosture expels an agent that isn't recorded, so a lost record is drift."""
        record = self._records().find(state["sandbox"], state["role"])
        if record is None or record.container != posture.container:
            yield Finding("it isn't the recorded container", Repair.STATE)
        elif _expected_of(record) != posture.expected:
            yield Finding("its record says something else", Repair.STATE)

    def _posture(self, inputs: Data) -> ContainerPosture:
        return ContainerPosture(
            inputs["container"],
            Expected.parse(inputs["expected"]),
            self._engine,
            self._namespace,
        )


def _expected_of(record: Record) -> Expected | None:
    """What a record says, None if another version of the provider wrote it in another form."""
    try:
        return Expected.parse(record.expected)
    except ValueError:
        return None


def _outputs(facts: Facts, found: list[Finding]) -> Data:
    return {"live": summary(facts), "findings": [finding.text for finding in found]}


class ContainerGenerationResource(Resource):
    """A number that grows when the recorded container is damaged beyond live repair.

    The engine judges a container before its posture. So this stands *before* the container, which
    carries the number as a label; see docs/decisions/0002-repair-of-posture.md.
    """

    type_name = "ContainerGeneration"
    fields = (
        Field(name="sandbox", kind=str, replaces=True),
        Field(name="role", kind=str, replaces=True),
    )
    drift_fields: ClassVar = ("damage", "strays")

    def __init__(
        self,
        engine: Callable[[], Engine],
        records: Callable[[], Records],
    ) -> None:
        self._engine = engine
        self._records = records

    def drift(self, state: Data, inputs: Data) -> dict[str, bool]:  # noqa: ARG002
        """Any damage, any stray container."""
        return {name: False for name in ("damage", "strays") if state.get(name)}

    def planned(self, inputs: Data, old: Data | None) -> Data:  # noqa: ARG002
        """The number is plain arithmetic, so that preview shows the replacement."""
        return _generation(next_generation(old or {}, "damage"))

    def create(self, inputs: Data) -> tuple[str, Data]:
        """Start at 1."""
        self._silence_strays(inputs)
        return f"{inputs['sandbox']}/{inputs['role']}", _generation(FIRST_GENERATION)

    def read(self, resource_id: str, state: Data) -> Data:  # noqa: ARG002
        """Look at the recorded container; one that is gone is pulumi-docker's to make again."""
        record = self._records().find(state["sandbox"], state["role"])
        strays = self._strays(state)
        damage = []
        if record is not None and self._exists(record):
            damage = self._damage(record)
        elif strays:
            # Either the stack holds it and it wasn't recorded, or nobody holds it. Both end well
            # with a replacement: pulumi-docker removes what it holds, the posture the rest.
            damage = ["a run that made it was interrupted"]
        return {"generation": state["generation"], "damage": damage, "strays": strays}

    def update(self, resource_id: str, old: Data, new: Data) -> Data:  # noqa: ARG002
        """The next number if there was damage; strays make room for the container."""
        self._silence_strays(new)
        return _generation(next_generation(old, "damage"))

    def delete(self, resource_id: str, state: Data) -> None:  # noqa: ARG002
        """The container went before: what bears the role still, no stack holds."""
        leftovers = Leftovers(self._engine)
        leftovers.remove_containers(leftovers.strays(state["sandbox"], state["role"], ""))

    def _exists(self, record: Record) -> bool:
        with docker_errors(f"look at container {record.container[:12]}"):
            return self._engine().find_container(record.container) is not None

    def _damage(self, record: Record) -> list[str]:
        expected = _expected_of(record)
        if expected is None:
            return []  # the posture writes it anew
        posture = ContainerPosture(record.container, expected, self._engine, lambda _: "")
        facts = posture.read()
        found = findings(expected, facts) if facts else []
        return [finding.text for finding in found if finding.repair is Repair.NONE]

    def _strays(self, inputs: Data) -> list[str]:
        sandbox, role = inputs["sandbox"], inputs["role"]
        record = self._records().find(sandbox, role)
        held = "" if record is None else record.container
        return Leftovers(self._engine).strays(sandbox, role, held)

    def _silence_strays(self, inputs: Data) -> None:
        Leftovers(self._engine).silence_containers(self._strays(inputs))


def _generation(number: str) -> Data:
    return {"generation": number, "damage": [], "strays": []}
