"""Wiring of one sandbox, with Pulumi's mocks: who is made of what, and in which order."""

from __future__ import annotations

from ipaddress import IPv4Address
from pathlib import PurePosixPath
from typing import Any

import pulumi
import pytest
import yaml
from pulumi.runtime import mocks

from abox.agent_environment import agent_environment
from abox.naming import default_mac, filter_name
from abox.pod import control_container, dns_container, pause_container, proxy_container
from abox.render.domain import DomainSpec, render_stylesheet
from abox.render.heartbeat import UNIT
from abox.render.seccomp import render_seccomp
from abox.render.volume import render_overlay_stylesheet
from abox.settings import parse_settings
from components.sandbox import Sandbox, SandboxArgs
from components.vm import Machine

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
    "generation": "1",
    "unrecorded": [],
}
IMAGES = {"gateway": "sha256:" + "a" * 64, "agent": "sha256:" + "b" * 64}
MACHINE = Machine(
    image="/images/disk.qcow2",
    digest="c" * 64,
    format="qcow2",
    kernel="/images/vmlinuz",
    initrd="/images/initrd",
    cmdlines=({"root": "/dev/vda"}, {"_": "ro quiet"}),
)
CONTAINER = "docker:index/container:Container"


MADE: dict[str, dict[str, Any]] = {
    "abox:index:SubnetLease": LEASE,
    "abox:index:Cleanup": {"strays": [], "generation": "1"},
    "abox:index:CertificateAuthority": {
        "certificate": "PEM",
        "key": "KEY",
        "fingerprint": "f" * 64,
    },
    "abox:index:ContainerGeneration": {"generation": "0", "damage": []},
    "abox:index:GatewayPolicy": {"policy_hash": "h" * 64},
    "abox:index:SshKey": {"private_key": "PRIVATE"},
    "abox:index:SshAccess": {"config": "/state/ssh/config", "digest": "d" * 64},
    "abox:index:CloudInitVolume": {"path": "/pool/seed.img"},
    "abox:index:DomainGeneration": {
        "generation": "1",
        "damage": [],
        "strays": [],
        "suspended": [],
    },
}
"""Outputs that the providers make."""


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
        found |= MADE.get(args.typ, {})
        if args.typ == "abox:index:SshKey":
            found["public"] = f"ssh-ed25519 {args.name}"
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
        machine=MACHINE if settings.backend == "vm" else None,
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


# --- the agent as a VM -------------------------------------------------------------------------

VM = {"backend": "vm"}
DOMAIN = "project-a-vm"


def test_a_vm_takes_the_place_of_the_agents_container(recorder):
    build(VM)
    kinds = list(recorder.types.values())
    assert kinds.count(CONTAINER) == 4
    assert kinds.count("libvirt:index/domain:Domain") == 1
    assert "project-a-agent" not in recorder.seen
    roles = recorder.seen["project-a-network-internal-posture"]["roles"]
    assert roles == ["pause"]


def test_the_same_policy_reaches_the_same_gateway(recorder):
    build(VM)
    machine = dict(recorder.seen)
    build()
    for name in ("project-a-proxy-policy", "project-a-firewall-table"):
        assert machine[name] == recorder.seen[name], name


def test_no_vm_before_its_filters_firewall_and_bridge(recorder):
    build(VM)
    position = recorder.order.index
    for earlier in (
        "project-a-vm-link-filter",
        "project-a-vm-filter",
        "project-a-vm-generation",
        "project-a-firewall-table",
        "project-a-network-internal-posture",
        "project-a-network-egress-posture",
    ):
        assert position(earlier) < position(DOMAIN), earlier
    assert position("project-a-vm-link-filter") < position("project-a-vm-filter")
    assert position(DOMAIN) < position("project-a-vm-posture") < position("project-a-vm-ready")
    assert position("project-a-ready") < position("project-a-vm-ready")


def test_the_domain_is_hardened_and_bound_to_its_filter(recorder):
    build(VM)
    domain = recorder.seen[DOMAIN]
    spec = DomainSpec(
        sandbox="project-a",
        filter=filter_name("project-a"),
        base=MACHINE.image,
        base_format=MACHINE.format,
    )
    assert domain["xml"] == {"xslt": render_stylesheet(spec)}
    assert domain["networkInterfaces"] == [
        {"bridge": LEASE["bridge"], "mac": default_mac("project-a")}
    ]
    assert domain["autostart"] is False
    assert domain["qemuAgent"] is False
    assert "graphics" not in domain
    assert "cloudinit" not in domain
    posture = recorder.seen["project-a-vm-posture"]
    assert posture["hardened"]["filter"] == filter_name("project-a")
    assert posture["hardened"]["bridge"] == LEASE["bridge"]


def test_root_workspace_and_seed_are_the_disks_in_this_order(recorder):
    build({**VM, "vm": {"disk_gb": 5}})
    disks = [disk["volumeId"] for disk in recorder.seen[DOMAIN]["disks"]]
    assert disks == ["project-a-vm-root-id", "project-a-vm-workspace-id", "/pool/seed.img"]
    root, workspace = (recorder.seen[f"project-a-vm-{name}"] for name in ("root", "workspace"))
    assert root["size"] == workspace["size"] == 5 * 2**30
    assert root["xml"] == {"xslt": render_overlay_stylesheet("/images/disk.qcow2", "qcow2")}
    assert "xml" not in workspace


def test_the_guest_is_told_address_proxy_keys_and_the_users_own_things(recorder):
    key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAICsAt85wr/S/UDZ0zhBbUsEKHd6ktRgfwl19ArCvVklb"
    build({**VM, "vm": {"ssh_key": key, "packages": ["jq"], "commands": ["echo hi"]}})
    seed = recorder.seen["project-a-vm-seed"]
    document = yaml.safe_load(seed["user_data"])
    (user,) = document["users"]
    assert user["ssh_authorized_keys"] == ["ssh-ed25519 project-a-vm-login-key", key]
    assert document["packages"] == ["jq"]
    assert document["runcmd"][-1] == "echo hi"
    network = yaml.safe_load(seed["network_config"])["ethernets"]["eth0"]
    assert network["addresses"] == [f"{LEASE['agent']}/24"]
    assert network["nameservers"] == {"addresses": [LEASE["gateway"]], "search": []}
    access = recorder.seen["project-a-vm-access"]
    assert access["host_public"] == "ssh-ed25519 project-a-vm-host-key"


def test_what_a_vm_needs_is_asked_of_the_host_first(recorder):
    build({**VM, "vm": {"memory_mb": 512}})
    needs = recorder.seen["project-a-preflight"]["machine"]
    assert needs["image"] == "/images/disk.qcow2"
    assert needs["memory_mb"] == 512
    assert recorder.seen["project-a-preflight"]["images"] == [IMAGES["gateway"]]


def test_the_monitor_port_is_there_if_the_stack_asks_for_it(recorder):
    build(VM)
    assert "project-a-vm-monitor" not in recorder.seen
    build({**VM, "monitor": {"enabled": True}})
    path = "/var/lib/abox/sandboxes/project-a/monitor/port"
    assert f'mode="connect" path="{path}"' in recorder.seen[DOMAIN]["xml"]["xslt"]
    assert recorder.seen["project-a-vm-posture"]["hardened"]["monitor"] == path
    assert UNIT in recorder.seen["project-a-vm-seed"]["boot_script"]
    again = len(recorder.order) - recorder.order[::-1].index(DOMAIN) - 1
    assert recorder.order.index("project-a-vm-monitor") < again


TEMPLATE = """<domain type='qemu'><memory unit='MiB'>{{memory_mb}}</memory><devices>
<interface type='bridge'><mac address='{{mac}}'/><source bridge='{{bridge}}'/>
<filterref filter='{{filter}}'/></interface></devices></domain>"""


def test_a_template_replaces_the_domain_and_keeps_the_filter(recorder):
    build({**VM, "vm": {"domain_template": TEMPLATE}})
    sheet = recorder.seen[DOMAIN]["xml"]["xslt"]
    assert f'filterref filter="{filter_name("project-a")}"' in sheet
    assert f'source bridge="{LEASE["bridge"]}"' in sheet
    assert recorder.seen["project-a-vm-posture"]["hardened"] == {}
