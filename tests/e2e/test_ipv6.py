"""IPv6 is off, and on for one leg and the networks that the stack names if it names any."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests import host
from tests.cases.sandbox import Sandbox
from tests.world import World

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

NAMED = "fd66::/32"
FIRST, LAST = "fd66::5", "fd66:0:ffff:ffff:ffff:ffff:ffff:ffff"
BESIDE, PUBLIC = "fd66:1::", "2600::5"
SETTINGS = {"allow": ["allowed.test", "*.wild.test"], "allow_private_cidrs": ["198.51.100.0/24"]}


@pytest.fixture(scope="module")
def sandbox_v6(make_sandbox: Callable[[str], Sandbox]) -> Sandbox:
    """A sandbox whose stack names a network of IPv6."""
    sandbox = make_sandbox("6")
    sandbox.up({**SETTINGS, "allow_private_cidrs": ["198.51.100.0/24", NAMED]})
    return sandbox


@pytest.fixture
def origins(sandbox_v6: Sandbox, world: World) -> World:  # it stands by now
    """Origins on both sides of the network's edges, and names for them."""
    for address in (FIRST, LAST, BESIDE, PUBLIC):
        world.origin(at=f"[{address}]:80", speaks="http")
    world.origin(at="198.51.100.10:80", speaks="http")
    names = {"first": FIRST, "last": LAST, "beside": BESIDE, "public": PUBLIC}
    world.dns.set(
        {"allowed.test": ["198.51.100.10"]}
        | {f"{name}.wild.test": [address] for name, address in names.items()}
    )
    return world


def addresses_v6(sandbox: Sandbox, role: str) -> dict[str, list[str]]:
    """Interface to its addresses of IPv6, without loopback, in the namespace of a container."""
    enter = ["nsenter", f"--net=/proc/{sandbox.pid(role)}/ns/net", "--"]
    shown = json.loads(host.run([*enter, "ip", "-j", "-6", "address"]).stdout or "[]")
    return {
        one["ifname"]: [found["local"] for found in one["addr_info"]]
        for one in shown
        if one.get("ifname") and one["ifname"] != "lo"
    }


def get(sandbox: Sandbox, name: str) -> Any:
    """Status of a page through the proxy."""
    asked = {"method": "GET", "url": f"http://{name}/", "via": "proxy"}
    (answer,) = sandbox.agent.ask("http", asked)
    return answer["status"]


def from_pod(sandbox: Sandbox, address: str, port: int) -> bool:
    """Whether a process in the pod, past the proxy, reaches an address."""
    code = (
        "import socket,sys\n"
        "s=socket.socket(socket.AF_INET6); s.settimeout(2)\n"
        "sys.exit(0 if s.connect_ex((sys.argv[1],int(sys.argv[2])))==0 else 1)"
    )
    enter = ["nsenter", f"--net=/proc/{sandbox.pid('pause')}/ns/net", "--"]
    return host.run([*enter, "python3", "-c", code, address, str(port)], check=False).code == 0


def test_net_7_a_named_network_of_ipv6_is_reached_to_its_end_and_no_other(sandbox_v6, origins):
    """NET-7: the proxy dials the named network after the address rule, and nothing else of IPv6."""
    assert get(sandbox_v6, "allowed.test") == 200
    for name in ("first.wild.test", "last.wild.test"):
        assert get(sandbox_v6, name) == 200, name
    origins.clear_records()
    assert get(sandbox_v6, "beside.wild.test") == 403
    assert get(sandbox_v6, "public.wild.test") in (502, 503)
    assert origins.connections() == []


def test_net_7_the_table_alone_holds_ipv6(sandbox_v6, origins):
    """NET-7: a process in the pod reaches the named network's allowed ports and nothing else."""
    assert from_pod(sandbox_v6, FIRST, 80)
    assert from_pod(sandbox_v6, LAST, 80)
    origins.clear_records()
    lease = sandbox_v6.facts.lease
    for address, port in ((BESIDE, 80), (PUBLIC, 80), (FIRST, 25), (lease["egress_host_v6"], 22)):
        assert not from_pod(sandbox_v6, address, port), address
    assert origins.connections() == []


def test_net_7_only_the_egress_leg_has_ipv6(sandbox_v6):
    """NET-7: the agent and the pod's leg on its bridge have no address of IPv6 at all."""
    found = addresses_v6(sandbox_v6, "pause")
    lease = sandbox_v6.facts.lease
    with_leg = [
        name for name, addresses in found.items() if lease["egress_gateway_v6"] in addresses
    ]
    assert len(with_leg) == 1
    assert [name for name, addresses in found.items() if addresses] == with_leg
    assert not any(addresses_v6(sandbox_v6, "agent").values())


def test_net_7_ipv6_is_no_drift_and_goes_with_the_setting(sandbox_v6, origins):
    """NET-7: a second look changes nothing; without the network there is no IPv6 left."""
    assert not sandbox_v6.stack.drifted()
    assert from_pod(sandbox_v6, FIRST, 80)
    sandbox_v6.up(SETTINGS)
    assert get(sandbox_v6, "allowed.test") == 200
    assert not any(addresses_v6(sandbox_v6, "pause").values())
    assert not from_pod(sandbox_v6, FIRST, 80)
    assert get(sandbox_v6, "first.wild.test") == 403
