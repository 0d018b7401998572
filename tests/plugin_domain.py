"""The domain that pulumi-libvirt writes before it applies a stylesheet, and what becomes of it."""

from __future__ import annotations

from abox.render.domain import MACHINE
from tests import host


def plugins_domain(*, name: str, bridge: str, mac: str, memory_mb: int = 64) -> str:
    """What pulumi-libvirt 0.5.4 writes for the properties that the program gives."""
    return f"""<domain type="qemu"><name>{name}</name><description>abox</description>
<memory unit="MiB">{memory_mb}</memory><vcpu>1</vcpu>
<os><type arch="x86_64" machine="{MACHINE}">hvm</type></os>
<features><pae></pae><acpi></acpi><apic></apic></features><cpu></cpu>
<devices><emulator>/usr/bin/qemu-system-x86_64</emulator>
<interface type="bridge"><mac address="{mac}"></mac><source bridge="{bridge}"></source>
<model type="virtio"></model></interface>
<console type="pty"><target type="virtio" port="0"></target></console>
<channel type="unix"><target type="virtio" name="org.qemu.guest_agent.0"></target></channel>
<graphics type="spice" autoport="yes"></graphics>
<rng model="virtio"><backend model="random">/dev/urandom</backend></rng></devices></domain>"""


def transformed(sheet: str, domain: str) -> str:
    """The domain that a stylesheet makes, by the tool that the plugin runs."""
    script = 'f=$(mktemp); trap "rm -f $f" EXIT; printf %s "$0" > "$f"; xsltproc --nonet "$f" -'
    return host.run(["sh", "-c", script, sheet], text=domain).stdout
