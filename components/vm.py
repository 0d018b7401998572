"""The agent as a virtual machine on the host-only bridge, behind its packet filters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from ipaddress import IPv4Address, IPv4Interface
from typing import Any

import pulumi
import pulumi_command as command
import pulumi_libvirt as libvirt
from pulumi import ComponentResource, Input, Output, Resource, ResourceOptions

from abox.host_state import LIBVIRT_URI, POOLS, disk_folder
from abox.naming import FIRST_GENERATION, default_mac, filter_name, link_filter_name
from abox.render.boot_script import render_boot_script
from abox.render.cloud_init import GuestFile, GuestSpec, render_seed
from abox.render.domain import (
    EMULATED,
    MACHINE,
    DomainSpec,
    HardenedDomain,
    render_stylesheet,
    render_template,
)
from abox.render.nwfilter import FilterSpec, render_filter, render_link_filter
from abox.render.volume import render_overlay_stylesheet
from abox.settings import VmSettings
from components.host import (
    Cleanup,
    CloudInitVolume,
    DomainGeneration,
    DomainPosture,
    MonitorFolder,
    NwFilter,
    PoolCleanup,
    SshAccess,
    SshKey,
    SubnetLease,
)

GIGABYTE = 1024**3

READY_TIMEOUT_S = 900
"""Seconds that a VM gets until it lets itself be logged in to and reaches the health name."""

NOT_APPLIED_LIVE = ["consoles", "disks", "emulator", "machine", "networkInterfaces"]
"""Properties whose change pulumi-libvirt 0.5.4 reports as updated without applying it."""

_READY = """\
test -w /workspace && \
{ ! command -v curl >/dev/null || curl -fsS -o /dev/null http://healthcheck.abox.local/; }"""


@dataclass(frozen=True, kw_only=True)
class Machine:
    """What a VM is made of on this host."""

    image: str
    """Path of the disk image; the root disk is an overlay of it."""
    digest: str
    """SHA-256 of that file in lower-case hex."""
    format: str
    """qcow2 or raw."""
    kernel: str = ""
    """Path; empty: the disk has a boot loader of its own."""
    initrd: str = ""
    cmdlines: tuple[Mapping[str, str], ...] = ()
    """The kernel's parameters, as pulumi-libvirt takes them."""
    acceleration: str = EMULATED
    """Type of the domain."""


def machine_needs(machine: Machine, settings: VmSettings) -> dict[str, Any]:
    """What the host must have for a VM, as Preflight takes it."""
    return {
        "image": machine.image,
        "digest": machine.digest,
        "memory_mb": settings.memory_mb,
        "folder": POOLS,
    }


@dataclass(frozen=True, kw_only=True)
class VmArgs:
    """What a Vm is made of."""

    sandbox: str
    """Name of the sandbox."""
    machine: Machine
    """What it boots."""
    settings: VmSettings
    """The stack's ``vm`` settings."""
    lease: SubnetLease
    """Addresses and interface names."""
    proxy_port: int
    proxy_url: Input[str]
    ca_certificate: Input[str]
    """The sandbox's authority, PEM."""
    trusted_cas: tuple[str, ...]
    """PEM certificates of authorities that origins may use besides the public ones."""
    monitor: str
    """Path of the socket behind the monitor port; empty: the VM has none."""
    cleanup: Cleanup
    """Stands before filters, pool and files, and until they have gone."""
    before_domain: Sequence[Resource]
    """All that confines the VM: it stands before the VM is defined, and until it has gone."""
    before_ready: Sequence[Resource]
    """What must be well, besides, before the VM can be."""


class Vm(ComponentResource):
    """A hardened domain; root disk and workspace are volumes and outlive it.

    Its packet filter is part of its definition, and stands before that. It doesn't start with the
    host: after a reboot nothing of it runs until ``pulumi up`` has put the firewall back.
    """

    def __init__(self, name: str, args: VmArgs, opts: ResourceOptions | None = None) -> None:
        super().__init__("abox:vm:Vm", name, {}, opts)
        self._name, self._args = name, args
        self._mac = args.settings.mac or default_mac(args.sandbox)
        child = ResourceOptions(parent=self)
        if args.settings.domain_template:
            pulumi.log.warn(
                "vm.domain_template replaces the hardened domain: what it leaves out isn't there",
                resource=self,
            )
        host_key, login_key = (
            SshKey(f"{name}-{purpose}-key", sandbox=args.sandbox, purpose=purpose, opts=child)
            for purpose in ("host", "login")
        )
        filters = self._filters()
        provider = libvirt.Provider(f"{name}-libvirt", uri=LIBVIRT_URI, opts=child)
        self._provider = provider
        pool, disks = self._disks(host_key, login_key)
        before = [*filters, *self._monitor_folder(), *args.before_domain]
        generation = DomainGeneration(
            f"{name}-generation",
            sandbox=args.sandbox,
            opts=ResourceOptions(parent=self, depends_on=[*before, pool]),
        )
        domain = self._domain(provider, disks, generation, before)
        posture = DomainPosture(
            f"{name}-posture",
            sandbox=args.sandbox,
            domain=domain.id,
            filter=filter_name(args.sandbox),
            hardened=self._hardened(),
            opts=child,
        )
        access = SshAccess(
            f"{name}-access",
            sandbox=args.sandbox,
            address=args.lease.agent,
            user=args.settings.user,
            host_public=host_key.public,
            private_key=login_key.private_key,
            opts=ResourceOptions(parent=self, depends_on=[args.cleanup]),
        )
        command.local.Command(
            f"{name}-ready",
            create=access.config.apply(_gate),
            triggers=[domain.id, access.digest],
            opts=ResourceOptions(parent=self, depends_on=[posture, *args.before_ready]),
        )
        self.domain: Output[str] = domain.name
        self.ssh_config: Output[str] = access.config
        self.register_outputs({"domain": self.domain, "ssh_config": self.ssh_config})

    def _filters(self) -> list[Resource]:
        """Which frames pass the tap, and who may talk to whom: the second refers to the first."""
        args = self._args
        names = (filter_name(args.sandbox), link_filter_name(args.sandbox))
        leased = {
            "agent": args.lease.agent,
            "gateway": args.lease.gateway,
            "host": args.lease.host,
        }

        def spec(got: Mapping[str, str]) -> FilterSpec:
            addresses = {role: IPv4Address(address) for role, address in got.items()}
            return FilterSpec(
                name=names[0],
                link=names[1],
                mac=self._mac,
                proxy_port=args.proxy_port,
                **addresses,
            )

        specs = Output.all(**leased).apply(spec)
        link = NwFilter(
            f"{self._name}-link-filter",
            filter=names[1],
            xml=specs.apply(render_link_filter),
            opts=ResourceOptions(parent=self, depends_on=[args.cleanup]),
        )
        main = NwFilter(
            f"{self._name}-filter",
            filter=names[0],
            xml=specs.apply(render_filter),
            opts=ResourceOptions(parent=self, depends_on=[link]),
        )
        return [link, main]

    def _monitor_folder(self) -> list[Resource]:
        """Where QEMU looks for the monitor's reader, if it has such a port."""
        args = self._args
        opts = ResourceOptions(parent=self, depends_on=args.before_domain)
        folder = f"{self._name}-monitor"
        return [MonitorFolder(folder, sandbox=args.sandbox, opts=opts)] if args.monitor else []

    def _disks(self, host_key: SshKey, login_key: SshKey) -> tuple[Resource, list[Output[str]]]:
        """What tidies their pool; root, workspace, and seed, in the guest's order."""
        args, settings = self._args, self._args.settings
        pool = libvirt.Pool(
            f"{self._name}-pool",
            name=args.cleanup.generation.apply(self._pool_name),
            type="dir",
            target=libvirt.PoolTargetArgs(path=disk_folder(args.sandbox)),
            opts=self._of_libvirt(args.cleanup),
        )
        tidy = PoolCleanup(
            f"{self._name}-pool-cleanup",
            sandbox=args.sandbox,
            pool=pool.name,
            opts=ResourceOptions(parent=self),
        )
        size = settings.disk_gb * GIGABYTE
        overlay = render_overlay_stylesheet(args.machine.image, args.machine.format)
        root = libvirt.Volume(
            f"{self._name}-root",
            pool=pool.name,
            format="qcow2",
            size=size,
            xml=libvirt.VolumeXmlArgs(xslt=overlay),
            opts=self._of_libvirt(tidy),
        )
        workspace = libvirt.Volume(
            f"{self._name}-workspace",
            pool=pool.name,
            format="qcow2",
            size=size,
            opts=self._of_libvirt(tidy),
        )
        told = {
            "host_key": host_key.private_key,
            "host_key_public": host_key.public,
            "login_key": login_key.public,
            "address": args.lease.agent,
            "gateway": args.lease.gateway,
            "proxy_url": args.proxy_url,
            "ca_certificate": args.ca_certificate,
        }
        documents = Output.all(**told).apply(self._seed)
        seed = CloudInitVolume(
            f"{self._name}-seed",
            sandbox=args.sandbox,
            pool=pool.name,
            meta_data=documents["meta-data"],
            network_config=documents["network-config"],
            user_data=documents["user-data"],
            boot_script=documents["boot.sh"],
            # libvirt doesn't list a pool while it makes a volume in it.
            opts=ResourceOptions(parent=self, depends_on=[root, workspace]),
        )
        return tidy, [root.id, workspace.id, seed.path]

    def _pool_name(self, generation: str) -> Any:
        """None, which lets Pulumi choose it, for the first: those have stood so since ever."""
        return None if generation == FIRST_GENERATION else f"{self._name}-pool-{generation}"

    def _of_libvirt(self, after: Resource) -> ResourceOptions:
        return ResourceOptions(parent=self, provider=self._provider, depends_on=[after])

    def _seed(self, told: Mapping[str, str]) -> dict[str, str]:
        settings = self._args.settings
        keys = [told["login_key"], *([settings.ssh_key] if settings.ssh_key else [])]
        spec = GuestSpec(
            sandbox=self._args.sandbox,
            user=settings.user,
            authorized_keys=tuple(keys),
            host_key=told["host_key"],
            host_key_public=told["host_key_public"],
            mac=self._mac,
            address=IPv4Interface(f"{told['address']}/24"),
            gateway=told["gateway"],
            proxy_url=told["proxy_url"],
            ca_certificate=told["ca_certificate"],
            trusted_cas=self._args.trusted_cas,
            prepared=not settings.image,
            monitor=bool(self._args.monitor),
            packages=settings.packages,
            files=tuple(
                GuestFile(path=file.path, content=file.content, mode=file.mode, owner=file.owner)
                for file in settings.files
            ),
            commands=settings.commands,
        )
        return {
            **render_seed(spec),
            # Another image has no unit that runs it.
            "boot.sh": render_boot_script(spec) if spec.prepared else "",
        }

    def _domain(
        self,
        provider: libvirt.Provider,
        disks: Sequence[Input[str]],
        generation: DomainGeneration,
        after: Sequence[Resource],
    ) -> libvirt.Domain:
        args, settings, machine = self._args, self._args.settings, self._args.machine
        return libvirt.Domain(
            self._name,
            description=Output.concat(
                f"abox sandbox {args.sandbox}, generation ", generation.generation
            ),
            type=machine.acceleration,
            arch="x86_64",
            machine=MACHINE,
            memory=settings.memory_mb,
            vcpu=settings.cpus,
            running=True,
            autostart=False,
            qemu_agent=False,
            kernel=machine.kernel or None,
            initrd=machine.initrd or None,
            cmdlines=list(machine.cmdlines) or None,
            disks=[libvirt.DomainDiskArgs(volume_id=disk) for disk in disks],
            network_interfaces=[
                libvirt.DomainNetworkInterfaceArgs(bridge=args.lease.bridge, mac=self._mac)
            ],
            consoles=[libvirt.DomainConsoleArgs(type="pty", target_type="virtio", target_port="0")],
            xml=libvirt.DomainXmlArgs(xslt=self._stylesheet()),
            opts=ResourceOptions(
                parent=self,
                provider=provider,
                depends_on=after,
                # Two machines can't share disks, nor one address.
                delete_before_replace=True,
                replace_on_changes=NOT_APPLIED_LIVE,
            ),
        )

    def _spec(self) -> DomainSpec:
        args = self._args
        return DomainSpec(
            sandbox=args.sandbox,
            filter=filter_name(args.sandbox),
            monitor=args.monitor,
            acceleration=args.machine.acceleration,
            base=args.machine.image,
            base_format=args.machine.format,
        )

    def _stylesheet(self) -> Input[str]:
        template = self._args.settings.domain_template
        if not template:
            return render_stylesheet(self._spec())
        values = {
            "cpus": str(self._args.settings.cpus),
            "filter": filter_name(self._args.sandbox),
            "mac": self._mac,
            "memory_mb": str(self._args.settings.memory_mb),
            "sandbox": self._args.sandbox,
        }
        return self._args.lease.bridge.apply(
            lambda bridge: render_template(template, {**values, "bridge": bridge})
        )

    def _hardened(self) -> Input[Mapping[str, Any]]:
        """The shape that the domain must have; empty where a template says what it is."""
        settings = self._args.settings
        if settings.domain_template:
            return {}

        def shape(bridge: str) -> dict[str, Any]:
            hardened = asdict(
                HardenedDomain(
                    spec=self._spec(),
                    bridge=bridge,
                    mac=self._mac,
                    cpus=settings.cpus,
                    memory_mb=settings.memory_mb,
                )
            )
            return {**hardened.pop("spec"), **hardened}

        return self._args.lease.bridge.apply(shape)


def _gate(config: str) -> str:
    """A command that ends well when the guest does: logs in, has its workspace and the proxy."""
    attempt = f"ssh -F '{config}' guest '{_READY}'"
    return (
        f"end=$(($(date +%s) + {READY_TIMEOUT_S})); "
        f"until said=$({attempt} 2>&1); do "
        'if [ "$(date +%s)" -gt "$end" ]; then '
        f'echo "the VM is not ready after {READY_TIMEOUT_S} s"; echo "why: $said"; '
        'echo "do: look at its console with virsh console, then run pulumi up again"; exit 1; fi; '
        "sleep 1; done"
    )
