"""Leases: unique on the host, never over anything else, taken over after an interrupted run."""

from __future__ import annotations

import ipaddress
import json

import pytest

from abox.errors import AboxError, HostError, SettingsError
from abox.naming import bridge_name, egress_bridge_name
from provider.host import Taken
from provider.leftovers import Leftovers
from provider.records import Records
from provider.subnet_lease import Lease, Leases, SubnetLeaseResource, parse_subnet
from tests.unit.provider.samples import FakeEngine


def taken(network, by="a route", **details):
    return Taken(ipaddress.ip_network(network), by, **details)


@pytest.fixture
def leases(tmp_path):
    """Leases of one checkout on a host where `in_use` is taken."""

    def make(*in_use, owner="here"):
        checkout = tmp_path / owner
        checkout.mkdir(exist_ok=True)
        return Leases(tmp_path / "leases", str(checkout), lambda: list(in_use))

    return make


@pytest.fixture
def resource_over(tmp_path):
    """The resource over leases and an engine of the test."""

    def make(leases, engine=None):
        engine = engine or FakeEngine()
        return SubnetLeaseResource(
            leases, lambda: Leftovers(engine), lambda: Records(tmp_path / "sandboxes")
        )

    return make


def test_auto_takes_the_lowest_free_number(leases):
    got = leases().take("a", "auto")
    assert (str(got.subnet), str(got.egress_subnet)) == ("10.10.0.0/24", "10.11.0.0/24")
    assert leases().take("b", "auto").number == 1
    leases().free("a")
    assert leases().take("c", "auto").number == 0


@pytest.mark.parametrize(
    "network",
    [
        *("10.10.0.0/24", "10.10.0.7/32", "10.11.0.0/25", "10.10.0.0/23", "10.11.0.0/23"),
        *("fdab:5c1e:7d04::/64", "fdab:5c1e:7d04::7/128"),
    ],
)
def test_auto_passes_over_what_is_in_use(leases, network):
    number = leases(taken(network)).take("a", "auto").number
    assert not Lease("a", number, "").overlaps(ipaddress.ip_network(network))
    assert number == (2 if network.endswith("/23") else 1)


@pytest.mark.parametrize("network", ["10.0.0.0/8", "0.0.0.0/0", "10.11.0.0/16"])
def test_a_covered_pool_is_an_error_and_not_a_lease(leases, network, tmp_path):
    with pytest.raises(HostError, match=r"no /24 is free"):
        leases(taken(network)).take("a", "auto")
    assert list((tmp_path / "leases").glob("*.json")) == []


def test_same_sandbox_keeps_its_lease(leases):
    leases().take("a", "auto")
    leases().take("b", "auto")
    leases().free("a")
    assert leases().take("b", "auto").number == 1


def test_auto_returns_to_the_number_of_a_bridge_that_still_stands(leases):
    bridge = taken("10.10.5.0/24", interface=bridge_name("a"))
    assert leases(bridge).take("a", "auto").number == 5


def test_fixed_subnet_that_is_taken_names_the_owner(leases):
    leases().take("a", "10.10.3.0/24")
    with pytest.raises(HostError, match=r"sandbox 'a' \(checkout .*here\)"):
        leases().check("b", "10.10.3.0/24")
    network = taken("10.11.4.0/24", "the Docker network 'x'", docker_id="1")
    with pytest.raises(HostError, match="the Docker network 'x'"):
        leases(network).check("b", "10.10.4.0/24")


def test_own_bridges_are_no_obstacle(leases):
    own = [
        taken("10.10.3.0/24", interface=bridge_name("a")),
        taken("10.11.3.0/24", interface=egress_bridge_name("a")),
        taken("10.10.3.0/24", docker_id="1", interface=bridge_name("a"), sandbox="a"),
    ]
    lease = leases(*own).take("a", "10.10.3.0/24")
    assert leases(*own).conflicts(lease) == []


@pytest.mark.parametrize(
    "stranger",
    [
        taken("10.10.3.0/28", interface="eth1"),
        taken("10.11.3.0/24", docker_id="1", interface="br-1"),
        taken("10.10.3.0/24", docker_id="1", interface=bridge_name("a")),
        taken("10.10.3.0/24", docker_id="1", interface="br-1", sandbox="b"),
    ],
    ids=["route", "docker network", "twin of the bridge", "another sandbox's network"],
)
def test_stranger_in_the_lease_is_a_conflict(leases, stranger):
    lease = leases().take("a", "10.10.3.0/24")
    assert leases().conflicts(lease) == []
    assert leases(stranger).conflicts(lease) == ["a route overlaps"]


def test_tampered_lease_file_is_a_conflict_and_restored(leases, tmp_path):
    lease = leases().take("a", "10.10.3.0/24")
    path = tmp_path / "leases" / "a.json"
    path.unlink()
    assert leases().conflicts(lease) == ["the lease's file is gone"]
    leases().restore(lease)
    path.write_text(json.dumps({**lease.to_document(), "number": 7}))
    assert leases().conflicts(lease) == ["the lease's file says 10.10.7.0/24"]
    leases().restore(lease)
    assert leases().conflicts(lease) == []


def test_namesake_of_a_checkout_that_exists_is_refused(leases, tmp_path):
    leases(owner="there").take("a", "auto")
    with pytest.raises(HostError, match="exists already on this host"):
        leases().check("a", "auto")
    leases().free("a")  # not ours to free
    assert leases().find("a") is not None
    (tmp_path / "there").rmdir()
    assert leases().take("a", "auto").owner.endswith("here")


def test_two_sandboxes_may_not_share_a_bridge_name(leases, tmp_path):
    leases().take("a", "auto")
    path = tmp_path / "leases" / "b.json"
    twin = Leases(tmp_path / "leases", "x", list)
    # No two names are known to collide; so the check is tried on a lease that claims a's bridges.
    path.write_text(json.dumps({"sandbox": "b", "number": 9, "owner": "x"}))

    class Colliding(Lease):
        interfaces = (bridge_name("b"), "other")

    assert twin._other_leases(Colliding("c", 200, "x")) == ["the lease of sandbox 'b' (checkout x)"]


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"sandbox": "b", "number": 1, "owner": "x"}'])
def test_unreadable_lease_file_is_an_error_that_names_it(leases, tmp_path, text):
    leases().take("other", "auto")
    (tmp_path / "leases" / "a.json").write_text(text)
    with pytest.raises(HostError, match=r"a\.json"):
        leases().take("a", "auto")


@pytest.mark.parametrize(
    "subnet",
    [
        "",
        "x",
        "10.10.3.0",
        "10.10.3.0/25",
        "10.10.3.1/24",
        "10.12.3.0/24",
        "10.11.3.0/24",
        "10.10.0.0/16",
        "192.168.0.0/24",
        "AUTO",
        "10.10.3.0/24\n",
    ],
)
def test_subnet_out_of_the_pool_is_refused(subnet):
    with pytest.raises(SettingsError):
        parse_subnet(subnet)


def test_check_touches_nothing(leases, resource_over, tmp_path):
    resource = resource_over(leases)
    for subnet in ("auto", "10.10.3.0/24", "nonsense"):
        list(resource.problems({"sandbox": "a", "subnet": subnet}, {}))
    assert not (tmp_path / "leases").exists()


def test_check_shows_three_lines(resource_over):
    def no_docker():
        raise HostError(what="no Docker engine answers", why="refused", remedy="start dockerd")

    resource = resource_over(no_docker)
    (failure,) = resource.problems({"sandbox": "a", "subnet": "auto"}, {})
    assert failure.reason.splitlines() == [
        "no Docker engine answers",
        "why: refused",
        "do: start dockerd",
    ]
    (failure,) = resource.problems({"sandbox": "../x", "subnet": "auto"}, {})
    assert "'../x'" in failure.reason


def test_no_name_leads_out_of_the_folder(leases):
    with pytest.raises(AboxError):
        leases().take("../x", "auto")


def test_preview_knows_names_at_once_and_addresses_if_fixed(leases, resource_over):
    resource = resource_over(leases)
    planned = resource.planned({"sandbox": "a", "subnet": "auto"}, None)
    assert planned["bridge"] == bridge_name("a")
    planned = resource.planned({"sandbox": "a", "subnet": "10.10.3.0/24"}, None)
    assert planned["gateway"] == "10.10.3.2"
    assert planned["agent"] == "10.10.3.10"
    assert planned["egress_gateway"] == "10.11.3.2"
    assert planned["egress_gateway_v6"] == "fdab:5c1e:7d04:3::2"


def test_removal_takes_what_the_sandbox_left_but_no_data(leases, resource_over):
    engine = FakeEngine(
        containers_by_id={"c": {"Id": "c"}},
        networks_by_id={"n": {"Id": "n", "Containers": {"c": {}}}},
    )
    resource = resource_over(leases, engine)
    _, state = resource.create({"sandbox": "a", "subnet": "auto"})
    engine.calls.clear()
    resource.delete("a", state)
    assert ("containers", {"all": True, "filters": {"label": "abox.sandbox=a"}}) in engine.calls
    assert ("remove_container", ("c",), {"force": True, "v": True}) in engine.calls
    assert ("remove_network", ("n",), {}) in engine.calls
    assert not [call for call in engine.calls if "volume" in call[0]]
    assert leases().find("a") is None
