"""A libvirt in memory that notes every call and answers as virsh does."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from abox.errors import HostError
from provider.tap_rules import CHAINS, TAP

UUID = "a78b1c7a-933b-4675-823b-b9892d17cd5c"

HARDENED: dict[str, Any] = {
    "sandbox": "p",
    "filter": "abox-p",
    "monitor": "",
    "acceleration": "qemu",
    "bridge": "abx-p",
    "mac": "52:54:00:AB:CD:EF",
    "cpus": 1,
    "memory_mb": 64,
}

INTERFACE = (
    "<interface type='bridge'><mac address='52:54:00:ab:cd:ef'/><source bridge='abx-p'/>"
    "<model type='virtio'/><driver name='qemu'/><filterref filter='abox-p'/></interface>"
)


QEMU_GROUP = 64055
CAPABILITIES = f"""<capabilities><host><secmodel><model>none</model></secmodel>
<secmodel><model>dac</model><doi>0</doi><baselabel type='kvm'>+64055:+{QEMU_GROUP}</baselabel>
<baselabel type='qemu'>+64055:+{QEMU_GROUP}</baselabel></secmodel></host></capabilities>"""


def domain_xml(uuid: str, *, sandbox: str = "p", memory_mb: int = 64) -> str:
    """What libvirt stores for a hardened domain."""
    memory = f"unit='KiB'>{memory_mb * 1024}"
    return f"""<domain type='qemu'><name>{sandbox}-vm-{uuid[:7]}</name><uuid>{uuid}</uuid>
<metadata><s:sandbox xmlns:s='urn:abox:sandbox'>{sandbox}</s:sandbox></metadata>
<memory {memory}</memory><currentMemory {memory}</currentMemory>
<memoryBacking><nosharepages/></memoryBacking><vcpu placement='static'>1</vcpu>
<os><type arch='x86_64' machine='pc-q35-7.2'>hvm</type><boot dev='hd'/></os>
<features><acpi/><apic/><vmport state='off'/></features><clock offset='utc'/>
<on_poweroff>destroy</on_poweroff><on_reboot>restart</on_reboot><on_crash>destroy</on_crash>
<pm><suspend-to-mem enabled='no'/><suspend-to-disk enabled='no'/></pm>
<devices><emulator>/usr/bin/qemu-system-x86_64</emulator>{INTERFACE}
<console type='pty'><target type='virtio' port='0'/></console>
<controller type='usb' index='0' model='none'/><memballoon model='none'/></devices></domain>"""


def kernel_rules(tap: str) -> str:
    """Rules of a closed tap, as iptables-save and ebtables-save print them."""
    lines = [f"-A {chain} -j DROP" for chain in CHAINS]
    lines += [f"-A root -m physdev --physdev-in {TAP} -g {chain}" for chain in CHAINS]
    return "".join(f"{line}\n" for line in lines).replace(TAP, tap)


@dataclass
class FakeDomain:
    """One domain: its definition, its machine and whether that runs."""

    stored: str
    live: str = ""
    state: str = "running"

    def __post_init__(self) -> None:
        self.live = self.live or self.stored


@dataclass
class FakeLibvirt:
    """Domains by uuid, filters by name, volumes by pool; `rules` is what the kernel has."""

    folder: Path
    calls: list[Any] = field(default_factory=list)
    domains: dict[str, FakeDomain] = field(default_factory=dict)
    filters: dict[str, str] = field(default_factory=dict)
    volumes: dict[str, Path] = field(default_factory=dict)
    pools: list[str] = field(default_factory=lambda: ["pool1", "pool2"])
    targets: dict[str, str] = field(default_factory=dict)
    rules: str = kernel_rules("vnet0")
    confined: bool = True
    bridge: str = "abx-p"
    failure: Exception | None = None
    stdin: str = ""

    def virsh(self, verb: str, *arguments: str, stdin: str = "") -> str:
        self.calls.append((verb, *arguments, stdin))
        self.stdin = stdin
        if self.failure is not None:
            raise self.failure
        return str(getattr(self, "_" + verb.replace("-", "_"))(*arguments) or "")

    def packet_rules(self) -> str:
        return self.rules

    def is_confined(self, _machine: str) -> bool:
        return self.confined

    def bridge_of_port(self, _tap: str) -> str:
        return self.bridge

    def set_bridge(self, tap: str, bridge: str) -> None:
        self.calls.append(("set_bridge", tap, bridge))
        self.bridge = bridge

    def read_file(self, path: str) -> bytes | None:
        return Path(path).read_bytes() if Path(path).exists() else None

    def _capabilities(self) -> str:
        return CAPABILITIES

    # --- domains

    def _list(self, *_flags: str) -> str:
        return "\n".join(self.domains)

    def _find(self, uuid: str) -> FakeDomain:
        if uuid not in self.domains:
            raise HostError(what="virsh failed", why="no such domain", remedy="none")
        return self.domains[uuid]

    def _domstate(self, uuid: str) -> str:
        return self._find(uuid).state + "\n"

    def _dumpxml(self, uuid: str, *flags: str) -> str:
        domain = self._find(uuid)
        if flags:
            return domain.stored
        tapped = "<target dev='vnet0'/></interface>"
        return domain.live.replace("</interface>", tapped, 1)

    def _define(self, _path: str) -> None:
        stdin = self.stdin
        uuid = stdin.partition("<uuid>")[2].partition("</uuid>")[0]
        self.domains[uuid].stored = stdin

    def _destroy(self, uuid: str) -> None:
        self._find(uuid).state = "shut off"

    def _start(self, uuid: str) -> None:
        domain = self._find(uuid)
        domain.state, domain.live = "running", domain.stored
        self.rules, self.confined = kernel_rules("vnet0"), True

    def _resume(self, uuid: str) -> None:
        self._find(uuid).state = "running"

    def _undefine(self, uuid: str, *_flags: str) -> None:
        del self.domains[uuid]

    def _update_device(self, uuid: str, _path: str, _flag: str) -> None:
        domain = self._find(uuid)
        head, _, rest = domain.live.partition("<interface")
        domain.live = head + self.stdin + rest.partition("</interface>")[2]

    # --- filters

    def _nwfilter_list(self) -> str:
        lines = [f" {_id_of(xml)}   {name}" for name, xml in self.filters.items()]
        return "\n".join(lines)

    def _nwfilter_dumpxml(self, name: str) -> str:
        return self.filters[name]

    def _nwfilter_define(self, _path: str) -> None:
        stdin = self.stdin
        name = stdin.partition("name=")[2][1:].replace("'", '"').partition('"')[0]
        if name in self.filters and _id_of(self.filters[name]) != _id_of(stdin):
            raise HostError(what="virsh failed", why="the filter has another id", remedy="none")
        if self.filters.get(name) != stdin:
            self.rules = kernel_rules("vnet0")  # libvirt makes them again if anything changed
        self.filters[name] = stdin

    def _nwfilter_undefine(self, name: str) -> None:
        del self.filters[name]

    # --- volumes

    def _pool_list(self, *_flags: str) -> str:
        return "\n".join(self.pools)

    def _pool_dumpxml(self, pool: str) -> str:
        return f"<pool><target><path>{self.targets[pool]}</path></target></pool>"

    def _pool_destroy(self, _pool: str) -> None:
        """It is no longer active, which this libvirt doesn't tell from active."""

    def _pool_undefine(self, pool: str) -> None:
        self.pools.remove(pool)

    def _pool_refresh(self, pool: str) -> None:
        if pool not in self.pools:
            raise HostError(what="virsh failed", why="no such pool", remedy="none")

    def _vol_list(self, _pool: str) -> str:
        return "\n".join(f" {name}   {path}" for name, path in self.volumes.items())

    def _vol_create_as(self, _pool: str, name: str, size: str, *_flags: str) -> None:
        self.volumes[name] = self.folder / name
        self.volumes[name].write_bytes(b"\0" * int(size))

    def _vol_upload(self, name: str, source: str, _flag: str, _pool: str) -> None:
        self.volumes[name].write_bytes(Path(source).read_bytes())

    def _vol_path(self, name: str, _flag: str, _pool: str) -> str:
        return f"{self.volumes[name]}\n"

    def _vol_delete(self, name: str, _flag: str, _pool: str) -> None:
        self.volumes.pop(name).unlink(missing_ok=True)


def _id_of(xml: str) -> str:
    return xml.partition("<uuid>")[2].partition("</uuid>")[0]
