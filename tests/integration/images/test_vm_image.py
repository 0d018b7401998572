"""The image of virtual machines: what is in it, and that it boots on an emulated processor."""

from __future__ import annotations

import hashlib
import json
import shutil
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from images.build import build
from images.disk import SIZE_BYTES
from images.lock import Locked
from images.vm import CMDLINES
from tests import host
from toolchain.plugins.libvirt.domain_document import command_line

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

SEED = "/var/lib/cloud/seed/nocloud"
"""Where cloud-init looks before it looks at other disks."""

ADDRESS, MAC = "10.213.77.10", "52:54:00:12:34:56"
BOOT_TIMEOUT_S = 400
"""Alone on two cores it takes half a minute; tests share the machine."""


@pytest.fixture(scope="module")
def image() -> Locked:
    """The image, built if it isn't there."""
    return build(["vm"])["vm"]


@pytest.fixture(scope="module")
def raw(image: Locked, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A sparse copy of its disk, in a form that e2fsprogs read."""
    path = tmp_path_factory.mktemp("vm") / "root.raw"
    disk = image.files["disk"].path
    host.run(["qemu-img", "convert", "-O", "raw", disk, str(path)], timeout_s=300)
    yield path
    path.unlink()


def debugfs(raw: Path, request: str, *, write: bool = False) -> str:
    options = ["-w"] if write else []
    done = host.run(["debugfs", *options, "-R", request, str(raw)])
    (_version, *complaints) = done.stderr.splitlines()
    assert complaints == []  # its exit code tells nothing
    return done.stdout


def test_files_are_what_the_lock_says_and_qemu_can_read_them(image: Locked) -> None:
    """Content by SHA-256; readable for the user that QEMU runs as, changeable for nobody."""
    for file in image.files.values():
        with Path(file.path).open("rb") as content:
            assert hashlib.file_digest(content, "sha256").hexdigest() == file.sha256
        host.run(["setpriv", "--reuid=libvirt-qemu", "--clear-groups", "head", "-c1", file.path])
        assert Path(file.path).stat().st_mode & 0o222 == 0
    assert image.id == f"sha256:{image.files['disk'].sha256}"
    described = json.loads(
        host.run(["qemu-img", "info", "--output=json", image.files["disk"].path]).stdout
    )
    assert described["format"] == "qcow2"
    assert described["virtual-size"] == SIZE_BYTES
    assert "backing-filename" not in described


def test_no_machine_shows_in_the_disk(raw: Path) -> None:
    """No host keys, machine id, host name, package sources or address of the building machine."""
    assert "ssh_host_" not in debugfs(raw, "ls /etc/ssh")
    assert debugfs(raw, "cat /etc/machine-id") == ""
    for name in ("hostname", "hosts", "resolv.conf"):
        assert f" {name} " not in debugfs(raw, "ls /etc")
    assert ".list" not in debugfs(raw, "ls /etc/apt/sources.list.d")
    assert "agent:*:" in debugfs(raw, "cat /etc/shadow")
    host.run(["e2fsck", "-f", "-n", str(raw)], timeout_s=300)


def test_files_keep_owners_modes_and_one_time(raw: Path) -> None:
    """Sudo works, the home is the agent's, and nothing tells when the image was built."""
    assert "Mode:  04755" in debugfs(raw, "stat /usr/bin/sudo")
    home = debugfs(raw, "stat /home/agent")
    assert "User:  1000" in home
    assert "Wed Jan  1 00:00:00 2020" in home


@dataclass(frozen=True)
class Guest:
    """A running guest, reached by SSH."""

    port: int
    key: Path

    def run(self, command: str, *, check: bool = True) -> host.Completed:
        options = ["StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "LogLevel=ERROR"]
        return host.run(
            [
                *("ssh", "-p", str(self.port), "-i", str(self.key), "-o", "BatchMode=yes"),
                *(part for option in options for part in ("-o", option)),
                *("agent@127.0.0.1", command),
            ],
            timeout_s=180,
            check=check,
        )


def seed(key: str) -> dict[str, str]:
    """What cloud-init reads: an address, a host name, a key for the account of the image."""
    network = {
        "match": {"macaddress": MAC},
        "set-name": "eth0",
        "addresses": [f"{ADDRESS}/24"],
        "dhcp4": False,
    }
    user = {"name": "agent", "sudo": "ALL=(ALL) NOPASSWD:ALL", "ssh_authorized_keys": [key]}
    host_key = "ssh-keygen -q -t ed25519 -N '' -f /etc/ssh/ssh_host_ed25519_key"
    data = {
        "users": [user],
        "bootcmd": [f"test -e /etc/ssh/ssh_host_ed25519_key || {host_key}"],
    }
    return {
        "meta-data": json.dumps({"instance-id": "abxt", "local-hostname": "abxt-guest"}),
        "network-config": json.dumps({"version": 2, "ethernets": {"eth0": network}}),
        "user-data": f"#cloud-config\n{json.dumps(data)}",
    }


@pytest.fixture(scope="module")
def guest(image: Locked, raw: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guest]:
    """The image booted as a domain is: kernel given, emulated processor, larger disk."""
    folder = tmp_path_factory.mktemp("guest")
    key = folder / "key"
    host.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)])
    disk = folder / "disk.raw"
    host.run(["cp", "--sparse=always", str(raw), str(disk)])
    for made in ("/var/lib/cloud", SEED.rpartition("/")[0], SEED):
        debugfs(disk, f"mkdir {made}", write=True)
    for name, text in seed(key.with_suffix(".pub").read_text().strip()).items():
        (folder / name).write_text(text)
        debugfs(disk, f"write {folder / name} {SEED}/{name}", write=True)
    host.run(["qemu-img", "resize", "-q", "-f", "raw", str(disk), "6G"])
    port = free_port()
    process = host.spawn(
        [
            *("qemu-system-x86_64", "-machine", "q35,accel=tcg", "-smp", "2", "-m", "1024"),
            *("-nodefaults", "-no-user-config", "-display", "none"),
            *("-kernel", image.files["kernel"].path, "-initrd", image.files["initrd"].path),
            *("-append", command_line(CMDLINES)),
            *("-drive", f"file={disk},format=raw,if=virtio"),
            *("-device", "virtio-serial-pci", "-device", "virtconsole,chardev=console"),
            *("-chardev", f"file,id=console,path={folder / 'console.log'}"),
            *("-device", f"virtio-net-pci,netdev=net,mac={MAC}"),
            "-netdev",
            f"user,id=net,restrict=on,net=10.213.77.0/24,dhcpstart=10.213.77.50,"
            f"hostfwd=tcp:127.0.0.1:{port}-{ADDRESS}:22",
        ],
        stderr_path=folder / "qemu.log",
    )
    started = Guest(port, key)
    try:
        host.wait_until(
            lambda: started.run("true", check=False).code == 0,
            timeout_s=BOOT_TIMEOUT_S,
            describe=lambda: (folder / "console.log").read_text(errors="replace")[-2000:],
            every_s=1,
        )
        yield started
    finally:
        process.kill()
        host.end(process)
        shutil.rmtree(folder)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_guest_is_set_up_by_cloud_init(guest: Guest) -> None:
    """Host name, account, sudo; the root filesystem has grown to its disk."""
    assert guest.run("hostname").stdout.strip() == "abxt-guest"
    assert guest.run("id -un; id -u").stdout.split() == ["agent", "1000"]
    assert guest.run("sudo -n id -u").stdout.strip() == "0"
    host.wait_until(
        lambda: int(guest.run("df --output=size -B1M / | tail -1").stdout) > 5000,
        timeout_s=60,
        describe=lambda: guest.run("df -h /").stdout,
        every_s=1,
    )


def test_guest_has_the_agents_tools(guest: Guest) -> None:
    """As the agent image: a venv, Node.js, git, a compiler; each runs."""
    tools = ["python3 --version", "pip --version", "node --version", "npm --version"]
    for tool in [*tools, "git --version", "gcc --version", "curl --version", "rg --version"]:
        assert guest.run(f"bash -lc '{tool}'").stdout.strip(), tool
    assert (
        guest.run("bash -lc 'command -v python3'").stdout.strip() == "/home/agent/.venv/bin/python3"
    )


def test_nothing_fails_or_runs_that_nobody_asked_for(guest: Guest) -> None:
    """No failed unit, no timer, no service that listens but SSH."""
    guest.run("sudo cloud-init status --wait", check=False)
    assert guest.run("sudo systemctl --failed --no-legend --plain").stdout.strip() == ""
    timers = guest.run("sudo systemctl list-timers --all --no-legend --plain").stdout
    assert [line for line in timers.splitlines() if not line.startswith("-")] == []
    listening = guest.run("ss -Hltun | awk '{print $5}'").stdout.split()
    assert set(listening) == {"0.0.0.0:22"}
