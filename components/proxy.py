"""The forward proxy: Envoy in the gateway pod, and the policy that it and the DNS filter follow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address

import pulumi_docker as docker
from pulumi import ComponentResource, Input, Output, Resource, ResourceOptions

from abox.allowlist import Policy
from abox.pod import proxy_container
from abox.secrets import Secrets
from components.container import HardenedContainer
from components.host import CertificateAuthority, GatewayPolicy
from components.pod import pod_container

CA_VALID_DAYS = 825
"""Life of a sandbox's authority; the provider asks for its replacement 30 days before the end."""


@dataclass(frozen=True, kw_only=True)
class ProxyArgs:
    """What a Proxy is made of."""

    sandbox: str
    """Name of the sandbox."""
    image: str
    """Id of the gateway image."""
    pause_id: Input[str]
    """Owner of the pod's network namespace."""
    control_id: Input[str]
    """The pod's control program, which takes the policy."""
    volumes: Mapping[str, docker.Volume]
    """The pod's volumes."""
    gateway: Input[str]
    """Address of the pod on the host-only bridge."""
    proxy_port: int
    """TCP port of the forward proxy."""
    policy: Policy
    """The one allowlist."""
    upstream_dns: tuple[IPv4Address, ...]
    """Resolvers that allowed names are asked at."""
    trusted_cas: tuple[str, ...]
    """PEM certificates of authorities that origins may use besides the public ones."""
    secrets: Secrets
    """Values that the policy puts on requests."""
    after: Sequence[Resource] = ()
    """What must be well, beside Envoy, before the policy is pushed."""


class Proxy(ComponentResource):
    """Envoy with TLS interception, the sandbox's authority, and the live policy (layer 1).

    A changed allowlist is an in-place update of the GatewayPolicy: no container restarts.
    """

    def __init__(self, name: str, args: ProxyArgs, opts: ResourceOptions | None = None) -> None:
        super().__init__("abox:proxy:Proxy", name, {}, opts)
        child = ResourceOptions(parent=self)
        container = HardenedContainer(
            name,
            pod_container(
                lambda address: proxy_container(address, args.proxy_port, args.sandbox),
                sandbox=args.sandbox,
                image=args.image,
                gateway=args.gateway,
                volumes=args.volumes,
                joined=args.pause_id,
            ),
            child,
        )
        authority = CertificateAuthority(
            f"{name}-ca", sandbox=args.sandbox, valid_days=CA_VALID_DAYS, opts=child
        )
        policy = GatewayPolicy(
            f"{name}-policy",
            container=args.control_id,
            sandbox=args.sandbox,
            policy=args.policy.to_document(),
            gateway=args.gateway,
            proxy_port=args.proxy_port,
            upstream_dns=[str(address) for address in args.upstream_dns],
            trusted_cas=list(args.trusted_cas),
            ca_certificate=authority.certificate,
            ca_key=authority.key,
            secrets=Output.secret({name: value.reveal() for name, value in args.secrets.items()}),
            # It counts as live only when Envoy and Unbound have it, so they have to be there.
            opts=ResourceOptions(parent=self, depends_on=[container, *args.after]),
        )
        self.url: Output[str] = Output.concat("http://", args.gateway, ":", str(args.proxy_port))
        self.container_id: Output[str] = container.container_id
        self.container_name: Output[str] = container.container_name
        self.ca_certificate: Output[str] = authority.certificate
        self.ca_fingerprint: Output[str] = authority.fingerprint
        self.policy_hash: Output[str] = policy.policy_hash
        self.register_outputs({"url": self.url, "policy_hash": self.policy_hash})
