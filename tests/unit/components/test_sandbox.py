"""Wiring of one sandbox, with Pulumi's mocks: who is made of what, and in which order."""

from __future__ import annotations

from ipaddress import IPv4Address
from pathlib import PurePosixPath
from typing import Any

import pulumi
import pytest
from pulumi.runtime import mocks

from abox.agent_environment import agent_environment
from abox.pod import control_container, dns_container, pause_container, proxy_container
from abox.render.seccomp import render_seccomp
from abox.settings import parse_settings
from components.sandbox import Sandbox, SandboxArgs

LEASE = {
    "subnet": "10.10.3.0/24",
    "gateway": "10.10.3.2",
    "agent": "10.10.3.10",
    "host": "10.10.3.1",
    "bridge": "abx-project-a",
    "egress_bridge": "abx-project-ae",
    "egress_subnet": "10.11.3.0/24",
    "egress_host": "10.11.3.1",
    "egress_gateway": "10.11.3.2",
    "egress_subnet_v6": "fdab:5c1e:7d04:3::/64",
    "egress_host_v6": "fdab:5c1e:7d04:3::1",
    "egress_gateway_v6": "fdab:5c1e:7d04:3::2",
    "table": "abox-project-a",
    "conflicts": [],
}
IMAGES = {"gateway": "sha256:" + "a" * 64, "agent": "sha256:" + "b" * 64}
CONTAINER = "docker:index/container:Container"


class Recorder(mocks.Mocks):
    """Remembers every resource and answers what the providers would."""

    def __init__(self) -> None:
        self.seen: dict[str, dict[str, Any]] = {}
        self.order: list[str] = []
        self.types: dict[str, str] = {}

    def call(self, args: mocks.MockCallArgs):  # noqa: ARG002  # the base class's signature
        return {}

    def new_resource(self, args: mocks.MockResourceArgs):
        if not args.custom:  # a component, which may share its name with its container
            return f"{args.name}-id", {}
        self.seen[args.name] = dict(args.inputs)
        self.types[args.name] = args.typ
        self.order.append(args.name)
        found = {k: v for k, v in args.inputs.items() if v is not None}
        if args.typ == "abox:index:SubnetLease":
            found |= LEASE
        elif args.typ == "abox:index:CertificateAuthority":
            found |= {"certificate": "PEM", "key": "KEY", "fingerprint": "f" * 64}
        elif args.typ == "abox:index:ContainerGeneration":
            found |= {"generation": "0", "damage": []}
        elif args.typ == "abox:index:GatewayPolicy":
            found |= {"policy_hash": "h" * 64}
        found.setdefault("name", f"{args.name}-1234567")
        return f"{args.name}-id", found


@pytest.fixture(params=[False, True], ids=["up", "preview"])
def recorder(request):
    recorder = Recorder()
    pulumi.runtime.set_mocks(recorder, project="abox", stack="project-a", preview=request.param)
    return recorder


@pulumi.runtime.test
def build(raw: dict[str, Any] | None = None):
    """Run the program to its end, so that assertions stand outside of any `apply`."""
    settings = parse_settings("project-a", {"allow": ["example.com"], **(raw or {})})
    args = SandboxArgs(
        settings=settings,
        images=IMAGES,
        upstream_dns=(IPv4Address("198.51.100.53"),),
        state_dir=PurePosixPath("/var/lib/abox"),
    )
    return pulumi.Output.all(*Sandbox("project-a", args).outputs.values())


def test_all_five_containers_are_hardened(recorder):
    build()
    containers = {n: recorder.seen[n] for n, t in recorder.types.items() if t == CONTAINER}
    assert len(containers) == 5
    for name, props in containers.items():
        assert props["capabilities"] == {"drops": ["ALL"]}, name
        options = ["no-new-privileges:true", f"seccomp={render_seccomp()}"]
        assert props["securityOpts"] == options, name
        assert props["readOnly"] is True, name
        assert props["privileged"] is False, name
        assert props["memory"] == props["memorySwap"] > 0, name
        assert "ports" not in props, name
        assert props["image"].startswith("sha256:"), name


def test_the_agent_has_one_network_and_no_restart(recorder):
    build()
    agent = recorder.seen["project-a-agent"]
    assert [n["name"] for n in agent["networksAdvanced"]] == ["project-a-network-internal-id"]
    assert agent["networksAdvanced"][0]["ipv4Address"] == LEASE["agent"]
    assert agent["dns"] == [LEASE["gateway"]]
    assert agent["restart"] == "no"
    assert recorder.seen["project-a-network-internal"]["internal"] is True


def test_without_networks_of_ipv6_there_is_none_anywhere(recorder):
    build()
    for leg in ("internal", "egress"):
        network = recorder.seen[f"project-a-network-{leg}"]
        assert network["ipv6"] is False
        assert len(network["ipamConfigs"]) == 1
    pause = recorder.seen["project-a-gateway-pause"]
    assert pause["sysctls"]["net.ipv6.conf.all.disable_ipv6"] == "1"
    assert "ip6" not in recorder.seen["project-a-firewall-table"]["rules"]


def test_networks_of_ipv6_give_the_egress_leg_ipv6_and_no_other(recorder):
    build({"allow_private_cidrs": ["10.66.0.0/16", "fd66::/32"]})
    egress = recorder.seen["project-a-network-egress"]
    assert egress["ipv6"] is True
    pool = {"subnet": LEASE["egress_subnet_v6"], "gateway": LEASE["egress_host_v6"]}
    assert pool in egress["ipamConfigs"]
    assert recorder.seen["project-a-network-internal"]["ipv6"] is False
    inside, outside = recorder.seen["project-a-gateway-pause"]["networksAdvanced"]
    assert "ipv6Address" not in inside
    assert outside["ipv6Address"] == LEASE["egress_gateway_v6"]
    assert "ipv6Address" not in recorder.seen["project-a-agent"]["networksAdvanced"][0]
    for leg, ipv6 in (("internal", False), ("egress", True)):
        assert recorder.seen[f"project-a-network-{leg}-posture"]["ipv6"] is ipv6
    assert "fd66::/32" in recorder.seen["project-a-firewall-table"]["rules"]


def test_the_agent_is_told_proxy_and_trust_in_every_spelling(recorder):
    build()
    env = set(recorder.seen["project-a-agent"]["envs"])
    expected = agent_environment("http://10.10.3.2:8080")
    assert env >= {f"{name}={value}" for name, value in expected.items()}


def test_no_agent_before_its_firewall_policy_and_gate(recorder):
    build()
    position = recorder.order.index
    for earlier in (
        "project-a-firewall-table",
        "project-a-proxy-policy",
        "project-a-network-internal-posture",
        "project-a-network-egress-posture",
        "project-a-ready",
    ):
        assert position(earlier) < position("project-a-agent"), earlier
    assert position("project-a-firewall-table") < position("project-a-network-internal")
    for leg in ("internal", "egress"):  # strangers leave before anything connects
        assert position(f"project-a-network-{leg}-posture") < position("project-a-gateway-pause")


def test_every_container_is_watched_from_both_sides(recorder):
    build()
    containers = [name for name, kind in recorder.types.items() if kind == CONTAINER]
    for name in containers:
        posture = recorder.seen[f"{name}-posture"]
        assert posture["container"] == f"{name}-id"
        assert posture["expected"]["pids_limit"] > 0
        assert f"{name}-generation" in recorder.seen


def test_the_same_allowlist_reaches_gateway_and_table(recorder):
    build({"allow": ["example.com", {"host": "example.org", "ports": [8443]}]})
    policy = recorder.seen["project-a-proxy-policy"]["policy"]
    assert "example.com" in str(policy)
    assert "8443" in recorder.seen["project-a-firewall-table"]["rules"]


@pytest.mark.parametrize(
    "describe",
    [
        lambda _: pause_container(),
        dns_container,
        lambda address: proxy_container(address, 8080, "project-a"),
        lambda address: control_container(address, 8080, "project-a"),
    ],
    ids=["pause", "dns", "proxy", "control"],
)
def test_only_the_environment_depends_on_the_leased_address(describe):
    """`components/pod.py` reads everything else before the address is known."""
    one, other = describe("10.10.3.2"), describe("0.0.0.0")
    assert list(one.env) == list(other.env)
    for field in ("role", "command", "user", "memory_mb", "pids_limit", "mounts", "tmpfs"):
        assert getattr(one, field) == getattr(other, field), field
