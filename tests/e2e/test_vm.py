"""The agent as a VM: filtered from its definition on, hardened, known before the first login.

One VM stands for the whole file: without hardware virtualisation each boot takes its time.
"""

from __future__ import annotations

import json
import pwd
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from abox.host_state import monitor_socket, ssh_config
from abox.naming import bridge_name, default_mac, filter_name, link_filter_name
from abox.render.domain import normal_form as domain_form
from abox.render.nwfilter import FilterSpec, filter_rules, link_rules
from cli.guests import Guest
from tests import host
from tests.cases.sandbox import Sandbox
from tests.e2e.conftest import ALLOWED, Abox, furnish
from tests.e2e.test_lifecycle import STATE, leftovers
from tests.stacks import Project
from tests.world import World

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(2400)]

SETTINGS: dict[str, Any] = {
    "backend": "vm",
    "allow": [ALLOWED, "*.wild.test"],
    "allow_private_cidrs": ["198.51.100.0/24"],
    "vm": {"cpus": 2, "memory_mb": 1024, "disk_gb": 5},
    "monitor": {"enabled": True},
}
BOOT_S = 1500
"""Limit of one run of Pulumi: emulated, on a machine that does other things besides."""


class Machine:
    """One stack whose agent is a VM."""

    def __init__(self, project: Project, name: str) -> None:
        self.name = name
        self.project = project
        self.guest = Guest(name, ssh_config(STATE, name))

    @property
    def domain(self) -> str:
        """Name of the domain."""
        shown = self.project.pulumi("stack", "output", "domain", "--stack", self.name)
        return shown.stdout.strip()

    def run(self, *words: str, check: bool = True) -> host.Completed:
        """Run a program in the guest."""
        return host.run(self.guest.run(list(words)), check=check, timeout_s=300)

    def boot_id(self) -> str:
        """Changes with every boot."""
        return self.run("cat", "/proc/sys/kernel/random/boot_id").stdout.strip()

    def xml(self, *flags: str) -> str:
        """libvirt's XML of the domain."""
        return virsh("dumpxml", self.domain, *flags)

    def drifted(self) -> bool:
        """Whether a preview that expects no changes finds some."""
        shown = self.project.pulumi(
            "preview", "--expect-no-changes", "--stack", self.name, check=False
        )
        assert shown.code in (0, 7), shown.stdout + shown.stderr
        return shown.code == 7

    def up(self) -> host.Completed:
        """Bring it to what its configuration says."""
        return self.project.pulumi("up", "--yes", "--skip-preview", "--stack", self.name)


def virsh(*arguments: str, text: str = "") -> str:
    return host.run(["virsh", "-q", "-c", "qemu:///system", *arguments], text=text).stdout


@pytest.fixture(scope="module")
def machine(make_sandbox: Callable[[str], Sandbox], project: Project) -> Iterator[Machine]:
    before, project.limit_s = project.limit_s, BOOT_S
    sandbox = make_sandbox("v")
    sandbox.stack.configure(sandbox.full_settings(SETTINGS))
    sandbox.stack.up()
    yield Machine(project, sandbox.name)
    sandbox.down()
    project.limit_s = before


@pytest.fixture
def vm(machine: Machine, world: World) -> Machine:
    """The standing VM, in an upstream world with one allowed and one denied origin."""
    furnish(world)
    return machine


@pytest.fixture
def abox(project: Project, vm: Machine) -> Abox:
    return Abox(project, vm)


def spec(vm: Machine) -> FilterSpec:
    outputs = json.loads(vm.project.pulumi("stack", "output", "--json", "--stack", vm.name).stdout)
    lease = [int(part) for part in outputs["gateway"].split(".")]
    members = {role: IPv4Address(bytes([*lease[:3], last])) for role, last in
               (("agent", 10), ("gateway", 2), ("host", 1))}  # fmt: skip
    return FilterSpec(
        name=filter_name(vm.name),
        link=link_filter_name(vm.name),
        mac=default_mac(vm.name),
        proxy_port=8080,
        **members,
    )


def rules_in(xml: str) -> list[tuple[str, str, str, dict[str, str]]]:
    """Action, direction, protocol and match of each rule, in libvirt's order."""
    rules = ElementTree.fromstring(xml).findall("rule")
    return [(r.get("action", ""), r.get("direction", ""), r[0].tag, r[0].attrib) for r in rules]


def test_vm_1_the_filter_reads_back_rule_by_rule(vm):
    """VM-1: libvirt holds exactly the list, and both definitions of the domain refer to it."""
    expected = spec(vm)
    gateway, new = str(expected.gateway), {"state": "NEW"}
    known = {"state": "ESTABLISHED,RELATED"}
    assert rules_in(virsh("nwfilter-dumpxml", expected.name)) == [
        ("accept", "in", "all", known),
        ("accept", "out", "all", known),
        ("accept", "in", "tcp", {**new, "dstportstart": "22"}),
        ("accept", "out", "udp", {**new, "dstipaddr": gateway, "dstportstart": "53"}),
        ("accept", "out", "tcp", {**new, "dstipaddr": gateway, "dstportstart": "8080"}),
        ("accept", "out", "icmp", {**new, "dstipaddr": gateway}),
        ("drop", "in", "all", {}),
        ("drop", "out", "all", {}),
    ]
    for name, rules in (
        (expected.name, filter_rules(expected)),
        (expected.link, link_rules(expected)),
    ):
        asked = [(r.action, r.direction, r.protocol, dict(r.match)) for r in rules]
        assert rules_in(virsh("nwfilter-dumpxml", name)) == asked
    for flags in ((), ("--inactive",)):
        (nic,) = ElementTree.fromstring(vm.xml(*flags)).findall("devices/interface")
        bound = nic.find("filterref")
        assert bound is not None
        assert bound.get("filter") == expected.name


def test_vm_2_nothing_passes_from_inside_as_root(vm, project):
    """VM-2: every probe of `abox check`, raw frames of the VM's root among them, is held."""
    abox = Abox(project, vm)
    shown = abox("check", vm.name, "--json", timeout_s=BOOT_S)
    document = json.loads(shown.stdout)
    rows = {row["id"]: row for row in document["probes"]}
    assert rows["frames-control"]["state"] == "ok"  # control: a true frame is seen
    assert {name for name, row in rows.items() if row["state"] != "ok"} == set()
    assert shown.code == 0


def test_vm_3_the_machine_is_hardened_and_qemu_confined(vm):
    """VM-3: virtio alone, nothing of the host; QEMU without rights, with a call filter."""
    devices = [line for line in domain_form(vm.xml()) if line.startswith("device ")]
    kinds = {line.split()[1] for line in devices}
    assert kinds <= {"emulator", "disk", "interface", "console", "controller", "input", "audio",
                     "memballoon", "channel"}  # fmt: skip
    assert "device memballoon model=none" in devices
    pid = Path(f"/run/libvirt/qemu/{vm.domain}.pid").read_text().strip()
    status = Path(f"/proc/{pid}/status").read_text()
    assert "Seccomp:\t2" in status
    assert "CapEff:\t0000000000000000" in status
    assert not status.partition("Uid:\t")[2].startswith("0\t")
    base = ElementTree.fromstring(vm.xml()).find("devices/disk/backingStore/source")
    assert base is not None
    assert Path(base.get("file", "")).stat().st_uid == 0  # others' disks lie on it as well


def test_vm_4_the_guest_proves_a_key_that_is_known_before(vm, tmp_path):
    """VM-4: no trust on first use; a guest with another key is not logged in to."""
    assert vm.run("true").code == 0  # control
    other = tmp_path / "known_hosts"
    key = "AAAAC3NzaC1lZDI1NTE5AAAAICsAt85wr/S/UDZ0zhBbUsEKHd6ktRgfwl19ArCvVklb"
    other.write_text(f"guest ssh-ed25519 {key}\n")
    done = host.run([*vm.guest.ssh("-o", f"UserKnownHostsFile={other}"), "true"], check=False)
    assert done.code == 255
    assert "verification failed" in done.stderr.lower()


def test_vm_5_tools_in_the_guest_reach_what_is_allowed_and_nothing_else(vm):
    """VM-5: without a setting; DNS, proxy and authority come from the first boot."""
    fetch = ["curl", "-sS", "-o", "/dev/null", "-m", "60", "-w", "%{http_code}"]
    assert vm.run(*fetch, f"https://{ALLOWED}/").stdout == "200"
    assert vm.run(*fetch, "http://evil.test/").stdout == "403"
    assert vm.run(*fetch, "--noproxy", "*", "http://198.51.100.10/", check=False).code != 0
    python = f"import urllib.request as u; print(u.urlopen('https://{ALLOWED}/').status)"
    assert vm.run("python3", "-c", python).stdout.strip() == "200"
    assert vm.run("git", "ls-remote", f"https://{ALLOWED}/x.git", check=False).code == 128


def loosen_filter(vm: Machine) -> None:
    name = filter_name(vm.name)
    uuid = ElementTree.fromstring(virsh("nwfilter-dumpxml", name)).findtext("uuid", "")
    rule = "<rule action='accept' direction='inout'><all/></rule>"
    xml = f"<filter name='{name}' chain='root'><uuid>{uuid}</uuid>{rule}</filter>"
    virsh("nwfilter-define", "/dev/stdin", text=xml)


def take_filter_off(vm: Machine) -> None:
    nic = ElementTree.fromstring(vm.xml()).find("devices/interface")
    assert nic is not None
    for filterref in nic.findall("filterref"):
        nic.remove(filterref)
    xml = ElementTree.tostring(nic, encoding="unicode")
    virsh("update-device", vm.domain, "/dev/stdin", "--live", "--config", text=xml)


def take_rules_off(vm: Machine) -> None:
    target = ElementTree.fromstring(vm.xml()).find("devices/interface/target")
    assert target is not None
    host.run(["ebtables", "-t", "nat", "-F", f"libvirt-I-{target.get('dev')}"])


def change_disk(vm: Machine) -> None:
    (seed,) = Path("/var/lib/libvirt/images/abox", vm.name).glob("*-seed-*.img")
    with seed.open("r+b") as file:
        file.seek(-1, 2)
        file.write(b"x")


def open_monitor_folder(vm: Machine) -> None:
    monitor_socket(STATE, vm.name).parent.chmod(0o777)


TAMPERINGS: dict[str, tuple[Callable[[Machine], object], str]] = {
    "kernel-rules-off": (take_rules_off, "vm-posture"),
    "filter-loosened": (loosen_filter, "vm-filter"),
    "filter-off": (take_filter_off, "vm-posture"),
    "seed-changed": (change_disk, "vm-seed"),
    "monitor-folder-open": (open_monitor_folder, "vm-monitor"),
    "suspended": (lambda vm: virsh("suspend", vm.domain), "vm-generation"),
}
"""What is done by hand, and the resource that tells."""


def test_vm_6_every_tampering_is_seen_and_repaired_without_a_reboot(vm, project):
    """VM-6: filter, binding, kernel rules, disk, state: a preview tells each, one `up` repairs."""
    abox = Abox(project, vm)
    before = vm.boot_id()
    assert not vm.drifted()  # control
    for tamper, _ in TAMPERINGS.values():
        tamper(vm)
    shown = abox("drift", vm.name, "--json", timeout_s=BOOT_S)
    assert shown.code == 7, shown.stderr
    told = {one["name"]: one["words"] for one in json.loads(shown.stdout)["resources"]}
    assert {f"{vm.name}-{resource}" for _, resource in TAMPERINGS.values()} <= told.keys(), told
    assert "missing: drop out all" in told[f"{vm.name}-vm-filter"]
    vm.up()
    assert not vm.drifted()
    assert vm.boot_id() == before


def test_vm_7_a_machine_that_was_off_comes_back_filtered_and_as_it_was(vm, abox):
    """VM-7: off by hand is drift; one `up` boots it again, filtered, with what the guest wrote."""
    vm.run("sudo", "sh", "-c", "echo own >> /etc/hosts; sync")
    before = vm.boot_id()
    virsh("destroy", vm.domain)
    assert vm.drifted()
    shown = abox("monitor", "status", vm.name)
    assert shown.code == 1
    assert "port closed" in shown.stdout
    vm.up()
    host.wait_until(
        lambda: host.run(vm.guest.run(["true"]), check=False, timeout_s=60).code == 0,
        timeout_s=BOOT_S,
        describe=lambda: "no login after the machine was switched on",
        every_s=1,
    )
    assert vm.boot_id() != before
    assert vm.run("tail", "-n1", "/etc/hosts").stdout == "own\n"
    assert vm.run("sudo", "systemctl", "--failed", "--no-legend", "--plain").stdout == ""
    assert rules_in(virsh("nwfilter-dumpxml", filter_name(vm.name)))
    assert not vm.drifted()


def states(abox: Abox) -> dict[str, Any]:
    """What `abox monitor status` says."""
    shown = abox("monitor", "status", abox.name, "--json")
    found: dict[str, Any] = json.loads(shown.stdout)
    assert shown.code == (0 if found["state"] == "alive" else 1)
    return found


def test_mon_1_machine_and_reader_live_independently(vm, abox, tmp_path):
    """MON-1: up without a reader; one comes and goes; one that stays sees the sensor come back."""
    assert not port_of(vm).exists()
    first = states(abox)
    assert first["state"] == "alive"
    assert first["last"]["heartbeat"]["boot"] == vm.boot_id()
    vm.run("sudo", "systemctl", "stop", "abox-heartbeat")
    silent = states(abox)
    assert (silent["state"], silent["last"]) == ("silent", first["last"])
    with reading(vm, abox, tmp_path) as reader:
        vm.run("sudo", "systemctl", "start", "abox-heartbeat")
        assert next_heartbeat(reader)["boot"] == first["last"]["heartbeat"]["boot"]
    assert states(abox)["state"] == "alive"


@contextmanager
def reading(vm: Machine, abox: Abox, folder: Path) -> Iterator[host.Process[bytes]]:
    """A reader that listens for as long as the block lasts."""
    reader = abox.start("monitor", "logs", vm.name, "--json", log=folder / "log")
    try:
        host.wait_until(port_of(vm).exists, timeout_s=60, describe=lambda: "nobody listens")
        yield reader
    finally:
        host.end(reader)


def next_heartbeat(reader: host.Process[bytes]) -> dict[str, Any]:
    assert reader.stdout is not None
    line = reader.stdout.readline()
    assert line, "the reader ended"
    found: dict[str, Any] = json.loads(line)["heartbeat"]
    return found


GARBAGE = r"""
import os
port = os.open("/dev/virtio-ports/org.abox.monitor", os.O_WRONLY)
os.write(port, b"\x1b[2Jowned\n" + b"x" * 4000 + b"\n{}\n")
"""


def test_mon_2_root_in_the_guest_writes_what_it_likes_and_a_terminal_sees_none(vm, abox):
    """MON-2: lines that are no heartbeats are counted, never shown."""
    vm.run("sudo", "systemctl", "stop", "abox-heartbeat")
    vm.run("sudo", "sh", "-c", f"(python3 -c '{GARBAGE}' >/dev/null 2>&1 &)")
    shown = abox("monitor", "status", vm.name)
    assert shown.code == 1
    assert "silent since" in shown.stdout
    assert "3 lines were no heartbeats" in shown.stdout
    assert "owned" not in shown.stdout
    assert "\x1b" not in shown.stdout + shown.stderr
    vm.run("sudo", "systemctl", "start", "abox-heartbeat")
    assert states(abox)["state"] == "alive"  # control: the same port takes true ones


def test_mon_3_the_port_leads_to_a_reader_and_nowhere_else(vm, abox, tmp_path):
    """MON-3: QEMU only ever connects, to a socket that its group and root alone reach."""
    for flags in ((), ("--inactive",)):
        (channel,) = ElementTree.fromstring(vm.xml(*flags)).findall("devices/channel")
        source = channel.find("source")
        assert source is not None
        assert (source.get("mode"), source.get("path")) == ("connect", str(port_of(vm)))
    with reading(vm, abox, tmp_path):
        nobody, qemu = pwd.getpwnam("nobody"), pwd.getpwnam("libvirt-qemu")
        said = try_to_connect(vm, nobody.pw_uid, nobody.pw_gid).stderr
        assert "PermissionError" in said
        group = port_of(vm).parent.stat().st_gid
        assert try_to_connect(vm, qemu.pw_uid, group).code == 0  # control
    listening = host.run(["ss", "-xlpn"]).stdout
    pid = Path(f"/run/libvirt/qemu/{vm.domain}.pid").read_text().strip()
    (own,) = [line for line in listening.splitlines() if f"pid={pid}," in line]
    assert "/monitor.sock" in own  # by which libvirt commands it


def port_of(vm: Machine) -> Path:
    return monitor_socket(STATE, vm.name)


def try_to_connect(vm: Machine, user: int, group: int) -> host.Completed:
    """A try as another user of the host, who may not enter the checkout."""
    script = f"import socket; socket.socket(socket.AF_UNIX).connect({str(port_of(vm))!r})"
    become = ["setpriv", f"--reuid={user}", f"--regid={group}", "--clear-groups"]
    return host.run([*become, "/usr/bin/python3", "-c", script], check=False)


CLOCK_S = 30
"""Seconds that a guest's clock may be away from the host's, and a login may take."""


def test_snap_1_a_machine_goes_back_to_what_its_disks_were(vm, abox, tmp_path):
    """SNAP-1: both disks, behind the same filters and keys; clock right, no drift, unasked never.

    The monitor's reader stays meanwhile and sees the machine go and come back.
    """
    paths = ["/workspace/state", "/home/agent/state"]
    vm.run("sh", "-c", f"echo before | tee {' '.join(paths)}")
    before = vm.boot_id()
    made = abox("snapshot", "create", vm.name, "one")
    assert (made.code, made.stderr) == (0, "")
    assert abox("snapshot", "create", vm.name, "one").code == 2  # nothing is written over
    vm.run("sh", "-c", f"echo after | tee {' '.join(paths)}; echo more > /workspace/more; sync")
    assert abox("snapshot", "revert", vm.name, "one").code == 2  # nobody was asked
    assert vm.run("cat", *paths).stdout == "after\nafter\n"  # control
    with reading(vm, abox, tmp_path) as reader:
        back = abox("snapshot", "revert", vm.name, "one", "--yes", timeout_s=BOOT_S)
        assert back.code == 0, back.stderr
        beat = next_heartbeat(reader)
        while beat["boot"] == before:
            beat = next_heartbeat(reader)
    assert beat["boot"] == vm.boot_id()
    assert vm.run("cat", *paths).stdout == "before\nbefore\n"
    assert vm.run("test", "-e", "/workspace/more", check=False).code == 1
    started = time.time()
    clock = int(vm.run("date", "+%s").stdout)
    assert started - CLOCK_S < clock < time.time() + CLOCK_S
    test_vm_1_the_filter_reads_back_rule_by_rule(vm)
    assert vm.run("curl", "-sS", "-o", "/dev/null", "-w", "%{http_code}",
                  f"https://{ALLOWED}/").stdout == "200"  # fmt: skip
    assert not vm.drifted()
    assert snapshots(abox) == ["one"]
    assert abox("snapshot", "remove", vm.name, "one").code == 0
    assert snapshots(abox) == []


def snapshots(abox: Abox) -> list[str]:
    """Names that both disks hold."""
    shown = json.loads(abox("snapshot", "list", abox.name, "--json").stdout)
    assert all(one["disks"] == ["vda", "vdb"] for one in shown)
    return [one["name"] for one in shown]


def test_vm_8_disks_outlive_a_machine_with_other_limits(vm, project, abox):
    """VM-8: a name on the allowlist leaves the machine as it is; limits and the monitor port make
    it anew, as told.
    """
    assert abox("snapshot", "create", vm.name, "outlives").code == 0
    keep = "echo kept > /workspace/kept; echo kept > $HOME/kept; sync"
    vm.run("sh", "-c", keep)
    pod, before = abox.containers(), vm.boot_id()
    text = abox.settings.read_text()
    try:
        assert abox("allow", vm.name, "added.test", timeout_s=BOOT_S).code == 0
        assert vm.boot_id() == before
        other = text.replace("memory_mb: 1024", "memory_mb: 1152").replace("cpus: 2", "cpus: 3")
        other = other.replace("enabled: true", "enabled: false")
        abox.settings.write_text(other)
        shown = project.pulumi("preview", "--stack", vm.name)
        assert "replace" in shown.stdout
        vm.up()
        assert vm.run("nproc").stdout == "3\n"
        assert vm.run("cat", "/workspace/kept", "/home/agent/kept").stdout == "kept\nkept\n"
        assert abox.containers() == pod
        assert "channel" not in vm.xml()
        units = vm.run("sudo", "systemctl", "list-units", "--plain").stdout
        assert "abox-heartbeat" not in units
        assert "ssh.service" in units  # control
        assert abox("monitor", "status", vm.name).code == 2
        assert snapshots(abox) == ["outlives"]
        assert not vm.drifted()
    finally:
        abox.settings.write_text(text)


def test_vm_9_destroy_leaves_no_domain_disk_filter_or_tap(make_sandbox, machine):
    """VM-9: and no pool, lease, key or folder. The last test: it takes the VM away."""
    name = machine.name
    assert len(leftovers(name) + of_libvirt(name)) >= 14  # control
    machine.project.pulumi("destroy", "--yes", "--skip-preview", "--stack", name)
    assert leftovers(name) + of_libvirt(name) == []


def of_libvirt(name: str) -> list[str]:
    """Whatever of a sandbox libvirt and the host's disks hold."""
    found = [line for line in virsh("list", "--all", "--name").split() if line.startswith(name)]
    found += [line for line in virsh("pool-list", "--all", "--name").split() if name in line]
    filters = {filter_name(name), link_filter_name(name)}
    found += [w for line in virsh("nwfilter-list").splitlines() for w in line.split()
              if w in filters]  # fmt: skip
    found += [str(p) for p in Path("/var/lib/libvirt/images/abox").glob(f"{name}*")]
    links = json.loads(host.run(["ip", "-j", "link"]).stdout)
    found += [link["ifname"] for link in links if link.get("master") == bridge_name(name)]
    return found
