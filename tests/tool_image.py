"""The agent image with many more tools, as an agent's user could have installed them: for tests.

Debian's tools come from the archives that this machine's apt is set up with, the others from its
registries of Python and npm packages, locked by hash. The engine keeps each step under a tag that
names all it is made of, so nothing is built twice.
"""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from images.apt import debian_sources, transport_options
from images.lock import read_lock
from images.wheels import install_wheels
from tests import host

LOCK = Path("/run/abxt-tools.lock")
REPOSITORY = "abxt/tools"
NPM_FILES = tuple(host.ROOT / "tests/tools" / f"package{part}.json" for part in ("", "-lock"))
"""What npm installs."""
REQUIREMENTS = host.ROOT / "requirements/tool-tests.txt"
"""What pip installs."""

FOLDER = "/opt/abxt"
PYTHON_FOLDER = f"{FOLDER}/python"
NODE_MODULES = f"{FOLDER}/node_modules"

PACKAGES = (
    "cargo-web",  # the recent one of Debian's two: the other knows no sparse registry
    "chromium",
    "composer",
    "gh",
    "golang-go",
    "gradle",
    "libwww-perl",
    "maven",
    "mercurial",
    "openjdk-17-jdk-headless",
    "php-cli",
    "php-curl",
    "ruby",
    "skopeo",
)

STEP_S = 1500
"""Limit of one step, on a machine that is busy."""

ROOTS = "/etc/ssl/certs/ca-certificates.crt"
"""What this machine trusts; a copy stands beside a step's other inputs."""

_DEBIAN = f"""\
export DEBIAN_FRONTEND=noninteractive
cp /in/apt.list /etc/apt/sources.list.d/abxt.list
cp /in/apt.conf /etc/apt/apt.conf.d/99abxt
apt-get -q update
apt-get -q -y install --no-install-recommends {" ".join(PACKAGES)}
rm -rf /var/lib/apt/lists/* /var/cache/apt
rm -f /etc/apt/sources.list.d/abxt.list /etc/apt/apt.conf.d/99abxt
"""

_REGISTRIES = f"""\
cp -r /in/python /in/package.json /in/package-lock.json {FOLDER}
cd {FOLDER}
NODE_EXTRA_CA_CERTS=/in/roots.pem HOME=/tmp npm ci --ignore-scripts --no-audit --no-fund
"""

_APT_OPTIONS = (
    'Acquire::https::CaInfo "/in/roots.pem"',
    'DPkg::Options:: "--force-unsafe-io"',
    'DPkg::Options:: "--path-exclude=/usr/share/doc/*"',
)


def tool_image() -> str:
    """Id of the image; it is built if the engine doesn't have it."""
    locked = [path.read_text() for path in (*NPM_FILES, REQUIREMENTS)]
    agent = read_lock()["agent"].id
    with LOCK.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        # An image with children and no tag is hidden from those who look for it by its id.
        tags = [f"{REPOSITORY}:agent-{agent[7:23]}"]
        host.run(["docker", "tag", agent, tags[0]])
        for script, made_of in ((_DEBIAN, []), (_REGISTRIES, locked)):
            tags.append(_step(_identity(tags[-1]), script, made_of))
        _forget_others(tags)
        return _identity(tags[-1])


def _step(base: str, script: str, made_of: Sequence[str]) -> str:
    """Tag of what a script, run as root on a base image, leaves."""
    digest = hashlib.sha256(repr((base, script, *made_of)).encode()).hexdigest()[:16]
    tag = f"{REPOSITORY}:{digest}"
    if not _identity(tag):
        _build(base, script, tag, name=f"abxt-{digest}")
    return tag


def _forget_others(tags: Sequence[str]) -> None:
    """Remove what was built for earlier agents, unless a container runs from it."""
    listed = host.run(["docker", "image", "ls", "--format", "{{.Repository}}:{{.Tag}}", REPOSITORY])
    for tag in set(listed.stdout.split()) - set(tags):
        host.run(["docker", "image", "rm", tag], check=False)


def _identity(tag: str) -> str:
    """Id of the image of that tag, empty if there is none."""
    return host.run(["docker", "image", "ls", "-q", "--no-trunc", tag]).stdout.strip()


def _build(base: str, script: str, tag: str, *, name: str) -> None:
    """Run a script in a container on the host's network, and keep what it leaves."""
    with tempfile.TemporaryDirectory(prefix="abxt-tools-") as folder:
        _lay_inputs(Path(folder))
        host.run(["docker", "rm", "-f", name], check=False)  # of a run that was killed
        try:
            host.run(
                [
                    *("docker", "run", "--name", name, "--user", "0:0", "--network", "host"),
                    *("--volume", f"{folder}:/in:ro", "--tmpfs", "/tmp:exec"),  # noqa: S108  # its own
                    *("--env", f"NPM_CONFIG_REGISTRY={npm_registry()}"),
                    *(base, "sh", "-c", f"set -eu\nmkdir -p {FOLDER}\n{script}"),
                ],
                timeout_s=STEP_S,
            )
            user = host.run(["docker", "inspect", "-f", "{{.Config.User}}", base]).stdout.strip()
            host.run(["docker", "commit", "--change", f"USER {user}", name, tag], timeout_s=300)
        finally:
            host.run(["docker", "rm", "-f", name], check=False)


def _lay_inputs(folder: Path) -> None:
    """Everything that steps look for in /in."""
    shutil.copy(ROOTS, folder / "roots.pem")
    (folder / "apt.list").write_text("".join(f"{s.line()}\n" for s in debian_sources()))
    options = (*_APT_OPTIONS, *transport_options())
    (folder / "apt.conf").write_text("".join(f"{option};\n" for option in options))
    for path in NPM_FILES:
        shutil.copy(path, folder)
    (folder / "python").mkdir()
    install_wheels(folder / "python", REQUIREMENTS)


def npm_registry() -> str:
    """The registry that this machine's npm is set up with; npm's own default without one."""
    image = read_lock()["agent"].id
    where = () if shutil.which("npm") else ("docker", "run", "--rm", "--network", "none", image)
    return host.run([*where, "npm", "config", "get", "registry"]).stdout.strip()


if __name__ == "__main__":
    sys.stdout.write(tool_image() + "\n")
