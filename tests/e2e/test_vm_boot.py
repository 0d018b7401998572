"""A guest whose first program floods: nothing of it passes, whenever and however it was started."""

from __future__ import annotations

import json
import os
import signal
import stat
import time
from collections.abc import Callable, Iterator
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from abox.naming import bridge_name, default_mac, egress_bridge_name, filter_name
from cli.frames import ATTACKS, BROADCAST, HONEST, Maker, ethernet, mark_of
from images.initramfs import cpio
from tests import host
from tests.attack.watching import Members, Seen, Watcher, device_of
from tests.cases.sandbox import VM_SIZE
from tests.e2e.test_lifecycle import leftovers
from tests.e2e.test_vm import of_libvirt, virsh
from tests.stacks import Project, Stack
from tests.world import World
from tests.world.world import UPSTREAM_DNS

CABLES_SETTLE_S = 5
"""Until the host's ends of the pod's new cables have said, in MLD reports, that they are there."""

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

PROGRAM = host.ROOT / "tests/e2e/flooding"
SETTINGS: dict[str, Any] = {
    "backend": "vm",
    "allow": ["allowed.test"],
    "allow_private_cidrs": ["198.51.100.0/24"],
    "upstream_dns": [UPSTREAM_DNS],
    "vm": {**VM_SIZE, "cpus": 1, "memory_mb": 256},
}
BEGIN = b"abxt-boot-begins"
"""In the first frame of each boot."""
STEP_S = 240
"""Limit of one step; the machine may be emulated, and do other things besides."""
_FILE, _PROGRAM = stat.S_IFREG | 0o644, stat.S_IFREG | 0o755


class Flooding:
    """A stack whose VM floods from its first instruction on."""

    def __init__(self, project: Project, name: str, initrd: Path) -> None:
        self.project, self.name, self._initrd = project, name, initrd
        self.stack = Stack(project, name)
        self._begun: host.Process[bytes] | None = None
        self.stack.configure(SETTINGS)

    # --- bringing it up -----------------------------------------------------------------------

    def begin_up(self, path_first: Path | None = None) -> None:
        """Start `up`."""
        environment = self.project.environment
        if path_first is not None:
            environment["PATH"] = f"{path_first}{os.pathsep}{environment['PATH']}"
        words = ["pulumi", "up", "--yes", "--skip-preview", "--non-interactive"]
        command = [*words, "--stack", self.name]
        self._begun = host.spawn(command, env=environment, cwd=self.project.path)

    def kill_up(self) -> None:
        """End it as a crash would, with all that it started; nothing is put in order."""
        if self._begun is None:
            return
        os.killpg(self._begun.pid, signal.SIGKILL)
        host.end(self._begun)
        self._begun = None
        self.project.pulumi("cancel", "--yes", "--stack", self.name, check=False)

    # --- facts --------------------------------------------------------------------------------

    def domains(self, *flags: str) -> list[str]:
        """Names of the stack's domains."""
        listed = virsh("list", "--name", *flags).split()
        return [name for name in listed if name.startswith(f"{self.name}-")]

    def pause(self) -> dict[str, Any]:
        """The container that owns the pod's namespace."""
        labels = [f"label=abox.sandbox={self.name}", "label=abox.role=pause"]
        filters = [word for label in labels for word in ("--filter", label)]
        (name,) = host.run(["docker", "ps", "-q", *filters]).stdout.split()
        listed: list[dict[str, Any]] = json.loads(host.run(["docker", "inspect", name]).stdout)
        return listed[0]

    def lease(self) -> dict[str, Any]:
        """What the stack leased."""
        resources = self.stack.secret_outputs()["deployment"]["resources"]
        made = next(r for r in resources if r["type"].endswith("abox:index:SubnetLease"))
        return dict(made["outputs"])

    def members(self) -> Members:
        """Who is on the bridge."""
        lease = self.lease()
        legs = self.pause()["NetworkSettings"]["Networks"].values()
        shown = json.loads(host.run(["ip", "-j", "link", "show", bridge_name(self.name)]).stdout)
        return Members(
            mac=default_mac(self.name),
            host_mac=shown[0]["address"],
            pod_mac=next(n["MacAddress"] for n in legs if n["IPAddress"] == lease["gateway"]),
            agent=str(IPv4Network(lease["subnet"])[10]),
            gateway=lease["gateway"],
            host=lease["host"],
            proxy_port=8080,
        )

    def write_initrd(self, members: Members) -> None:
        """The image's own drivers, and the flood in the place of what mounts the disk."""
        images = json.loads((host.ROOT / ".abox/images.lock.json").read_text())
        compile_it = (
            "cat > /tmp/init.c && gcc -static -Os -o /tmp/init /tmp/init.c && cat /tmp/init"
        )
        flood = host.transform(
            ["docker", "run", "--rm", "-i", "--network=none", images["agent"]["id"],
             "sh", "-c", compile_it],
            (PROGRAM / "init.c").read_bytes(),
            env={},
        )  # fmt: skip
        maker = Maker(members.mac, members.agent, members.gateway, members.host, members.pod_mac)
        frames = [ethernet(members.mac, BROADCAST, 0x88B5, BEGIN)]
        frames += [make(maker, mark_of(name)) for name, make in {**HONEST, **ATTACKS}.items()]
        data = b"".join(len(frame).to_bytes(2, "little") + frame for frame in frames)
        own = cpio([("init", _PROGRAM, flood), ("frames", _FILE, data)])
        drivers = Path(images["vm"]["files"]["initrd"]["path"]).read_bytes()
        self._initrd.write_bytes(drivers + own)
        self._initrd.chmod(0o644)


@pytest.fixture
def flooding(session_world: World, tmp_path: Path) -> Iterator[Flooding]:
    name = session_world.run.stack("w")
    session_world.join(bridge_name(name), egress_bridge_name(name))
    initrd = Path(f"/var/lib/abox/images/{name}.cpio")  # QEMU's user may enter this folder
    with Project(program=PROGRAM) as project:
        project.limit_s = STEP_S
        project.extra["ABXT_INITRD"] = str(initrd)
        made = Flooding(project, name, initrd)
        yield made
        made.kill_up()
        made.stack.remove()
        initrd.unlink(missing_ok=True)


def wait(condition: Callable[[], bool], what: Callable[[], str]) -> None:
    host.wait_until(condition, timeout_s=STEP_S, describe=what, every_s=0.2)


def interrupted_before_its_start(flooding: Flooding, folder: Path) -> str:
    """`up`, killed when the domain is defined and about to be started; the domain's name."""
    reached, tool = folder / "reached", folder / "virsh"
    tool.write_text(
        "#!/bin/sh\n"
        f'for word; do [ "$word" = start ] && {{ : > {reached}; exec sleep 60; }}; done\n'
        f'PATH="${{PATH#*:}}" exec virsh "$@"\n'
    )
    tool.chmod(0o755)
    flooding.begin_up(folder)
    wait(reached.exists, lambda: "the domain isn't about to start")
    flooding.kill_up()
    (domain,) = flooding.domains("--all")
    assert flooding.domains() == []
    return domain


def watch_tap(domain: str, members: Members) -> Watcher:
    """What the guest sends, before any filter."""
    tap = virsh("domiflist", domain).split()[0]
    return Watcher(tap, members, [])


def held(tap: Watcher, beyond: list[Watcher], *, boot: bool) -> None:
    """One round of the flood was sent from its beginning, and only what may pass did."""
    wanted, sent = [mark_of(name) for name in ATTACKS], set[bytes]()
    wanted += [BEGIN] if boot else []

    def all_sent() -> bool:
        seen = tap.look()
        sent.update(mark for mark in wanted if seen.has(mark))
        return len(sent) == len(wanted)

    wait(all_sent, lambda: f"not sent: {set(wanted) - sent}")
    seen: list[Seen] = [watcher.look() for watcher in beyond]
    assert [one.others for one in seen] == [(), ()]
    passed = {shape for one in seen for shape in one.allowed}
    assert {"dns", "arp"} <= passed  # control: the watchers see what may pass


def test_vm_10_a_guest_that_floods_from_its_first_instruction_gets_nothing_out(flooding, tmp_path):
    """VM-10: at boot, reboot and power-on, and however `up` was interrupted meanwhile."""
    domain = interrupted_before_its_start(flooding, tmp_path)
    nic = ElementTree.fromstring(virsh("dumpxml", domain)).find("devices/interface/filterref")
    assert nic is not None
    assert nic.get("filter") == filter_name(flooding.name)
    members = flooding.members()
    flooding.write_initrd(members)
    inside = ["nsenter", f"--net=/proc/{flooding.pause()['State']['Pid']}/ns/net", "--"]
    time.sleep(CABLES_SETTLE_S)
    with (
        Watcher(device_of(members.pod_mac, inside), members, inside) as pod,
        Watcher(bridge_name(flooding.name), members, []) as bridge,
    ):
        beyond = [pod, bridge]
        flooding.begin_up()
        wait(lambda: bool(flooding.domains()), lambda: "the machine doesn't run")
        (domain,) = flooding.domains()
        with watch_tap(domain, members) as tap:
            held(tap, beyond, boot=False)  # the watcher of a new tap is too late for its first
            flooding.kill_up()
            held(tap, beyond, boot=False)
            virsh("reset", domain)
            held(tap, beyond, boot=True)
        virsh("destroy", domain)
        virsh("start", domain)
        with watch_tap(domain, members) as tap:
            held(tap, beyond, boot=True)
    flooding.stack.destroy()
    assert leftovers(flooding.name) + of_libvirt(flooding.name) == []
