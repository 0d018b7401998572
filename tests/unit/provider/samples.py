"""One example a resource type, over fakes: what the contract tests in this folder walk through."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field, replace
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import docker.errors

from abox.allowlist import Policy, parse_policy
from abox.render.nwfilter import FilterSpec, render_filter
from abox.secrets import combined_hash, digests, parse_secrets
from provider import host
from provider.bridge_filtering import WANTED, BridgeFiltering, BridgeFilteringResource
from provider.certificate_authority import (
    CertificateAuthorityResource,
    fingerprint,
    make_authority,
)
from provider.cleanup import CleanupResource
from provider.cloud_init_volume import CloudInitVolumeResource
from provider.container_posture import ContainerGenerationResource, ContainerPostureResource
from provider.domain_generation import DomainGenerationResource
from provider.domain_posture import DomainPostureResource, Tools
from provider.engine import ExecResult
from provider.firewall_table import FirewallTableResource
from provider.gateway_policy import GatewayPolicyResource
from provider.leftovers import Leftovers
from provider.log_folder import LogFolderResource
from provider.monitor_folder import MonitorFolderResource
from provider.network_posture import Links, NetworkPostureResource
from provider.nwfilter import NwFilterResource
from provider.preflight import Hypervisor, Preflight, PreflightResource
from provider.records import Record, Records
from provider.resource import Data, Resource
from provider.ssh_access import SshAccessResource
from provider.ssh_key import SshKeyResource, make_key
from provider.storage_pool import PoolCleanupResource
from provider.subnet_lease import Leases, SubnetLeaseResource
from tests.unit.provider.fake_libvirt import HARDENED, UUID, FakeDomain, FakeLibvirt, domain_xml

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
MEGABYTE = 1024 * 1024


def finished(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Result of a coroutine; unlike `asyncio.run` it leaves the thread's loop to other tests."""
    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(coroutine)
    finally:
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()


def authority():
    return make_authority("p", 365, NOW)


FIRST_CA, SECOND_CA = authority(), authority()


def container_inspection(container: str) -> dict[str, Any]:
    """What the engine says about a container that is exactly as asked."""
    return {
        "Id": container,
        "Image": "sha256:1",
        "State": {"Running": True, "Paused": False, "Restarting": False, "Pid": 10},
        "Config": {"Env": ["PATH=/bin"], "Cmd": ["sleep"], "User": "", "Labels": {}},
        "HostConfig": {
            "NetworkMode": "net",
            "CapDrop": ["ALL"],
            "SecurityOpt": ["no-new-privileges:true"],
            "ReadonlyRootfs": True,
            "IpcMode": "private",
            "PidsLimit": 64,
            "Memory": 64 * MEGABYTE,
            "MemorySwap": 64 * MEGABYTE,
            "RestartPolicy": {"Name": "no"},
        },
        "NetworkSettings": {
            "Networks": {"n": {"NetworkID": "net1", "IPAMConfig": {"IPv4Address": "10.10.0.10"}}}
        },
        "Mounts": [],
    }


@dataclass
class FakeEngine:
    """A Docker engine in memory that notes every call."""

    calls: list[Any] = field(default_factory=list)
    containers_by_id: dict[str, dict[str, Any]] = field(default_factory=dict)
    networks_by_id: dict[str, dict[str, Any]] = field(default_factory=dict)
    answer: Callable[[list[str], bytes], ExecResult] | None = None
    set_resources: Callable[[str, Data], None] | None = None
    refusal: Exception | None = None

    def __call__(self) -> Any:
        if self.refusal is not None:
            raise self.refusal
        return self

    def find_container(self, container: str) -> dict[str, Any] | None:
        self.calls.append(("find_container", container))
        return self.containers_by_id.get(container)

    def find_network(self, network: str) -> dict[str, Any] | None:
        self.calls.append(("find_network", network))
        return self.networks_by_id.get(network)

    def find_image(self, image: str) -> dict[str, Any] | None:
        self.calls.append(("find_image", image))
        return {"Id": image, "Config": {"Env": ["PATH=/bin"], "Cmd": ["sleep"]}}

    def containers(self, **kwargs: Any) -> list[dict[str, Any]]:
        self.calls.append(("containers", kwargs))
        return list(self.containers_by_id.values())

    def networks(self, **kwargs: Any) -> list[dict[str, Any]]:
        self.calls.append(("networks", kwargs))
        return list(self.networks_by_id.values())

    def volumes(self, **kwargs: Any) -> dict[str, Any]:
        self.calls.append(("volumes", kwargs))
        return {"Volumes": None}

    def exec_with_input(
        self, container: str, command: list[str], *, stdin: bytes, timeout_s: int
    ) -> ExecResult:
        self.calls.append((container, command, stdin, timeout_s))
        assert self.answer is not None
        return self.answer(command, stdin)

    def inspect_network(self, network: str) -> dict[str, Any]:
        found = self.find_network(network)
        if found is None:
            raise docker.errors.NotFound("no such network")
        return found

    def disconnect_container_from_network(self, container: str, network: str, **kw: Any) -> None:
        self.calls.append(("disconnect", container, network, kw))
        self.networks_by_id.get(network, {}).get("Containers", {}).pop(container, None)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return lambda *args, **kwargs: self.calls.append((name, args, kwargs))


@dataclass
class FakeNft:
    """nft with tables in memory: a script's text is its table's only rule."""

    calls: list[Any]
    tables: dict[str, str] = field(default_factory=dict)
    failure: Exception | None = None

    def __call__(self, *arguments: str, stdin: str = "") -> str:
        self.calls.append((arguments, stdin))
        if self.failure is not None:
            raise self.failure
        if arguments == ("-j", "list", "tables"):
            named = [{"table": {"family": "inet", "name": name}} for name in self.tables]
            return json.dumps({"nftables": [{"metainfo": {}}, *named]})
        if arguments[:3] == ("-j", "list", "table"):
            rule = {"rule": {"chain": "c", "handle": 1, "comment": self.tables[arguments[-1]]}}
            return json.dumps({"nftables": [{"metainfo": {}}, rule]})
        if arguments == ("-f", "-"):
            self.tables["t"] = stdin
        if arguments[:2] == ("delete", "table"):
            del self.tables[arguments[-1]]
        return ""


@dataclass
class Sample:
    """One resource over a fake host."""

    resource: Resource
    inputs: Data
    changed: Data
    """Another valid value for each input."""
    drifted: dict[str, Any]
    """For each drift field a value that says that something has changed."""
    trace: list[Any]
    """What was done on the fake host."""


def subnet_lease(folder: Path) -> Sample:
    engine = FakeEngine()
    leases = Leases(folder / "leases", "/checkout", list)
    return Sample(
        SubnetLeaseResource(
            lambda: leases, lambda: Leftovers(engine), lambda: Records(folder / "sandboxes")
        ),
        {"sandbox": "p", "subnet": "10.10.3.0/24"},
        {"sandbox": "q", "subnet": "10.10.4.0/24"},
        {"conflicts": ["somebody overlaps"]},
        engine.calls,
    )


def cleanup(folder: Path) -> Sample:
    libvirt = FakeLibvirt(folder)
    return Sample(
        CleanupResource(
            lambda: Leftovers(FakeEngine()), FakeNft([]), libvirt.virsh, lambda: folder
        ),
        {"sandbox": "p", "machine": True},
        {"sandbox": "q", "machine": False},
        {"strays": ["p-vm-pool-1"]},
        libvirt.calls,
    )


def firewall_table(folder: Path) -> Sample:
    nft = FakeNft([])
    return Sample(
        FirewallTableResource(nft),
        {"table": "t", "rules": "one"},
        {"table": "u", "rules": "two"},
        {"live": '{"rule":{"chain":"c","comment":"added"}}\n'},
        nft.calls,
    )


def bridge_filtering(folder: Path) -> Sample:
    settings = dict(WANTED)
    filtering = BridgeFiltering(settings.get, settings.__setitem__, lambda _: None)
    return Sample(
        BridgeFilteringResource(filtering), {}, {}, {"settings": dict.fromkeys(WANTED, "0")}, []
    )


def certificate_authority(folder: Path) -> Sample:
    return Sample(
        CertificateAuthorityResource(lambda: NOW),
        {"sandbox": "p", "valid_days": 365},
        {"sandbox": "q", "valid_days": 100},
        {"findings": ["the certificate ends soon"]},
        [],
    )


def gateway_policy(folder: Path) -> Sample:
    live: dict[str, str] = {}

    def answer(command: list[str], stdin: bytes) -> ExecResult:
        if command[-1] == "apply":
            document = json.loads(stdin)
            found = digests(parse_secrets(document["secrets"], "secrets"), document["ca"]["key"])
            policy = Policy.from_document(document["policy"])
            live["policy_hash"] = combined_hash(policy.hash, found)
            live["ca_fingerprint"] = fingerprint(document["ca"]["certificate"])
            live["trust_sha256"] = "abc"
            return ExecResult(0, json.dumps({"ok": True, **live}).encode(), b"")
        return ExecResult(0, json.dumps(live).encode(), b"")

    running = {name: container_inspection(name) for name in ("control1", "control2")}
    engine = FakeEngine(containers_by_id=running, answer=answer)
    return Sample(
        GatewayPolicyResource(engine),
        {
            "container": "control1",
            "sandbox": "p",
            "policy": parse_policy(["example.com"]).to_document(),
            "gateway": "10.10.0.2",
            "proxy_port": 8080,
            "upstream_dns": ["198.51.100.53"],
            "trusted_cas": [],
            "ca_certificate": FIRST_CA.certificate,
            "ca_key": FIRST_CA.key,
            "secrets": {},
        },
        {
            "container": "control2",
            "sandbox": "q",
            "policy": parse_policy(["example.org"]).to_document(),
            "gateway": "10.10.1.2",
            "proxy_port": 8081,
            "upstream_dns": [],
            "trusted_cas": [SECOND_CA.certificate],
            "ca_certificate": SECOND_CA.certificate,
            "ca_key": SECOND_CA.key,
            "secrets": {"api_key": "s3cr3t"},
        },
        {"live_hash": "", "live_ca": "0" * 64, "live_trust": "0" * 64},
        engine.calls,
    )


EXPECTED = {
    "image": "sha256:1",
    "networks": [{"network": "net1", "address": "10.10.0.10"}],
    "pids_limit": 64,
    "memory_mb": 64,
}


def container_posture(folder: Path) -> Sample:
    containers = {name: container_inspection(name) for name in ("c1", "c2")}
    engine = FakeEngine(containers_by_id=containers)
    # The engine applies a limit, so that the changed expectation can be met.

    def set_resources(container: str, body: Data) -> None:
        engine.calls.append((container, body))
        containers[container]["HostConfig"].update(body)

    engine.set_resources = set_resources
    return Sample(
        ContainerPostureResource(engine, lambda _: "net:[1]", lambda: Records(folder)),
        {"sandbox": "p", "role": "agent", "container": "c1", "expected": EXPECTED},
        {
            "sandbox": "q",
            "role": "dns",
            "container": "c2",
            "expected": {**EXPECTED, "pids_limit": 128},
        },
        {"findings": ["the container is paused"]},
        engine.calls,
    )


def container_generation(folder: Path) -> Sample:
    engine = FakeEngine()
    return Sample(
        ContainerGenerationResource(engine, lambda: Records(folder)),
        {"sandbox": "p", "role": "agent"},
        {"sandbox": "q", "role": "dns"},
        {"damage": ["privileged is True instead of False"], "strays": ["c9"]},
        engine.calls,
    )


def log_folder(folder: Path) -> Sample:
    engine = FakeEngine()
    return Sample(
        LogFolderResource(engine, lambda: folder),
        {"sandbox": "p"},
        {"sandbox": "q"},
        {"findings": ["it is gone"]},
        engine.calls,
    )


def monitor_folder(folder: Path) -> Sample:
    libvirt = FakeLibvirt(folder)
    return Sample(
        MonitorFolderResource(libvirt.virsh, lambda _: True, lambda: folder),
        {"sandbox": "p"},
        {"sandbox": "q"},
        {"findings": ["it is gone"]},
        libvirt.calls,
    )


def network_posture(folder: Path) -> Sample:
    def network(bridge: str, *, internal: bool) -> dict[str, Any]:
        return {
            "Id": "0" * 64,
            "Internal": internal,
            "EnableIPv6": False,
            "Options": {"com.docker.network.bridge.name": bridge},
            "Containers": {name: {"Name": name} for name in ("pause", "stranger", "agent")},
        }

    networks = {
        "net1": network("abx-p", internal=True),
        "net2": network("abx-p", internal=True),
        "net3": network("abx-q", internal=True),
    }
    engine = FakeEngine(networks_by_id=networks)
    records = Records(folder)
    for role in ("agent", "pause"):
        records.keep("p", role, Record(role, {}))

    def switched_on(interface: str) -> None:
        engine.calls.append(interface)

    return Sample(
        NetworkPostureResource(
            engine,
            Links(lambda _: True, switched_on, lambda _: False, lambda _: None),
            lambda: records,
        ),
        {
            "sandbox": "p",
            "network": "net1",
            "bridge": "abx-p",
            "internal": True,
            "ipv6": False,
            "roles": ["pause", "agent"],
        },
        {
            "sandbox": "q",
            "network": "net2",
            "bridge": "abx-q",
            "internal": False,
            "ipv6": True,
            "roles": ["pause"],
        },
        {"foreign": ["stranger (stranger)"], "findings": ["it is not internal"]},
        engine.calls,
    )


MACHINE = {
    "image": "/images/disk.qcow2",
    "digest": "0" * 64,
    "memory_mb": 1024,
    "folder": "/disks",
}
"""What a VM needs."""


def hypervisor(trace: list[Any]) -> Hypervisor:
    """A host on which a VM finds what it needs."""

    def virsh(*arguments: str) -> str:
        trace.append(arguments)
        return ""

    return Hypervisor(
        virsh=virsh,
        has_tool=lambda _: True,
        memory_mb=lambda: 4096,
        file_digest=lambda _: "0" * 64,
        is_readable=lambda _: True,
    )


def preflight(folder: Path) -> Sample:
    trace: list[Any] = []

    class Engine:
        def info(self):
            return {"DockerRootDir": str(folder)}

        def find_image(self, image):
            trace.append(image)
            return {"Id": image}

    def has_ipv6() -> bool:
        trace.append("ipv6")
        return True

    checks = Preflight(
        Engine, lambda: 0, lambda _: 100_000, lambda: str(folder), hypervisor(trace), has_ipv6
    )
    return Sample(
        PreflightResource(checks),
        {"images": ["sha256:1"], "machine": {}, "ipv6": False},
        {"images": ["sha256:2"], "machine": MACHINE, "ipv6": True},
        {},
        trace,
    )


def libvirt_tools(libvirt: FakeLibvirt) -> Tools:
    return Tools(
        libvirt.virsh,
        libvirt.packet_rules,
        libvirt.is_confined,
        libvirt.bridge_of_port,
        libvirt.set_bridge,
    )


SPEC = FilterSpec(
    name="abox-p",
    link="abox-p.link",
    mac="52:54:00:AB:CD:EF",
    agent=IPv4Address("10.10.0.10"),
    gateway=IPv4Address("10.10.0.2"),
    host=IPv4Address("10.10.0.1"),
    proxy_port=8080,
)


def nwfilter(folder: Path) -> Sample:
    libvirt = FakeLibvirt(folder)
    return Sample(
        NwFilterResource(libvirt.virsh),
        {"filter": "abox-p", "xml": render_filter(SPEC)},
        {"filter": "abox-q", "xml": render_filter(replace(SPEC, proxy_port=3128))},
        {"findings": ["added: accept in all"]},
        libvirt.calls,
    )


def ssh_key(folder: Path) -> Sample:
    return Sample(
        SshKeyResource(),
        {"sandbox": "p", "purpose": "host"},
        {"sandbox": "q", "purpose": "login"},
        {"findings": ["the stored key can't be read"]},
        [],
    )


def ssh_access(folder: Path) -> Sample:
    one, other = make_key(), make_key()
    trace: list[Any] = []

    def write_private(path: Path, text: str) -> None:
        trace.append((path, text))
        host.write_private(path, text)

    return Sample(
        SshAccessResource(lambda: folder, write_private),
        {
            "sandbox": "p",
            "address": "10.10.0.10",
            "user": "agent",
            "host_public": one.public,
            "private_key": one.private,
        },
        {
            "sandbox": "q",
            "address": "10.10.1.10",
            "user": "other",
            "host_public": other.public,
            "private_key": other.private,
        },
        {"live_digest": "0" * 64},
        trace,
    )


def cloud_init_volume(folder: Path) -> Sample:
    (folder / "pool").mkdir(exist_ok=True)
    libvirt = FakeLibvirt(folder / "pool")
    return Sample(
        CloudInitVolumeResource(libvirt.virsh, libvirt.read_file),
        {
            "sandbox": "p",
            "pool": "pool1",
            "meta_data": "instance-id: a\n",
            "network_config": "version: 2\n",
            "user_data": "#cloud-config\n{}\n",
            "boot_script": "",
        },
        {
            "sandbox": "q",
            "pool": "pool2",
            "meta_data": "instance-id: b\n",
            "network_config": "version: 1\n",
            "user_data": "#cloud-config\n{a: 1}\n",
            "boot_script": "true\n",
        },
        {"live_digest": "0" * 64},
        libvirt.calls,
    )


def domain_generation(folder: Path) -> Sample:
    libvirt = FakeLibvirt(folder, domains={UUID: FakeDomain(domain_xml(UUID))})
    records = Records(folder)
    records.keep("p", "vm", Record(UUID, {}))
    return Sample(
        DomainGenerationResource(libvirt_tools(libvirt), lambda: records),
        {"sandbox": "p"},
        {"sandbox": "q"},
        {"damage": ["a run was interrupted"], "strays": ["x"], "suspended": [UUID]},
        libvirt.calls,
    )


def pool_cleanup(folder: Path) -> Sample:
    libvirt = FakeLibvirt(folder)
    return Sample(
        PoolCleanupResource(libvirt.virsh, lambda: Records(folder)),
        {"sandbox": "p", "pool": "p-vm-pool-1"},
        {"sandbox": "q", "pool": "q-vm-pool-2"},
        {},
        libvirt.calls,
    )


def domain_posture(folder: Path) -> Sample:
    other = UUID.replace("a", "b")
    domains = {UUID: domain_xml(UUID), other: domain_xml(other, sandbox="q", memory_mb=128)}
    libvirt = FakeLibvirt(folder, domains={uuid: FakeDomain(xml) for uuid, xml in domains.items()})
    return Sample(
        DomainPostureResource(libvirt_tools(libvirt), lambda: Records(folder)),
        {"sandbox": "p", "domain": UUID, "filter": "abox-p", "hardened": HARDENED},
        {
            "sandbox": "q",
            "domain": other,
            "filter": "abox-q",
            "hardened": {**HARDENED, "sandbox": "q", "memory_mb": 128},
        },
        {"findings": ["the VM is paused"]},
        libvirt.calls,
    )


SAMPLES: dict[str, Callable[[Path], Sample]] = {
    "BridgeFiltering": bridge_filtering,
    "CertificateAuthority": certificate_authority,
    "Cleanup": cleanup,
    "CloudInitVolume": cloud_init_volume,
    "ContainerGeneration": container_generation,
    "ContainerPosture": container_posture,
    "DomainGeneration": domain_generation,
    "DomainPosture": domain_posture,
    "FirewallTable": firewall_table,
    "GatewayPolicy": gateway_policy,
    "LogFolder": log_folder,
    "MonitorFolder": monitor_folder,
    "NetworkPosture": network_posture,
    "NwFilter": nwfilter,
    "PoolCleanup": pool_cleanup,
    "Preflight": preflight,
    "SshAccess": ssh_access,
    "SshKey": ssh_key,
    "SubnetLease": subnet_lease,
}
