"""SubnetLease beside a real engine: twins and leftovers go, strangers stay."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Iterator

import docker.errors
import pytest
from docker.types import IPAMConfig, IPAMPool

from abox.errors import HostError
from abox.naming import LABEL_SANDBOX, bridge_name
from provider import host
from provider.leftovers import Leftovers
from provider.records import Records
from provider.subnet_lease import Leases, SubnetLeaseResource

pytestmark = pytest.mark.integration


@pytest.fixture
def sandbox() -> Iterator[str]:
    """A name; whatever bears it is taken away."""
    name = f"abxt-{secrets.token_hex(2)}x"
    yield name
    Leftovers(host.engine).remove(name)


@pytest.fixture
def lease(tmp_path) -> SubnetLeaseResource:
    """The resource with leases of its own, on the real host."""
    leases = Leases(
        tmp_path / "leases", str(tmp_path), lambda: host.routes() + host.docker_networks()
    )
    return SubnetLeaseResource(
        lambda: leases, lambda: Leftovers(host.engine), lambda: Records(tmp_path / "sandboxes")
    )


def make_network(bench, sandbox, subnet, *, labelled, interface=None):
    made = bench.engine.create_network(
        f"{bench.prefix}-{secrets.token_hex(2)}",
        driver="bridge",
        ipam=IPAMConfig(pool_configs=[IPAMPool(subnet=subnet)]),
        options={"com.docker.network.bridge.name": interface or bridge_name(sandbox)},
        labels={LABEL_SANDBOX: sandbox} if labelled else None,
    )
    bench.networks.append(made["Id"])
    return made["Id"]


def test_own_bridge_is_no_conflict(bench, lease, sandbox, tmp_path):
    inputs = {"sandbox": sandbox, "subnet": "10.10.251.0/24"}
    resource_id, state = lease.create(inputs)
    network = make_network(bench, sandbox, state["subnet"], labelled=True)
    Records(tmp_path / "sandboxes").keep_network(sandbox, state["bridge"], network)
    assert lease.read(resource_id, {**inputs, **state})["conflicts"] == []


@pytest.mark.parametrize("recorded", [None, "0" * 64], ids=["no record", "another record"])
def test_network_of_an_interrupted_run_is_seen_and_makes_room(
    bench, lease, sandbox, tmp_path, recorded
):
    inputs = {"sandbox": sandbox, "subnet": "10.10.251.0/24"}
    resource_id, state = lease.create(inputs)
    state = {**inputs, **state}
    if recorded:
        Records(tmp_path / "sandboxes").keep_network(sandbox, state["bridge"], recorded)
    unfinished = make_network(bench, sandbox, state["subnet"], labelled=True)
    seen = lease.read(resource_id, state)
    assert seen["conflicts"] == [f"the network {unfinished[:12]} is unfinished"]
    assert seen["unrecorded"] == [unfinished]
    assert lease.planned(inputs, {**state, **seen})["generation"] == "2"
    updated = lease.update(resource_id, {**state, **seen}, inputs)
    assert (updated["conflicts"], updated["unrecorded"]) == ([], [])
    assert updated["generation"] == "2"  # whoever holds it makes another
    assert lease.read(resource_id, {**state, **updated})["generation"] == "2"
    assert bench.engine.find_network(unfinished) is None


def test_network_that_is_gone_with_nothing_in_its_place_replaces_nothing(
    bench, lease, sandbox, tmp_path
):
    inputs = {"sandbox": sandbox, "subnet": "10.10.251.0/24"}
    resource_id, state = lease.create(inputs)
    state, records = {**inputs, **state}, Records(tmp_path / "sandboxes")
    own = make_network(bench, sandbox, state["subnet"], labelled=True)
    egress = make_network(
        bench, sandbox, state["egress_subnet"], labelled=True, interface=state["egress_bridge"]
    )
    records.keep_network(sandbox, state["bridge"], own)
    records.keep_network(sandbox, state["egress_bridge"], egress)
    bench.engine.remove_network(egress)
    seen = lease.read(resource_id, state)
    assert seen["unrecorded"] == []  # one is gone, which is pulumi-docker's to make again
    assert seen["conflicts"] == []


def test_network_whose_record_was_lost_stays_while_somebody_is_on_it(bench, lease, sandbox):
    inputs = {"sandbox": sandbox, "subnet": "10.10.251.0/24"}
    resource_id, state = lease.create(inputs)
    network = make_network(bench, sandbox, state["subnet"], labelled=True)
    bench.container(networks={network: "10.10.251.10"})
    assert lease.read(resource_id, {**inputs, **state})["conflicts"] == []


def test_twin_of_the_bridge_is_seen_and_removed_so_that_the_bridge_can_be_made(
    bench, lease, sandbox
):
    inputs = {"sandbox": sandbox, "subnet": "10.10.251.0/24"}
    resource_id, state = lease.create(inputs)
    state = {**inputs, **state}
    twin = make_network(bench, sandbox, state["subnet"], labelled=False)
    member = bench.container(networks={twin: "10.10.251.10"})
    seen = lease.read(resource_id, state)
    assert seen["conflicts"]
    assert lease.drift(seen, inputs)

    assert lease.update(resource_id, state, inputs)["conflicts"] == []
    assert bench.engine.find_network(twin) is None
    assert bench.engine.find_container(member)["State"]["Running"]
    assert make_network(bench, sandbox, state["subnet"], labelled=True)


def test_stranger_in_the_lease_is_named_and_left_alone(bench, lease, sandbox):
    inputs = {"sandbox": sandbox, "subnet": "10.10.251.0/24"}
    resource_id, state = lease.create(inputs)
    interface = f"abxt{secrets.token_hex(3)}"
    stranger = make_network(bench, sandbox, "10.11.251.0/24", labelled=False, interface=interface)
    with pytest.raises(HostError, match="Docker network 'abxt-"):
        lease.update(resource_id, {**inputs, **state}, inputs)
    assert bench.engine.find_network(stranger)


def test_fixed_subnet_in_use_is_refused_before_anything_is_touched(bench, lease, tmp_path, sandbox):
    make_network(bench, sandbox, "10.10.251.0/24", labelled=False, interface="abxtzz0")
    (failure,) = lease.problems({"sandbox": sandbox, "subnet": "10.10.251.0/24"}, {})
    assert failure.name == "subnet"
    assert "Docker network 'abxt-" in failure.reason
    assert not (tmp_path / "leases").exists()


def test_auto_passes_over_what_docker_uses(bench, lease, sandbox):
    free = lease.create({"sandbox": sandbox, "subnet": "auto"})[1]["subnet"]
    lease.delete(sandbox, {})
    make_network(bench, sandbox, free, labelled=False, interface="abxtzz1")
    assert lease.create({"sandbox": sandbox, "subnet": "auto"})[1]["subnet"] != free


def test_leftovers_of_an_interrupted_run_go_with_the_lease(bench, lease, sandbox):
    labels = {LABEL_SANDBOX: sandbox}
    network = make_network(bench, sandbox, "10.10.251.0/24", labelled=True)
    orphan = bench.container(labels=labels)
    bystander = bench.container(labels={LABEL_SANDBOX: f"{sandbox}-other"})
    volume = bench.engine.create_volume(f"{bench.prefix}-data", labels=labels)["Name"]
    try:
        lease.create({"sandbox": sandbox, "subnet": "auto"})
        assert bench.engine.find_container(orphan) is None
        assert bench.engine.find_network(network) is None
        assert bench.engine.find_container(bystander)["State"]["Running"]
        assert bench.engine.inspect_volume(volume)  # the user's files stay

        orphan = bench.container(labels=labels)
        lease.delete(sandbox, {})
        assert bench.engine.find_container(orphan) is None
        assert bench.engine.find_container(bystander)["State"]["Running"]
    finally:
        with contextlib.suppress(docker.errors.NotFound):
            bench.engine.remove_volume(volume)
