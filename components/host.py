"""Typed classes of the own provider's resources, for the program's side.

The provider (folder ``provider/``) holds what stands behind each class. Property names are the
wire names. An argument is an input; an attribute is an output, unknown in preview where only the
host can tell it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

from pulumi import CustomResource, Input, Output, ResourceOptions


class Preflight(CustomResource):
    """Privileges, engine, images and free space: refused before anything is made."""

    def __init__(
        self,
        name: str,
        *,
        images: Input[Sequence[Input[str]]],
        machine: Input[Mapping[str, Any]] | None = None,
        ipv6: Input[bool] = False,
        opts: ResourceOptions | None = None,
    ) -> None:
        """Require ``images`` (ids), and what a VM and IPv6 need, to be on this host.

        Args:
            name: Pulumi name.
            images: ids of container images.
            machine: image (path), digest (SHA-256 of it), memory_mb and folder of disks of a VM;
                None: no VM is made.
            ipv6: whether the egress bridge has IPv6.
            opts: resource options.
        """
        props = {"images": images, "machine": machine or {}, "ipv6": ipv6}
        super().__init__("abox:index:Preflight", name, props, opts)


class SubnetLease(CustomResource):
    """A free /24 for the sandbox's bridge and one for its egress bridge, unique on the host."""

    subnet: Output[str]
    """Host-only bridge, for example ``10.10.3.0/24``; known in preview only if it was fixed."""
    gateway: Output[str]
    """Address of the pod on the host-only bridge (.2)."""
    agent: Output[str]
    """Address of the agent (.10)."""
    host: Output[str]
    """The host's own address on the host-only bridge (.1)."""
    bridge: Output[str]
    """Interface name of the host-only bridge; known in preview."""
    egress_bridge: Output[str]
    """Interface name of the egress bridge; known in preview."""
    egress_subnet: Output[str]
    """Egress bridge: the same N in the egress pool."""
    egress_host: Output[str]
    """The host's own address on the egress bridge (.1)."""
    egress_gateway: Output[str]
    """Address of the pod on the egress bridge (.2)."""
    egress_subnet_v6: Output[str]
    """Egress bridge in IPv6, for a sandbox that has it: a /64 with the same N."""
    egress_host_v6: Output[str]
    """The host's own address in it (::1)."""
    egress_gateway_v6: Output[str]
    """Address of the pod in it (::2)."""
    table: Output[str]
    """Name of the sandbox's nftables table; known in preview."""
    conflicts: Output[list[str]]
    """Foreign routes and Docker networks that overlap the lease; empty when all is well."""
    generation: Output[str]
    """A number that grows when a killed run left a network that may be the stack's or nobody's."""
    unrecorded: Output[list[str]]
    """Ids of such networks; empty when all is well."""

    def __init__(
        self,
        name: str,
        *,
        sandbox: Input[str],
        subnet: Input[str] = "auto",
        opts: ResourceOptions | None = None,
    ) -> None:
        """Lease ``subnet`` ("auto" or a /24 of the pool in CIDR notation) for ``sandbox``."""
        found = _unset(
            "gateway agent host bridge egress_bridge egress_subnet egress_host egress_gateway "
            "egress_subnet_v6 egress_host_v6 egress_gateway_v6 table conflicts generation "
            "unrecorded"
        )
        props = {"sandbox": sandbox, "subnet": subnet, **found}
        super().__init__("abox:index:SubnetLease", name, props, opts)


class Cleanup(CustomResource):
    """Takes away what killed runs of the sandbox left: first what is in the way, last all else.

    It stands before all that the sandbox has on the host but its lease.
    """

    strays: Output[list[str]]
    """Pools of libvirt that are in the way of the stack's own; empty when all is well."""
    generation: Output[str]
    """A number that grows when there were some: one of them may be the stack's own."""

    def __init__(
        self,
        name: str,
        *,
        sandbox: Input[str],
        machine: Input[bool],
        opts: ResourceOptions | None = None,
    ) -> None:
        """Stand before all of ``sandbox``; ``machine`` says whether its agent is a VM."""
        props = {"sandbox": sandbox, "machine": machine, **_unset("strays generation")}
        super().__init__("abox:index:Cleanup", name, props, opts)


class FirewallTable(CustomResource):
    """One nftables table of family inet, replaced atomically."""

    applied: Output[str]
    """The table in normalised form right after it was applied."""
    live: Output[str]
    """The table in normalised form as it is."""
    findings: Output[list[str]]
    """In words, what differs between the two."""

    def __init__(
        self,
        name: str,
        *,
        table: Input[str],
        rules: Input[str],
        opts: ResourceOptions | None = None,
    ) -> None:
        """Load ``rules``, a complete ``nft -f`` script that replaces ``table``."""
        props = {"table": table, "rules": rules, **_unset("applied live findings")}
        super().__init__("abox:index:FirewallTable", name, props, opts)


class BridgeFiltering(CustomResource):
    """Bridged frames pass the host's firewall; without it they'd skip the table."""

    settings: Output[dict[str, str]]
    """Name to value of the kernel settings, as they are."""

    def __init__(self, name: str, *, opts: ResourceOptions | None = None) -> None:
        """Switch bridge filtering on; it stays on after a destroy, since it is host-wide."""
        super().__init__("abox:index:BridgeFiltering", name, _unset("settings"), opts)


class CertificateAuthority(CustomResource):
    """The sandbox's certificate authority; the private key is a Pulumi secret."""

    certificate: Output[str]
    """PEM."""
    key: Output[str]
    """PEM (PKCS 8), secret."""
    fingerprint: Output[str]
    """SHA-256 of the certificate in lower-case hex."""
    not_after: Output[str]
    """End of validity, ISO 8601 in UTC."""
    findings: Output[list[str]]
    """Why the authority has to be replaced; empty when all is well."""

    def __init__(
        self,
        name: str,
        *,
        sandbox: Input[str],
        valid_days: Input[int],
        opts: ResourceOptions | None = None,
    ) -> None:
        """Make an authority for ``sandbox`` that is valid for ``valid_days`` from now."""
        found = _unset("certificate key fingerprint not_after findings")
        props = {"sandbox": sandbox, "valid_days": valid_days, **found}
        super().__init__("abox:index:CertificateAuthority", name, props, opts)


class GatewayPolicy(CustomResource):
    """The policy that is live in the pod, pushed into ``control``."""

    policy_hash: Output[str]
    """Hash of the policy that was asked; known in preview if the policy is."""
    live_hash: Output[str]
    """Hash of what Envoy and Unbound have live; empty if the pod can't tell."""
    ca_fingerprint: Output[str]
    """Fingerprint of the authority that was asked; known in preview if the authority is."""
    live_ca: Output[str]
    """Fingerprint of the authority that signs in the pod; empty if the pod can't tell."""
    trust: Output[str]
    """Digest of the agent's trust store right after the policy was applied."""
    live_trust: Output[str]
    """Digest of the agent's trust store; empty if the pod can't tell."""

    def __init__(
        self,
        name: str,
        *,
        container: Input[str],
        sandbox: Input[str],
        policy: Input[Mapping[str, Any]],
        gateway: Input[str],
        proxy_port: Input[int],
        upstream_dns: Input[Sequence[str]],
        trusted_cas: Input[Sequence[str]],
        ca_certificate: Input[str],
        ca_key: Input[str],
        secrets: Input[Mapping[str, Any]],
        opts: ResourceOptions | None = None,
    ) -> None:
        """Push ``policy`` (a Policy's document) into ``container``, the id of ``control``."""
        props = {
            "container": container,
            "sandbox": sandbox,
            "policy": policy,
            "gateway": gateway,
            "proxy_port": proxy_port,
            "upstream_dns": upstream_dns,
            "trusted_cas": trusted_cas,
            "ca_certificate": ca_certificate,
            "ca_key": ca_key,
            "secrets": secrets,
            **_unset("policy_hash live_hash ca_fingerprint live_ca trust live_trust"),
        }
        super().__init__("abox:index:GatewayPolicy", name, props, opts)


class SandboxFolder(CustomResource):
    """A folder of the sandbox on the host."""

    kind: ClassVar[str]
    """Name of the provider's resource."""
    path: Output[str]
    """Where it is; known in preview."""
    findings: Output[list[str]]
    """What is wrong with it; empty when all is well."""

    def __init__(
        self, name: str, *, sandbox: Input[str], opts: ResourceOptions | None = None
    ) -> None:
        """Make the folder for ``sandbox``."""
        props = {"sandbox": sandbox, **_unset("path findings")}
        super().__init__(f"abox:index:{self.kind}", name, props, opts)


class LogFolder(SandboxFolder):
    """The folder of the sandbox's verdict log; it outlives the pod's containers."""

    kind = "LogFolder"


class MonitorFolder(SandboxFolder):
    """The folder in which a VM's monitor port finds its reader, while there is one."""

    kind = "MonitorFolder"


class ContainerGeneration(CustomResource):
    """A number that grows when the container of a role is damaged beyond live repair.

    Stands *before* the container, which carries the number as a label (``abox.generation``): a
    grown number replaces the container. See docs/decisions/0002-repair-of-posture.md.
    """

    generation: Output[str]
    """The number, as a string of digits; unknown in preview while ``damage`` is not empty."""
    damage: Output[list[str]]
    """What can't be repaired live; empty when all is well."""
    strays: Output[list[str]]
    """Containers of the role that a run made and didn't record; empty when all is well."""

    def __init__(
        self,
        name: str,
        *,
        sandbox: Input[str],
        role: Input[str],
        opts: ResourceOptions | None = None,
    ) -> None:
        """Watch the container that ContainerPosture recorded for ``sandbox`` and ``role``."""
        props = {"sandbox": sandbox, "role": role, **_unset("generation damage strays")}
        super().__init__("abox:index:ContainerGeneration", name, props, opts)


@dataclass(frozen=True, kw_only=True)
class ExpectedMount:
    """One volume or bind mount of a container."""

    source: Input[str]
    """Name of the volume, or absolute path on the host."""
    target: Input[str]
    """Path in the container."""
    read_only: Input[bool] = False


@dataclass(frozen=True, kw_only=True)
class ExpectedNetwork:
    """One network of a container."""

    network: Input[str]
    """Id of the network."""
    address: Input[str]
    """Fixed IPv4 address of the container."""
    address_v6: Input[str] = ""
    """Fixed IPv6 address; empty where the network has no IPv6."""


@dataclass(frozen=True, kw_only=True)
class ExpectedContainer:
    """What the program asked of a container; the defaults are the closed ones."""

    image: Input[str]
    """Image id (``sha256:…``) or name@sha256:…"""
    command: Input[Sequence[Input[str]]] | None = None
    """Arguments; None means the image's own."""
    networks: Sequence[ExpectedNetwork] = ()
    """Exactly these; none if ``joined``."""
    joined: Input[str] = ""
    """Id of the container whose network namespace is shared, or empty."""
    env: Input[Sequence[Input[str]]] = ()
    """``NAME=value``; beside these only the image's own may exist."""
    mounts: Sequence[ExpectedMount] = ()
    """Volumes and bind mounts, exactly these."""
    tmpfs: Input[Mapping[str, Input[str]]] = field(default_factory=dict)
    """Path to options, exactly these."""
    user: Input[str] = ""
    """As given to the container; empty means the image's own."""
    cap_drop: Input[Sequence[str]] = ("ALL",)
    cap_add: Input[Sequence[str]] = ()
    security_opts: Input[Sequence[str]] = ("no-new-privileges:true",)
    group_add: Input[Sequence[str]] = ()
    sysctls: Input[Mapping[str, Input[str]]] = field(default_factory=dict)
    dns: Input[Sequence[Input[str]]] = ()
    read_only: Input[bool] = True
    privileged: Input[bool] = False
    pids_limit: Input[int] = 0
    """Set live by the posture, since pulumi-docker can't; 0 means no limit is asked."""
    memory_mb: Input[int] = 0
    """0 means no limit is asked."""
    cpus: Input[float] = 0
    """0 means no limit is asked."""
    ports: Input[Sequence[str]] = ()
    """Published ports as ``8080/tcp``."""
    devices: Input[Sequence[str]] = ()
    """Paths on the host."""
    pid_mode: Input[str] = ""
    ipc_mode: Input[str] = "private"
    restart: Input[str] = "no"
    running: Input[bool] = True

    def as_inputs(self) -> dict[str, Any]:
        """The fields as a Pulumi input; a field that is None is left out."""
        # Not asdict: it copies deeply, which an Output refuses.
        plain = {each.name: getattr(self, each.name) for each in fields(self)}
        for name in ("mounts", "networks"):
            plain[name] = [vars(part) for part in plain[name]]
        return {name: value for name, value in plain.items() if value is not None}


class ContainerPosture(CustomResource):
    """A live container beside what was asked of it; repairs live what can be."""

    live: Output[dict[str, Any]]
    """What changes during a container's life: state, networks, limits."""
    findings: Output[list[str]]
    """In words, what differs; empty when all is well."""

    def __init__(
        self,
        name: str,
        *,
        sandbox: Input[str],
        role: Input[str],
        container: Input[str],
        expected: ExpectedContainer,
        opts: ResourceOptions | None = None,
    ) -> None:
        """Compare ``container`` (its id), which has ``role`` in ``sandbox``, with ``expected``."""
        props = {
            "sandbox": sandbox,
            "role": role,
            "container": container,
            "expected": expected.as_inputs(),
            **_unset("live findings"),
        }
        super().__init__("abox:index:ContainerPosture", name, props, opts)


class NetworkPosture(CustomResource):
    """A live Docker network beside what was asked of it, and who is connected."""

    live: Output[dict[str, Any]]
    """Bridge name, the internal flag and whether there is IPv6, as they are."""
    foreign: Output[list[str]]
    """Containers on the network that don't belong there."""
    findings: Output[list[str]]
    """In words, what differs; empty when all is well."""

    def __init__(
        self,
        name: str,
        *,
        sandbox: Input[str],
        network: Input[str],
        bridge: Input[str],
        internal: Input[bool],
        ipv6: Input[bool],
        roles: Input[Sequence[str]],
        opts: ResourceOptions | None = None,
    ) -> None:
        """Compare ``network`` (its id) with the rest.

        Args:
            name: Pulumi name.
            sandbox: name of the sandbox.
            network: id of the Docker network.
            bridge: interface name that it must have.
            internal: whether it must be internal.
            ipv6: whether it must have IPv6.
            roles: whose recorded containers belong there; ids can't be inputs, since this stands
                before the containers, so that a stranger makes room for them.
            opts: resource options.
        """
        props = {
            "sandbox": sandbox,
            "network": network,
            "bridge": bridge,
            "internal": internal,
            "ipv6": ipv6,
            "roles": roles,
            **_unset("live foreign findings"),
        }
        super().__init__("abox:index:NetworkPosture", name, props, opts)


class NwFilter(CustomResource):
    """One libvirt nwfilter, replaced live on every tap that refers to it."""

    findings: Output[list[str]]
    """In words, what differs; empty when all is well."""

    def __init__(
        self,
        name: str,
        *,
        filter: Input[str],  # the wire name
        xml: Input[str],
        opts: ResourceOptions | None = None,
    ) -> None:
        """Define ``xml``, the whole filter, under the name ``filter``."""
        props = {"filter": filter, "xml": xml, **_unset("findings")}
        super().__init__("abox:index:NwFilter", name, props, opts)


class PoolCleanup(CustomResource):
    """Remembers a VM's pool, and takes away the volumes in it that killed runs left.

    It stands between the pool and its volumes.
    """

    def __init__(
        self,
        name: str,
        *,
        sandbox: Input[str],
        pool: Input[str],
        opts: ResourceOptions | None = None,
    ) -> None:
        """Stand before every volume in ``pool`` (a name) of ``sandbox``."""
        props = {"sandbox": sandbox, "pool": pool}
        super().__init__("abox:index:PoolCleanup", name, props, opts)


class SshKey(CustomResource):
    """A pair of ed25519 keys; the private half is a Pulumi secret."""

    private_key: Output[str]
    """OpenSSH's form, secret."""
    public: Output[str]
    """Type and key on one line."""
    fingerprint: Output[str]
    """As ``ssh-keygen -l`` shows it."""
    findings: Output[list[str]]
    """Why the pair has to be replaced; empty when all is well."""

    def __init__(
        self,
        name: str,
        *,
        sandbox: Input[str],
        purpose: Input[str],
        opts: ResourceOptions | None = None,
    ) -> None:
        """Make a pair by which the guest (purpose "host") or the host ("login") proves itself."""
        found = _unset("private_key public fingerprint findings")
        super().__init__(
            "abox:index:SshKey", name, {"sandbox": sandbox, "purpose": purpose, **found}, opts
        )


class SshAccess(CustomResource):
    """Files by which this host logs in to a VM: ssh's settings, key, known host."""

    config: Output[str]
    """Path of the settings, for ``ssh -F``."""
    digest: Output[str]
    """Of the files as they were written."""
    live_digest: Output[str]
    """Of the files as they are."""

    def __init__(
        self,
        name: str,
        *,
        sandbox: Input[str],
        address: Input[str],
        user: Input[str],
        host_public: Input[str],
        private_key: Input[str],
        opts: ResourceOptions | None = None,
    ) -> None:
        """Know the VM at ``address`` by ``host_public``, and log in as ``user``."""
        props = {
            "sandbox": sandbox,
            "address": address,
            "user": user,
            "host_public": host_public,
            "private_key": private_key,
            **_unset("config digest live_digest"),
        }
        super().__init__("abox:index:SshAccess", name, props, opts)


class CloudInitVolume(CustomResource):
    """The seed disk of a VM, a volume whose name holds the digest of its content."""

    path: Output[str]
    """The volume's id."""
    digest: Output[str]
    """SHA-256 of the content that was asked; known in preview if the documents are."""
    live_digest: Output[str]
    """SHA-256 of the content as it is."""

    def __init__(
        self,
        name: str,
        *,
        sandbox: Input[str],
        pool: Input[str],
        meta_data: Input[str],
        network_config: Input[str],
        user_data: Input[str],
        boot_script: Input[str],
        opts: ResourceOptions | None = None,
    ) -> None:
        """Put cloud-init's documents, and a script unless empty, into a volume of ``pool``."""
        props = {
            "sandbox": sandbox,
            "pool": pool,
            "meta_data": meta_data,
            "network_config": network_config,
            "user_data": user_data,
            "boot_script": boot_script,
            **_unset("path digest live_digest"),
        }
        super().__init__("abox:index:CloudInitVolume", name, props, opts)


class DomainGeneration(CustomResource):
    """A number that grows when the VM must be made again; stands before the domain.

    See docs/decisions/0002-repair-of-posture.md.
    """

    generation: Output[str]
    """The number, as a string of digits."""
    damage: Output[list[str]]
    """Why the domain must be made again; empty when all is well."""
    strays: Output[list[str]]
    """Domains that bear the sandbox's name and aren't recorded; empty when all is well."""
    suspended: Output[list[str]]
    """The recorded domain while it is paused; empty when all is well."""

    def __init__(
        self, name: str, *, sandbox: Input[str], opts: ResourceOptions | None = None
    ) -> None:
        """Watch the domain that DomainPosture recorded for ``sandbox``."""
        props = {"sandbox": sandbox, **_unset("generation damage strays suspended")}
        super().__init__("abox:index:DomainGeneration", name, props, opts)


class DomainPosture(CustomResource):
    """A live VM beside the hardened domain and beside what it was when it was made."""

    applied: Output[str]
    """The domain in normal form right after it was made."""
    definition: Output[str]
    """Its whole definition, which a repair puts back."""
    tap: Output[list[str]]
    """The kernel's rules on its tap right after it was made."""
    findings: Output[list[str]]
    """In words, what differs; empty when all is well."""

    def __init__(
        self,
        name: str,
        *,
        sandbox: Input[str],
        domain: Input[str],
        filter: Input[str],  # the wire name
        hardened: Input[Mapping[str, Any]],
        opts: ResourceOptions | None = None,
    ) -> None:
        """Compare ``domain`` (its uuid) with the shape ``hardened``.

        Args:
            name: Pulumi name.
            sandbox: name of the sandbox.
            domain: the domain's uuid.
            filter: name of the nwfilter on its tap.
            hardened: fields of ``HardenedDomain`` and its spec; empty: the domain follows a
                template of the user's own, and is compared only with what it was.
            opts: resource options.
        """
        props = {
            "sandbox": sandbox,
            "domain": domain,
            "filter": filter,
            "hardened": hardened,
            **_unset("applied definition tap findings"),
        }
        super().__init__("abox:index:DomainPosture", name, props, opts)


def _unset(names: str) -> dict[str, None]:
    """Outputs that the provider fills in."""
    return dict.fromkeys(names.split())
