"""The hardened domain: only what is written out arrives, and the normal form tells everything."""

from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from abox.render.domain import (
    ACCELERATED,
    PLACEHOLDERS,
    DomainSpec,
    HardenedDomain,
    check_template,
    normal_form,
    render_stylesheet,
    render_template,
    sandbox_of,
)

XSL = "{http://www.w3.org/1999/XSL/Transform}"
SPEC = DomainSpec(sandbox="dev", filter="abox-dev")
WATCHED = replace(SPEC, monitor="/run/abox/dev/monitor.sock")
HARDENED = HardenedDomain(
    spec=WATCHED, bridge="abx-dev", mac="52:54:00:AB:CD:EF", cpus=2, memory_mb=64
)

STORED = """\
<domain type='qemu'>
  <name>dev-vm-1234567</name>
  <uuid>a78b1c7a-933b-4675-823b-b9892d17cd5c</uuid>
  <description>sandbox dev</description>
  <metadata>
    <abox:sandbox xmlns:abox="urn:abox:sandbox">dev</abox:sandbox>
  </metadata>
  <memory unit='KiB'>65536</memory>
  <currentMemory unit='KiB'>65536</currentMemory>
  <memoryBacking>
    <nosharepages/>
  </memoryBacking>
  <vcpu placement='static'>2</vcpu>
  <os>
    <type arch='x86_64' machine='pc-q35-7.2'>hvm</type>
    <kernel>/var/lib/abox/images/vm/vmlinuz</kernel>
    <initrd>/var/lib/abox/images/vm/initrd</initrd>
    <cmdline>console=hvc0 root=/dev/vda ro</cmdline>
    <boot dev='hd'/>
  </os>
  <features>
    <acpi/>
    <apic/>
    <vmport state='off'/>
  </features>
  <cpu mode='custom' match='exact' check='none'>
    <model fallback='forbid'>qemu64</model>
  </cpu>
  <clock offset='utc'/>
  <on_poweroff>destroy</on_poweroff>
  <on_reboot>restart</on_reboot>
  <on_crash>destroy</on_crash>
  <pm>
    <suspend-to-mem enabled='no'/>
    <suspend-to-disk enabled='no'/>
  </pm>
  <devices>
    <emulator>/usr/bin/qemu-system-x86_64</emulator>
    <disk type='volume' device='disk'>
      <driver name='qemu' type='qcow2'/>
      <source pool='dev-pool' volume='root'/>
      <target dev='vda' bus='virtio'/>
      <address type='pci' domain='0x0000' bus='0x00' slot='0x04' function='0x0'/>
    </disk>
    <disk type='volume' device='disk'>
      <driver name='qemu' type='raw'/>
      <source pool='dev-pool' volume='cidata'/>
      <target dev='vdb' bus='virtio'/>
      <readonly/>
      <address type='pci' domain='0x0000' bus='0x00' slot='0x05' function='0x0'/>
    </disk>
    <controller type='usb' index='0' model='none'/>
    <controller type='pci' index='0' model='pcie-root'/>
    <controller type='pci' index='1' model='pcie-root-port'>
      <model name='pcie-root-port'/>
      <target chassis='1' port='0x10'/>
    </controller>
    <controller type='sata' index='0'/>
    <controller type='virtio-serial' index='0'>
      <address type='pci' domain='0x0000' bus='0x00' slot='0x03' function='0x0'/>
    </controller>
    <interface type='bridge'>
      <mac address='52:54:00:ab:cd:ef'/>
      <source bridge='abx-dev'/>
      <model type='virtio'/>
      <driver name='qemu'/>
      <filterref filter='abox-dev'/>
      <address type='pci' domain='0x0000' bus='0x00' slot='0x02' function='0x0'/>
    </interface>
    <console type='pty'>
      <target type='virtio' port='0'/>
    </console>
    <channel type='unix'>
      <source mode='connect' path='/run/abox/dev/monitor.sock'>
        <seclabel model='dac' relabel='no'/>
        <reconnect enabled='yes' timeout='1'/>
      </source>
      <target type='virtio' name='org.abox.monitor'/>
      <address type='virtio-serial' controller='0' bus='0' port='1'/>
    </channel>
    <input type='mouse' bus='ps2'/>
    <input type='keyboard' bus='ps2'/>
    <audio id='1' type='none'/>
    <memballoon model='none'/>
  </devices>
</domain>
"""
"""What libvirt 9.0 stores for a hardened domain."""

RUNNING = (
    STORED.replace("<domain type='qemu'>", "<domain type='qemu' id='3'>")
    .replace("<source bridge='abx-dev'/>", "<source bridge='abx-dev'/><target dev='vnet7'/>")
    .replace("volume='root'/>", "volume='root' index='2'/><backingStore type='file'/>")
    .replace(
        "<console type='pty'>", "<console type='pty' tty='/dev/pts/4'><source path='/dev/pts/4'/>"
    )
    .replace("<filterref filter='abox-dev'/>", "<filterref filter='abox-dev'/><alias name='net0'/>")
    .replace("name='org.abox.monitor'/>", "name='org.abox.monitor' state='connected'/>")
    .replace(
        "</domain>",
        "<seclabel type='dynamic' model='dac' relabel='yes'><label>+1</label></seclabel></domain>",
    )
)
"""The same, running."""


def test_a_running_domain_and_its_stored_one_have_one_form() -> None:
    assert normal_form(RUNNING) == normal_form(STORED)


def test_a_hardened_domain_has_no_departures() -> None:
    assert list(HARDENED.departures(normal_form(STORED))) == []


def with_device(xml: str) -> str:
    return STORED.replace("</devices>", f"{xml}</devices>")


SOFTENED = {
    "graphics": with_device("<graphics type='vnc' port='-1'/>"),
    "sound": with_device("<sound model='ich9'/>"),
    "audio": STORED.replace("<audio id='1' type='none'/>", "<audio id='1' type='pulseaudio'/>"),
    "usb": STORED.replace("index='0' model='none'", "index='0' model='qemu-xhci'"),
    "redirected-usb": with_device("<redirdev bus='usb' type='spicevmc'/>"),
    "balloon": STORED.replace("<memballoon model='none'/>", "<memballoon model='virtio'/>"),
    "balloon-gone": STORED.replace("<memballoon model='none'/>", ""),
    "clipboard": with_device("<channel type='spicevmc'><target type='virtio' name='x'/></channel>"),
    "agent": with_device(
        "<channel type='unix'><target type='virtio' name='org.qemu.x'/></channel>"
    ),
    "shared-folder": with_device("<filesystem type='mount'><source dir='/'/></filesystem>"),
    "host-device": with_device("<hostdev mode='subsystem' type='pci'/>"),
    "random": with_device(
        "<rng model='virtio'><backend model='random'>/dev/urandom</backend></rng>"
    ),
    "serial": with_device("<serial type='pty'><target port='0'/></serial>"),
    "tpm": with_device("<tpm model='tpm-tis'/>"),
    "video": with_device("<video><model type='qxl'/></video>"),
    "watchdog": with_device("<watchdog model='i6300esb' action='dump'/>"),
    "vsock": with_device("<vsock model='virtio'><cid auto='yes'/></vsock>"),
    "shared-memory": with_device("<shmem name='x'/>"),
    "no-filter": STORED.replace("<filterref filter='abox-dev'/>", ""),
    "another-filter": STORED.replace("filter='abox-dev'", "filter='clean-traffic'"),
    "filter-parameter": STORED.replace(
        "<filterref filter='abox-dev'/>",
        "<filterref filter='abox-dev'><parameter name='IP' value='1.2.3.4'/></filterref>",
    ),
    "another-sandbox": STORED.replace(">dev</abox", ">other</abox"),
    "another-bridge": STORED.replace("bridge='abx-dev'", "bridge='br0'"),
    "another-mac": STORED.replace("52:54:00:ab:cd:ef", "52:54:00:ab:cd:ee"),
    "second-interface": with_device(
        "<interface type='user'><mac address='52:54:00:00:00:01'/></interface>"
    ),
    "same-interface-twice": with_device(
        "<interface type='bridge'><mac address='52:54:00:ab:cd:ef'/><source bridge='abx-dev'/>"
        "<model type='virtio'/><driver name='qemu'/><filterref filter='abox-dev'/></interface>"
    ),
    "vhost": STORED.replace("<driver name='qemu'/>", ""),
    "cdrom": STORED.replace(
        "<disk type='volume' device='disk'>", "<disk type='file' device='cdrom'>", 1
    ),
    "ide": STORED.replace("dev='vda' bus='virtio'", "dev='hda' bus='ide'"),
    "block-device": STORED.replace(
        "<disk type='volume' device='disk'>", "<disk type='block' device='disk'>", 1
    ),
    "shared-disk": STORED.replace(
        "<target dev='vda' bus='virtio'/>", "<target dev='vda' bus='virtio'/><shareable/>"
    ),
    "memory": STORED.replace("<memory unit='KiB'>65536", "<memory unit='KiB'>131072"),
    "memory-slots": STORED.replace(
        "<vcpu ", "<maxMemory slots='2' unit='KiB'>999999</maxMemory><vcpu "
    ),
    "cpus": STORED.replace("'static'>2<", "'static'>8<"),
    "cpus-to-plug": STORED.replace("placement='static'>2<", "placement='static' current='2'>8<"),
    "machine": STORED.replace("pc-q35-7.2", "pc-i440fx-7.2"),
    "nested": STORED.replace("</cpu>", "<feature policy='require' name='vmx'/></cpu>"),
    "type": STORED.replace("<domain type='qemu'>", "<domain type='xen'>"),
    "loader": STORED.replace("<boot dev='hd'/>", "<loader>/tmp/x</loader><boot dev='hd'/>"),
    "boot-from-network": STORED.replace("<boot dev='hd'/>", "<boot dev='network'/>"),
    "pages-shared": STORED.replace("<nosharepages/>", ""),
    "suspend": STORED.replace("<suspend-to-mem enabled='no'/>", "<suspend-to-mem enabled='yes'/>"),
    "crash-dump": STORED.replace("<on_crash>destroy", "<on_crash>coredump-destroy"),
    "unconfined": STORED.replace("</domain>", "<seclabel type='none'/></domain>"),
    "command-line": STORED.replace(
        "<domain ", "<domain xmlns:q='http://libvirt.org/schemas/domain/qemu/1.0' "
    ).replace("</domain>", "<q:commandline><q:arg value='-sandbox'/></q:commandline></domain>"),
    "monitor-elsewhere": STORED.replace("/run/abox/dev/monitor.sock", "/run/docker.sock"),
    "monitor-listens": STORED.replace("mode='connect'", "mode='bind'"),
}


@pytest.mark.parametrize("name", sorted(SOFTENED))
def test_every_softening_is_told(name: str) -> None:
    assert SOFTENED[name] != STORED
    form = normal_form(SOFTENED[name])
    assert form != normal_form(STORED)
    assert list(HARDENED.departures(form))


def parts(text: str) -> ElementTree.Element:
    return ElementTree.fromstring(text)


def test_the_interface_is_filtered_by_the_stylesheet_itself() -> None:
    (nic,) = parts(render_stylesheet(SPEC)).iter("interface")
    found = nic.find("filterref")
    assert found is not None
    assert found.attrib == {"filter": "abox-dev"}


def test_the_monitor_port_is_there_only_if_it_is_asked_for() -> None:
    assert list(parts(render_stylesheet(SPEC)).iter("channel")) == []
    (channel,) = parts(render_stylesheet(WATCHED)).iter("channel")
    source = channel.find("source")
    assert source is not None
    assert source.attrib == {"mode": "connect", "path": "/run/abox/dev/monitor.sock"}
    reconnect = source.find("reconnect")
    assert reconnect is not None
    assert reconnect.attrib == {"enabled": "yes", "timeout": "1"}


def test_qemu_does_not_get_the_image_that_others_lie_on_as_well() -> None:
    based = replace(SPEC, base="/images/{a}.qcow2", base_format="qcow2")
    (below,) = [b for b in parts(render_stylesheet(based)).iter("backingStore") if list(b)]
    (source,) = below.findall("source")
    assert source.attrib == {"file": "/images/{{a}}.qcow2"}  # one brace for a processor
    label = source.find("seclabel")
    assert label is not None
    assert label.attrib == {"model": "dac", "relabel": "no"}
    assert below.find("backingStore") is not None
    assert list(parts(render_stylesheet(SPEC)).iter("backingStore")) == []


def test_only_an_accelerated_domain_has_the_hosts_processor() -> None:
    assert list(parts(render_stylesheet(SPEC)).iter("cpu")) == []
    (cpu,) = parts(render_stylesheet(replace(SPEC, acceleration=ACCELERATED))).iter("cpu")
    assert cpu.get("mode") == "host-passthrough"


HOSTILE = st.text(alphabet="<>'\"&{}$/ \n\0abx.-é", max_size=24)


@given(HOSTILE, HOSTILE)
def test_no_value_adds_to_the_stylesheet(one: str, two: str) -> None:
    try:
        spec = DomainSpec(sandbox="dev", filter=f"f{one}", monitor=f"/{two}")
        text = render_stylesheet(spec)
    except ValueError:
        return
    shape = [each.tag for each in parts(render_stylesheet(WATCHED)).iter()]
    assert [each.tag for each in parts(text).iter()] == shape
    (source,) = [s for s in parts(text).iter("source") if s.get("mode")]
    # What a processor makes of doubled braces is one brace.
    assert source.get("path", "").replace("{{", "{").replace("}}", "}") == f"/{two}"


@pytest.mark.parametrize(
    "bad",
    [{"sandbox": "<x/>"}, {"sandbox": ""}, {"filter": "a b"}, {"filter": ""},
     {"monitor": "relative"}, {"monitor": "/a\nb"}, {"acceleration": "xen"},
     {"base": "relative", "base_format": "raw"}, {"base": "/a\nb", "base_format": "raw"},
     {"base": "/a", "base_format": "vmdk"}],
    ids=str,
)  # fmt: skip
def test_a_spec_that_can_not_be_is_refused(bad: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="'"):
        replace(SPEC, **bad)


TEMPLATE = """\
<domain type='qemu'>
  <title>of {{sandbox}}, {not a placeholder}</title>
  <memory unit='MiB'>{{memory_mb}}</memory>
  <vcpu>{{cpus}}</vcpu>
  <os><type>hvm</type></os>
  <devices>
    <interface type='bridge'>
      <mac address='{{mac}}'/><source bridge='{{bridge}}'/><filterref filter='{{filter}}'/>
    </interface>
  </devices>
</domain>
"""
VALUES = {name: f"<{name}'\"{{&" for name in PLACEHOLDERS}
"""Worse than any that the settings let through."""


def test_values_in_a_template_stay_values() -> None:
    check_template(TEMPLATE)
    sheet = parts(render_template(TEMPLATE, VALUES))
    (nic,) = sheet.iter("interface")
    assert [part.tag for part in nic] == ["mac", "source", "filterref"]
    (title,) = sheet.iter("title")
    assert title.text == "of <sandbox'\"{&, {not a placeholder}"
    (mac,) = sheet.iter("mac")
    assert mac.get("address") == "<mac'\"{{&"  # braces doubled: the processor makes one of them


def test_a_template_gets_name_and_disks_of_the_plugin() -> None:
    selects = [
        each.get("select")
        for each in parts(render_template(TEMPLATE, VALUES)).iter(f"{XSL}copy-of")
    ]
    assert selects == ["name", "uuid", "devices/disk"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("<filterref filter='{{filter}}'/>", ""), "leave the sandbox"),
        (("'{{filter}}'", "'clean-traffic'"), "leave the sandbox"),
        (("'{{bridge}}'", "'br0'"), "leave the sandbox"),
        (("'{{mac}}'", "'52:54:00:00:00:01'"), "leave the sandbox"),
        (("</devices>", "<interface type='user'/></devices>"), "leave the sandbox"),
        (("{{sandbox}}", "{{secret}}"), "stands for nothing"),
        (("<domain ", "<!DOCTYPE x [<!ENTITY e 'x'>]><domain "), "document type"),
        (("</domain>", ""), "no XML"),
        (("<domain type='qemu'>", "<network>"), "XML"),
        (
            ("<os>", "<x:value-of xmlns:x='http://www.w3.org/1999/XSL/Transform' select='.'/><os>"),
            "stylesheet",
        ),
    ],
    ids=lambda value: str(value)[:30],
)  # fmt: skip
def test_a_template_that_would_open_the_sandbox_is_refused(
    change: tuple[str, str], said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        check_template(TEMPLATE.replace(*change))


def test_a_domain_says_whose_it_is() -> None:
    assert sandbox_of(STORED) == "dev"
    assert sandbox_of("<domain/>") == ""
    (own,) = parts(render_template(TEMPLATE, VALUES)).iter("{urn:abox:sandbox}sandbox")
    assert own.text == VALUES["sandbox"]


@pytest.mark.parametrize("text", ["", "<network/>", "<domain>"])
def test_what_is_no_domain_has_no_form(text: str) -> None:
    with pytest.raises(ValueError, match=r"XML|domain"):
        normal_form(text)
