"""ContainerPosture against a real engine: what is changed outside is seen, and put right live."""

from __future__ import annotations

import pytest

from abox.errors import HostError
from abox.naming import LABEL_ROLE, LABEL_SANDBOX
from provider.container_posture import ContainerGenerationResource, ContainerPostureResource
from provider.engine import Engine
from provider.host import engine, network_namespace
from provider.records import Record, Records
from tests.integration.provider.conftest import POOL_V6

pytestmark = pytest.mark.integration

ADDRESS = "10.213.7.10"


def foreign_network(engine: Engine, container: str, own: str, other: str) -> None:
    engine.connect_container_to_network(container, other)


def cut_off(engine: Engine, container: str, own: str, other: str) -> None:
    engine.disconnect_container_from_network(container, own)


def moved(engine: Engine, container: str, own: str, other: str) -> None:
    engine.disconnect_container_from_network(container, own)
    engine.connect_container_to_network(container, other)


def other_address(engine: Engine, container: str, own: str, other: str) -> None:
    engine.disconnect_container_from_network(container, own)
    engine.connect_container_to_network(container, own, ipv4_address="10.213.7.77")


def limits_lifted(engine: Engine, container: str, own: str, other: str) -> None:
    engine.set_resources(container, {"PidsLimit": 100000})


def more_memory(engine: Engine, container: str, own: str, other: str) -> None:
    size = 512 * 1024 * 1024
    engine.set_resources(container, {"Memory": size, "MemorySwap": size})


def restarts(engine: Engine, container: str, own: str, other: str) -> None:
    engine.set_resources(container, {"RestartPolicy": {"Name": "always"}})


def paused(engine: Engine, container: str, own: str, other: str) -> None:
    engine.pause(container)


def stopped(engine: Engine, container: str, own: str, other: str) -> None:
    engine.stop(container, timeout=0)


@pytest.mark.parametrize(
    ("tamper", "words"),
    [
        (foreign_network, "foreign network"),
        (cut_off, "isn't on its network"),
        (moved, "foreign network"),
        (other_address, "its address is 10.213.7.77 instead of 10.213.7.10"),
        (limits_lifted, "pids limit is 100000 instead of 64"),
        (more_memory, "memory in bytes is 536870912 instead of 67108864"),
        (restarts, "restart policy is 'always' instead of 'no'"),
        (paused, "the container is paused"),
        (stopped, "the container is stopped"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_outside_change_is_seen_and_repaired_live(bench, tamper, words):
    own, other = bench.network(7), bench.network(8)
    container = bench.container(networks={own: ADDRESS})
    posture = bench.posture(
        container, bench.expected(networks=[{"network": own, "address": ADDRESS}])
    )
    assert bench.texts(posture) == []  # control: an untouched container has no findings

    tamper(bench.engine, container, own, other)
    assert any(words in text for text in bench.texts(posture)), bench.texts(posture)

    posture.apply()
    assert bench.texts(posture) == []
    assert bench.engine.find_container(container)["State"]["Running"]


@pytest.mark.parametrize("tamper", [cut_off, moved, other_address])
def test_a_leg_gets_its_addresses_of_both_families_back(bench, tamper):
    own, other = bench.network(7, ipv6=True), bench.network(8)
    container = bench.container(networks={own: ADDRESS})
    wanted = {"network": own, "address": ADDRESS, "address_v6": f"{POOL_V6}:7::2"}
    posture = bench.posture(container, bench.expected(networks=[wanted]))
    posture.apply()
    tamper(bench.engine, container, own, other)
    assert bench.texts(posture)
    posture.apply()
    assert bench.texts(posture) == []
    networks = bench.engine.find_container(container)["NetworkSettings"]["Networks"]
    assert [one["GlobalIPv6Address"] for one in networks.values()] == [f"{POOL_V6}:7::2"]


def test_repair_does_not_restart_a_running_container(bench):
    own, other = bench.network(7), bench.network(8)
    container = bench.container(networks={own: ADDRESS})
    posture = bench.posture(
        container, bench.expected(networks=[{"network": own, "address": ADDRESS}])
    )
    before = bench.engine.find_container(container)["State"]["StartedAt"]
    for tamper in (foreign_network, other_address, limits_lifted, more_memory, restarts, paused):
        tamper(bench.engine, container, own, other)
        posture.apply()
    assert bench.engine.find_container(container)["State"]["StartedAt"] == before


def test_joined_container_returns_to_the_namespace_after_its_owner_restarted(bench):
    owner = bench.container()
    joined = bench.container(network_mode=f"container:{owner}")
    posture = bench.posture(joined, bench.expected(joined=owner))
    assert bench.texts(posture) == []

    bench.engine.restart(owner, timeout=0)
    assert bench.texts(posture) == [f"it isn't in the network namespace of {owner[:12]}"]

    posture.apply()
    assert bench.texts(posture) == []


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"privileged": True}, "privileged is True"),
        ({"cap_add": ["NET_ADMIN"]}, "added capability not asked for: NET_ADMIN"),
        ({"cap_drop": []}, "dropped capability missing: ALL"),
        ({"security_opt": []}, "security option missing: no-new-privileges"),
        ({"read_only": False}, "read-only root is False"),
        ({"pid_mode": "host"}, "pid mode is 'host'"),
        ({"ipc_mode": "host"}, "ipc mode is 'host'"),
        ({"uts_mode": "host"}, "UTS mode is 'host'"),
        ({"userns_mode": "host"}, "user namespace mode is 'host'"),
        ({"network_mode": "host"}, "network mode is 'host'"),
        ({"devices": ["/dev/fuse"]}, "device not asked for: /dev/fuse"),
        ({"device_cgroup_rules": ["a *:* rwm"]}, "device not asked for: a *:* rwm"),
        ({"port_bindings": {80: None}}, "published port not asked for: 80/tcp"),
        ({"publish_all_ports": True}, "all its ports are published"),
        ({"binds": ["/:/host"]}, "mount not asked for: / at /host (writable)"),
        ({"tmpfs": {"/x": ""}}, "tmpfs is {'/x': ''}"),
        ({"sysctls": {"net.ipv4.ip_unprivileged_port_start": "0"}}, "kernel settings"),
        ({"group_add": ["0"]}, "group not asked for: 0"),
        ({"dns": ["8.8.8.8"]}, "resolvers is ['8.8.8.8']"),
        ({"environment": ["LD_PRELOAD=/x"]}, "environment variable LD_PRELOAD differs"),
        ({"user": "1:1"}, "user is '1:1'"),
        ({"command": ["sleep", "1000"]}, "command is ['sleep', '1000']"),
    ],
    ids=lambda value: next(iter(value), "") if isinstance(value, dict) else "",
)
def test_container_made_otherwise_is_damaged_beyond_live_repair(bench, tmp_path, settings, words):
    own = bench.network(7)
    container = bench.container(networks={own: ADDRESS}, start=False, **settings)
    expected = bench.expected(running=False, networks=[{"network": own, "address": ADDRESS}])
    posture = bench.posture(container, expected)
    assert any(words in text for text in bench.texts(posture)), bench.texts(posture)
    with pytest.raises(HostError) as caught:
        posture.apply()
    assert words in caught.value.why

    records = Records(tmp_path)
    records.keep("abxt", "agent", Record(container, expected.to_document()))
    generation = ContainerGenerationResource(engine, lambda: records)
    state = {"sandbox": "abxt", "role": "agent", "generation": "4", "damage": []}
    seen = generation.read("abxt/agent", state)
    assert any(words in text for text in seen["damage"])
    assert generation.drift({**state, **seen}, state)
    assert generation.update("abxt/agent", {**state, **seen}, state)["generation"] == "5"


def test_generation_stays_while_the_container_is_well_or_gone(bench, tmp_path):
    own = bench.network(7)
    container = bench.container(networks={own: ADDRESS})
    expected = bench.expected(networks=[{"network": own, "address": ADDRESS}])
    records = Records(tmp_path)
    generation = ContainerGenerationResource(engine, lambda: records)
    state = {"sandbox": "abxt", "role": "agent", "generation": "4", "damage": []}
    well = {"generation": "4", "damage": [], "strays": []}
    assert generation.read("abxt/agent", state) == well  # no record
    records.keep("abxt", "agent", Record(container, expected.to_document()))
    bench.engine.pause(container)  # repaired live: no reason for a replacement
    assert generation.read("abxt/agent", state) == well
    bench.engine.remove_container(container, force=True)
    assert generation.read("abxt/agent", state) == well


LABELS = {LABEL_SANDBOX: "abxt-strays", LABEL_ROLE: "agent"}


def test_what_a_killed_run_made_is_silenced_and_after_its_successor_removed(bench, tmp_path):
    """The address is free before the successor is made, and nothing is left when it stands."""
    own = bench.network(7)
    unfinished = bench.container(networks={own: ADDRESS}, labels=LABELS)
    bystander = bench.container(labels={**LABELS, LABEL_ROLE: "dns"})
    records = Records(tmp_path)
    generation = ContainerGenerationResource(engine, lambda: records)
    inputs = {"sandbox": "abxt-strays", "role": "agent"}
    state = {**inputs, "generation": "1", "damage": [], "strays": []}
    seen = {**state, **generation.read("id", state)}
    assert seen["strays"] == [unfinished]
    assert generation.drift(seen, inputs) == {"damage": False, "strays": False}
    # If the stack holds it after all, pulumi-docker replaces it, as the number says.
    assert generation.update("id", seen, inputs)["generation"] == "2"
    assert not bench.engine.find_container(unfinished)["State"]["Running"]

    successor = bench.container(networks={own: ADDRESS}, labels=LABELS)
    expected = bench.expected(networks=[{"network": own, "address": ADDRESS}]).to_document()
    posture = ContainerPostureResource(engine, network_namespace, lambda: records)
    posture.create({**inputs, "container": successor, "expected": expected})
    assert bench.engine.find_container(unfinished) is None
    assert bench.engine.find_container(successor)["State"]["Running"]
    assert bench.engine.find_container(bystander)["State"]["Running"]
    seen = generation.read("id", {**state, "generation": "2"})
    assert seen == {"generation": "2", "damage": [], "strays": []}


def test_stray_beside_a_good_container_replaces_nothing(bench, tmp_path):
    own = bench.network(7)
    held = bench.container(networks={own: ADDRESS}, labels=LABELS)
    stray = bench.container(labels=LABELS)
    expected = bench.expected(networks=[{"network": own, "address": ADDRESS}])
    records = Records(tmp_path)
    records.keep("abxt-strays", "agent", Record(held, expected.to_document()))
    generation = ContainerGenerationResource(engine, lambda: records)
    state = {"sandbox": "abxt-strays", "role": "agent", "generation": "1"}
    seen = {**state, **generation.read("id", state)}
    assert seen["strays"] == [stray]
    assert generation.update("id", seen, state)["generation"] == "1"
    assert not bench.engine.find_container(stray)["State"]["Running"]
    assert bench.engine.find_container(held)["State"]["Running"]


def test_the_last_of_a_role_to_go_takes_along_what_a_killed_run_made(bench, tmp_path):
    unfinished = bench.container(labels=LABELS)
    bystander = bench.container(labels={**LABELS, LABEL_ROLE: "dns"})
    generation = ContainerGenerationResource(engine, lambda: Records(tmp_path))
    generation.delete("id", {"sandbox": "abxt-strays", "role": "agent"})
    assert bench.engine.find_container(unfinished) is None
    assert bench.engine.find_container(bystander)["State"]["Running"]


def test_gone_container_is_drift_and_not_an_error(bench, tmp_path):
    container = bench.container()
    bench.engine.remove_container(container, force=True)
    resource = ContainerPostureResource(engine, network_namespace, lambda: Records(tmp_path))
    state = {
        "sandbox": "abxt",
        "role": "agent",
        "container": container,
        "expected": {"image": bench.image},
    }
    seen = resource.read("abxt/agent", state)
    assert seen["findings"] == ["the container is gone"]
    assert resource.drift(seen, state)


@pytest.mark.parametrize("tamper", ["removed", "of another container", "edited", "of another form"])
def test_record_that_is_not_as_it_was_kept_is_drift_and_is_kept_again(bench, tmp_path, tamper):
    own = bench.network(7)
    container = bench.container(networks={own: ADDRESS})
    expected = bench.expected(networks=[{"network": own, "address": ADDRESS}]).to_document()
    records = Records(tmp_path)
    resource = ContainerPostureResource(engine, network_namespace, lambda: records)
    inputs = {"sandbox": "abxt", "role": "agent", "container": container, "expected": expected}
    resource_id, state = resource.create(inputs)
    assert resource.read(resource_id, inputs)["findings"] == []  # control

    records.forget("abxt", "agent")
    if tamper == "of another container":
        records.keep("abxt", "agent", Record("0" * 64, expected))
    elif tamper == "edited":
        records.keep("abxt", "agent", Record(container, {**expected, "privileged": True}))
    elif tamper == "of another form":
        records.keep("abxt", "agent", Record(container, {"nonsense": 1}))
    seen = resource.read(resource_id, inputs)
    assert seen["findings"]
    assert resource.drift(seen, inputs)

    resource.update(resource_id, {**inputs, **state}, inputs)
    assert resource.read(resource_id, inputs)["findings"] == []


def test_values_of_the_environment_are_in_no_record_and_no_output(bench, tmp_path):
    container = bench.container(environment=["TOKEN=hunter2"], network_mode="none")
    records = Records(tmp_path)
    resource = ContainerPostureResource(engine, network_namespace, lambda: records)
    own = bench.network(7)
    bench.engine.disconnect_container_from_network(container, "none")
    bench.engine.connect_container_to_network(container, own, ipv4_address=ADDRESS)
    inputs = {
        "sandbox": "abxt",
        "role": "agent",
        "container": container,
        "expected": {
            **bench.expected(networks=[{"network": own, "address": ADDRESS}]).to_document(),
            "env": ["TOKEN=other"],
        },
    }
    with pytest.raises(HostError) as caught:
        resource.create(inputs)
    written = "".join(path.read_text() for path in tmp_path.rglob("*.json"))
    assert "TOKEN" in written  # control: the record names the variable
    outputs = str(resource.read("abxt/agent", inputs))
    assert "TOKEN differs" in outputs
    for text in (written, outputs, str(caught.value)):
        assert "hunter2" not in text
        assert "other" not in text
