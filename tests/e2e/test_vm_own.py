"""A VM with packages, files and commands of its own, and an attack from it.

One VM stands for the whole file; what its first boot installs comes from the test world.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from abox.settings import VM
from tests import host
from tests.attack.arena import Arena
from tests.attack.watching import Members, Watcher, device_of
from tests.cases.sandbox import Sandbox
from tests.e2e import registries
from tests.e2e.conftest import ALLOWED, ORIGIN, Abox
from tests.e2e.conftest import SETTINGS as CONTAINER_SETTINGS
from tests.e2e.test_vm import BOOT_S, virsh
from tests.stacks import Project
from tests.world import World

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(2400)]

ATTACK_S = 25
OWN_TEXT = "own: '$HOME' \"`id`\" %s \\\\n\n"
"""Text that no shell and no template on its way may touch."""
SAID = "/etc/own/said"
SETTINGS: dict[str, Any] = {
    "allow": [ALLOWED, "*.wild.test"],
    "allow_private_cidrs": ["198.51.100.0/24"],
    "vm": {
        "packages": [registries.NAME],
        "files": [
            {"path": "/etc/own/a file", "content": OWN_TEXT, "mode": "0640", "owner": "agent:adm"},
            {
                "path": "/etc/apt/sources.list",
                "content": f"deb [trusted=yes] http://{ALLOWED}/apt ./\n",
            },
        ],
        "commands": [
            f"cat /usr/share/{registries.NAME} > {SAID}",
            f'id -un >> {SAID} && echo "it\'s $((6 * 7))" >> {SAID}',
        ],
    },
}


@pytest.fixture(scope="module")
def own_vm(
    make_sandbox: Callable[..., Sandbox],
    project: Project,
    session_world: World,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Sandbox]:
    """The VM after the last of its own commands; `up` doesn't wait for them."""
    before, project.limit_s = project.limit_s, BOOT_S
    registry = tmp_path_factory.mktemp("registry")
    registries.lay_apt(registry)
    session_world.reset()
    session_world.dns.set({ALLOWED: [ORIGIN]})
    session_world.origin(at=f"{ORIGIN}:80", answer={"folder": str(registry)})
    made = make_sandbox("o", VM)
    made.up(SETTINGS)
    host.wait_until(
        lambda: "it's" in made.exec(["cat", SAID]).stdout,
        timeout_s=BOOT_S,
        describe=lambda: made.exec(["tail", "/var/log/cloud-init-output.log"]).stdout,
        every_s=1,
    )
    yield made
    made.down()
    project.limit_s = before


def test_vm_11_packages_files_and_commands_of_the_stack_are_in_the_guest(own_vm):
    """VM-11: as they were written, owned and run as root at the first boot, by allowed names."""
    assert own_vm.exec(["cat", "/etc/own/a file"]).stdout == OWN_TEXT
    shown = own_vm.exec(["stat", "-c", "%a %U:%G", "/etc/own/a file"]).stdout
    assert shown == "640 agent:adm\n"
    assert own_vm.exec(["cat", SAID]).stdout == f"{registries.SAYS}\nroot\nit's 42\n"
    assert registries.VERSION in own_vm.exec(["dpkg-query", "-W", registries.NAME]).stdout


def test_vm_12_the_same_policy_has_the_same_hash_in_a_vm_and_in_a_container(own_vm, standing):
    """VM-12: `backend` is no part of it, and neither is anything else of the machine's."""
    hashes = {box.facts.outputs["policy_hash"] for box in (own_vm, standing)}
    assert hashes == {standing.parse(CONTAINER_SETTINGS).policy.hash}


def test_tap_4_the_tap_of_a_vm_shows_what_its_filter_refuses(own_vm, project, tmp_path):
    """TAP-4: `abox tap` finds a VM's port, and shows what its nwfilter drops."""
    log = tmp_path / "log"
    tapping = Abox(project, own_vm).start("tap", own_vm.name, "--seconds", "15", log=log)
    try:
        host.wait_until(lambda: "watching" in log.read_text(), timeout_s=30, describe=log.read_text)
        host.run(["sleep", "2"])  # tcpdump opens it a moment later
        own_vm.exec(["curl", "-sS", "-m", "5", f"http://{ALLOWED}/"])
        # The guest has no way out of its network: the host is what it can try.
        own_vm.exec(["curl", "-sS", "-m", "2", "--noproxy", "*", f"http://{own_vm.host_address}/"])
        assert tapping.stdout is not None
        shown = tapping.stdout.read().decode()
    finally:
        host.end(tapping)
    assert f".{own_vm.proxy_port}: Flags [S]" in shown
    assert f"{own_vm.host_address}.80: Flags [S]" in shown
    assert f"{own_vm.host_address}.80 > " not in shown


@pytest.mark.timeout(600)
def test_vm_13_an_attack_of_the_guests_root_sends_nothing_past_the_tap(own_vm):
    """VM-13: random frames by hand: behind the tap only the allowed shapes are captured."""
    own_vm.attach()
    bridge_link = json.loads(host.run(["ip", "-j", "link", "show", own_vm.bridge]).stdout)
    members = Members(
        mac=own_vm.seat.mac(),
        host_mac=bridge_link[0]["address"],
        pod_mac=own_vm.gateway_mac(),
        agent=own_vm.agent_address,
        gateway=own_vm.gateway,
        host=own_vm.host_address,
        proxy_port=own_vm.proxy_port,
    )
    inside = ["nsenter", f"--net=/proc/{own_vm.pid('pause')}/ns/net", "--"]
    tap = virsh("domiflist", own_vm.facts.outputs["domain"]).split()[0]
    with (
        Watcher(tap, members, []) as before,
        Watcher(device_of(members.pod_mac, inside), members, inside) as pod,
        Watcher(own_vm.bridge, members, []) as bridge,
    ):
        outcome = Arena(own_vm).attack(secrets.randbelow(2**32), ATTACK_S, lambda _: None)
        sent, *passed = (watcher.look() for watcher in (before, pod, bridge))
    assert outcome.faults == [], "\n".join(outcome.lines())
    assert outcome.beside.moves["frames"] > 20
    assert [one.others for one in passed] == [(), ()]
    assert len(sent.others) >= 100  # control: this is what the filters had to drop
    assert {"dns", "proxy"} <= passed[0].allowed.keys()  # and what may pass is seen
