"""All resource types, wired to the real host."""

from __future__ import annotations

import datetime as dt
import functools
from collections.abc import Mapping

from provider import digests, host, records, subnet_lease
from provider.bridge_filtering import BridgeFiltering, BridgeFilteringResource
from provider.certificate_authority import CertificateAuthorityResource
from provider.cleanup import CleanupResource
from provider.cloud_init_volume import CloudInitVolumeResource
from provider.container_posture import ContainerGenerationResource, ContainerPostureResource
from provider.domain_generation import DomainGenerationResource
from provider.domain_posture import DomainPostureResource, Tools
from provider.firewall_table import FirewallTableResource
from provider.gateway_policy import GatewayPolicyResource
from provider.leftovers import Leftovers
from provider.log_folder import LogFolderResource
from provider.monitor_folder import MonitorFolderResource
from provider.network_posture import Links, NetworkPostureResource
from provider.nwfilter import NwFilterResource
from provider.preflight import Hypervisor, Preflight, PreflightResource
from provider.resource import Resource
from provider.ssh_access import SshAccessResource
from provider.ssh_key import SshKeyResource
from provider.storage_pool import PoolCleanupResource
from provider.subnet_lease import SubnetLeaseResource


def resources() -> Mapping[str, Resource]:
    """Every resource by the last part of its type token."""
    filtering = BridgeFiltering(host.read_setting, host.write_setting, host.load_module)
    remembered = records.on_this_host
    libvirt = Tools(
        host.virsh, host.packet_rules, host.is_confined, host.bridge_of_port, host.set_bridge
    )
    leftovers = functools.partial(Leftovers, host.engine)
    links = Links(host.is_up, host.set_up, host.forwards, host.stop_forwarding)
    served: list[Resource] = [
        BridgeFilteringResource(filtering),
        CertificateAuthorityResource(lambda: dt.datetime.now(dt.UTC)),
        CleanupResource(leftovers, host.nft, host.virsh, host.state_dir),
        CloudInitVolumeResource(host.virsh, host.read_file),
        ContainerGenerationResource(host.engine, remembered),
        ContainerPostureResource(host.engine, host.network_namespace, remembered),
        DomainGenerationResource(libvirt, remembered),
        DomainPostureResource(libvirt, remembered),
        FirewallTableResource(host.nft),
        GatewayPolicyResource(host.engine),
        LogFolderResource(host.engine, host.state_dir),
        MonitorFolderResource(host.virsh, host.can_be_entered, host.state_dir),
        NetworkPostureResource(host.engine, links, remembered),
        NwFilterResource(host.virsh),
        PoolCleanupResource(host.virsh, remembered),
        PreflightResource(
            Preflight(
                host.engine,
                host.effective_uid,
                host.free_mb,
                lambda: str(host.state_dir()),
                Hypervisor(
                    virsh=host.virsh,
                    has_tool=host.has_tool,
                    memory_mb=host.memory_mb,
                    file_digest=digests.on_this_host,
                    is_readable=host.is_readable,
                ),
                host.has_ipv6,
            )
        ),
        SshAccessResource(host.state_dir, host.write_private),
        SshKeyResource(),
        SubnetLeaseResource(subnet_lease.on_this_host, leftovers, remembered),
    ]
    return {resource.type_name: resource for resource in served}
