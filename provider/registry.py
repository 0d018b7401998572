"""All resource types, wired to the real host."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping

from provider import host, records, subnet_lease
from provider.bridge_filtering import BridgeFiltering, BridgeFilteringResource
from provider.certificate_authority import CertificateAuthorityResource
from provider.container_posture import ContainerGenerationResource, ContainerPostureResource
from provider.firewall_table import FirewallTableResource
from provider.gateway_policy import GatewayPolicyResource
from provider.leftovers import Leftovers
from provider.network_posture import NetworkPostureResource
from provider.preflight import Preflight, PreflightResource
from provider.resource import Resource
from provider.subnet_lease import SubnetLeaseResource


def resources() -> Mapping[str, Resource]:
    """Every resource by the last part of its type token."""
    filtering = BridgeFiltering(host.read_setting, host.write_setting, host.load_module)
    remembered = records.on_this_host
    served: list[Resource] = [
        BridgeFilteringResource(filtering),
        CertificateAuthorityResource(lambda: dt.datetime.now(dt.UTC)),
        ContainerGenerationResource(host.engine, remembered),
        ContainerPostureResource(host.engine, host.network_namespace, remembered),
        FirewallTableResource(host.nft),
        GatewayPolicyResource(host.engine),
        NetworkPostureResource(host.engine, host.is_up, host.set_up, remembered),
        PreflightResource(
            Preflight(host.engine, host.effective_uid, host.free_mb, lambda: str(host.state_dir()))
        ),
        SubnetLeaseResource(subnet_lease.on_this_host, lambda: Leftovers(host.engine), remembered),
    ]
    return {resource.type_name: resource for resource in served}
