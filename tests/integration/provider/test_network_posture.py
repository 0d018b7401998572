"""NetworkPosture against a real engine: strangers lose their leg and go on running."""

from __future__ import annotations

import pytest

from provider import host
from provider.host import engine
from provider.network_posture import Links, NetworkPostureResource
from provider.records import Record, Records
from tests.host import run

pytestmark = pytest.mark.integration

LINKS = Links(host.is_up, host.set_up, host.forwards, host.stop_forwarding)


@pytest.fixture
def posture(tmp_path):
    """The resource with records of its own."""
    return NetworkPostureResource(engine, LINKS, lambda: Records(tmp_path))


def inputs_for(bench, network):
    bridge = host.bridge_of(bench.engine.find_network(network))
    return {
        "sandbox": "abxt",
        "network": network,
        "bridge": bridge,
        "internal": True,
        "roles": ["pause", "agent"],
    }


def test_stranger_is_seen_and_disconnected_and_goes_on_running(bench, posture, tmp_path):
    network = bench.network(9)
    member = bench.container(networks={network: "10.213.9.2"})
    agent = bench.container(networks={network: "10.213.9.10"})
    inputs = inputs_for(bench, network)
    Records(tmp_path).keep("abxt", "pause", Record(member, {}))
    Records(tmp_path).keep("abxt", "agent", Record(agent, {}))
    resource_id, state = posture.create(inputs)
    assert state["foreign"] == []  # control: member and recorded agent belong there

    stranger = bench.container(networks={network: "10.213.9.66"})
    seen = posture.read(resource_id, inputs)
    assert [text.split()[-1] for text in seen["foreign"]] == [f"({stranger[:12]})"]
    assert posture.drift(seen, inputs)

    posture.update(resource_id, {**inputs, **seen}, inputs)
    assert posture.read(resource_id, inputs)["foreign"] == []
    left = bench.engine.find_container(stranger)
    assert left["State"]["Running"]
    assert left["NetworkSettings"]["Networks"] == {}
    connected = bench.engine.find_network(network)["Containers"]
    assert connected.keys() == {member, agent}


def test_twin_with_the_agents_address_makes_room(bench, posture):
    network = bench.network(9)
    inputs = inputs_for(bench, network)
    bench.container(networks={network: "10.213.9.10"})  # made by hand in the agent's place
    posture.create(inputs)
    assert bench.container(networks={network: "10.213.9.10"})


def test_bridge_that_was_switched_off_is_switched_on(bench, posture):
    network = bench.network(9)
    inputs = inputs_for(bench, network)
    resource_id, state = posture.create(inputs)
    run(["ip", "link", "set", inputs["bridge"], "down"])
    seen = posture.read(resource_id, inputs)
    assert seen["findings"] == [f"its bridge {inputs['bridge']} is gone or down"]
    posture.update(resource_id, state, inputs)
    assert host.is_up(inputs["bridge"])


def test_the_host_is_no_router_for_an_internal_bridge(bench, posture):
    """By the interface's own setting: it holds when somebody flushes all rules."""
    network = bench.network(9)
    inputs = inputs_for(bench, network)
    assert host.forwards(inputs["bridge"])  # control: the engine leaves it on
    resource_id, state = posture.create(inputs)
    assert not host.forwards(inputs["bridge"])
    host.write_setting(f"net.ipv4.conf.{inputs['bridge']}.forwarding", "1")
    seen = posture.read(resource_id, inputs)
    assert seen["findings"] == [f"the host forwards what comes in by its bridge {inputs['bridge']}"]
    posture.update(resource_id, state, inputs)
    assert not host.forwards(inputs["bridge"])


def test_stranger_does_not_block_the_removal_of_the_network(bench, posture):
    network = bench.network(9)
    inputs = inputs_for(bench, network)
    resource_id, state = posture.create(inputs)
    stranger = bench.container(networks={network: "10.213.9.66"})
    for _ in range(2):  # gone already: no error
        posture.delete(resource_id, {**inputs, **state})
    bench.engine.remove_network(network)
    assert bench.engine.find_container(stranger)["State"]["Running"]
    posture.delete(resource_id, {**inputs, **state})


def test_lost_record_of_the_network_is_drift(bench, posture, tmp_path):
    network = bench.network(9)
    inputs = inputs_for(bench, network)
    resource_id, state = posture.create(inputs)
    Records(tmp_path).forget_network("abxt", inputs["bridge"])
    assert posture.drift(posture.read(resource_id, inputs), inputs)
    posture.update(resource_id, state, inputs)
    assert posture.read(resource_id, inputs)["findings"] == []
