"""A small package from each registry that this machine's own tools are set up with.

The only tests whose packets leave the machine: to the registries that built the images, under the
names and addresses that the machine itself uses, found when the test runs. So the upstream world
doesn't surround this sandbox, and its number is one that no guard watches.
"""

from __future__ import annotations

import os
import re
import socket
import sys
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from abox.addresses import is_public
from images.apt import SUITE, debian_sources
from tests import host
from tests.stacks import Stack
from tests.tool_image import npm_registry
from tests.world import cables

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

PYPI_PACKAGE, NPM_PACKAGE, DEBIAN_PACKAGE = "six", "is-number", "hostname"
LOCAL_AUTHORITIES = Path("/usr/local/share/ca-certificates")
"""Where Debian keeps what the machine trusts besides the public roots."""
PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True)
class Registries:
    """Where the machine's own tools get packages from."""

    pypi: str
    npm: str
    debian: str
    origins: frozenset[tuple[str, int]]
    """Name and port of the three, and of where the first keeps its files."""

    def settings(self):
        """What a stack has to say so that they can be reached."""
        resolved = (socket.getaddrinfo(*origin, socket.AF_INET, 1) for origin in self.origins)
        addresses = {IPv4Address(entry[4][0]) for entries in resolved for entry in entries}
        return {
            "allow": [{"host": name, "ports": [port]} for name, port in sorted(self.origins)],
            "allow_private_cidrs": sorted(f"{a}/32" for a in addresses if not is_public(a)),
            "trusted_cas": [path.read_text() for path in sorted(LOCAL_AUTHORITIES.glob("*.crt"))],
        }


@pytest.fixture(scope="module")
def registries(tmp_path_factory):
    """The tools themselves say where they look."""
    said = host.run(
        [
            *(sys.executable, "-m", "pip", "download", "-vvv", "--no-deps", "--no-cache-dir"),
            *("--dest", str(tmp_path_factory.mktemp("pypi")), PYPI_PACKAGE),
        ],
        env={**os.environ, "PIP_FIND_LINKS": ""},
        timeout_s=120,
    ).stdout
    index = re.search(rf"^\* (\S+)/{PYPI_PACKAGE}/", said, re.MULTILINE)
    assert index, said[:1000]
    npm = npm_registry()
    debian = next(source.uri for source in debian_sources() if source.suite == SUITE)
    urls = map(urlsplit, {*re.findall(r"https?://[^/\s)]+", said), npm, debian})
    origins = frozenset((u.hostname, u.port or PORTS[u.scheme]) for u in urls if u.hostname)
    return Registries(index[1], npm, debian, origins)


@pytest.fixture(scope="module")
def agent(registries, project):
    """Runs a script in a sandbox that may reach them."""
    run = cables.register()
    stack = Stack(project, run.stack("r"))
    try:
        stack.configure(registries.settings())
        stack.up()
        container = stack.outputs()["agent_container"]

        def execute(script):
            lines = f"set -eu\ncd $(mktemp -d)\n{script}"
            command = ["docker", "exec", container, "bash", "-c", lines]
            return host.run(command, check=False, timeout_s=240)

        yield execute
    finally:
        stack.remove()
        cables.unregister(run)


def test_tool_8_pip_installs_from_the_machines_index(agent, registries):
    """TOOL-8: a wheel, from an index and a host of files."""
    done = agent(
        f"pip install -q --no-cache-dir --target lib --index-url {registries.pypi} {PYPI_PACKAGE}\n"
        f"PYTHONPATH=lib python3 -c 'import {PYPI_PACKAGE} as found; print(found.__file__)'\n"
    )
    assert done.code == 0, done.stdout + done.stderr
    assert f"/lib/{PYPI_PACKAGE}.py" in done.stdout


def test_tool_8_npm_installs_from_the_machines_registry(agent, registries):
    """TOOL-8: a module that a script then uses."""
    done = agent(
        f"npm install --silent --registry {registries.npm} {NPM_PACKAGE}\n"
        f"node -e \"console.log(require('{NPM_PACKAGE}')('42'))\"\n"
    )
    assert done.code == 0, done.stdout + done.stderr
    assert done.stdout.endswith("true\n")


def test_tool_8_apt_downloads_from_the_machines_archive(agent, registries):
    """TOOL-8: a package from an archive whose signature apt checks."""
    done = agent(
        f'echo "deb {registries.debian} {SUITE} main" > list\n'
        "mkdir -p state/lists/partial cache/archives/partial\n"
        "set -- -o Dir::State=$PWD/state -o Dir::Cache=$PWD/cache -o Dir::Etc::SourceList=$PWD/list"
        " -o Dir::Etc::SourceParts=/dev/null -o Dir::State::status=/var/lib/dpkg/status\n"
        'apt-get -q "$@" update\n'
        f'apt-get -q "$@" download {DEBIAN_PACKAGE}\n'
        f"dpkg-deb -x {DEBIAN_PACKAGE}_*.deb tree\n"
        f"tree/bin/{DEBIAN_PACKAGE}\n"
    )
    assert done.code == 0, done.stdout + done.stderr
