"""Resource plugins: the official ones if they can be had, else the stand-ins of this repository."""

import json
import shutil
import tempfile
from pathlib import Path

from abox.errors import HostError
from toolchain import shell, stamps
from toolchain.layout import PLUGINS, Checkout
from toolchain.locks import exclusive
from toolchain.progress import Step
from toolchain.pulumi_cli import Cli

DOWNLOAD_TIMEOUT_S = 90
"""Seconds that an official plugin's download may take before the stand-in is used."""

MANIFEST = """\
runtime:
  name: python
  options:
    toolchain: pip
    virtualenv: {virtualenv}
"""
"""PulumiPlugin.yaml of an installed stand-in. The path is absolute: the folder is copied away."""


def install(checkout: Checkout, cli: Cli, environment: dict[str, str], step: Step) -> None:
    """Install each plugin that isn't there in the wanted version and kind.

    Args:
        checkout: where they are installed.
        cli: official plugins are tried only with the official CLI, which has their language host.
        environment: variables for the CLI.
        step: told how far it is.

    Raises:
        HostError: neither an official plugin nor its stand-in can be installed.
    """
    with exclusive(checkout.state / "plugins.lock", lambda: step.say("waiting for another run")):
        kinds = {name: _install(name, checkout, cli, environment, step) for name in PLUGINS}
    choice = {"official_cli": cli.official, "pulumi": str(cli.path), "plugins": kinds}
    choice_file(checkout).write_text(json.dumps(choice, indent=2) + "\n")
    named = ", ".join(f"{name} {checkout.plugin_version(name)} ({kinds[name]})" for name in kinds)
    step.done(named)


def choice_file(checkout: Checkout) -> Path:
    """Record of which CLI and plugins the checkout uses."""
    return checkout.state / "toolchain.json"


def _install(
    name: str, checkout: Checkout, cli: Cli, environment: dict[str, str], step: Step
) -> str:
    """Install one plugin; `official` or `stand-in`."""
    version = checkout.plugin_version(name)
    stamp = checkout.stamps / f"plugin-{name}"
    installed = checkout.pulumi_home / "plugins" / f"resource-{name}-v{version}"
    official_digest = f"official {version}"
    if cli.official:
        if installed.is_dir() and stamps.is_current(stamp, official_digest):
            return "official"
        if _install_official(name, version, cli, environment, step):
            stamps.record(stamp, official_digest)
            return "official"
    _require_stand_in(name, checkout)
    sources = checkout.toolchain / "plugins"
    manifest = MANIFEST.format(virtualenv=json.dumps(str(checkout.venv)))
    digest = stamps.content_hash([sources], manifest, version, name)
    if not (installed.is_dir() and stamps.is_current(stamp, digest)):
        step.say(f"installing the stand-in for plugin {name} {version}")
        with tempfile.TemporaryDirectory(prefix="abox-plugin-") as staged:
            _stage(name, checkout, manifest, Path(staged))
            _install_folder(name, version, Path(staged), cli, environment)
        stamps.record(stamp, digest)
    return "stand-in"


def _require_stand_in(name: str, checkout: Checkout) -> None:
    """Refuse a plugin that has no stand-in."""
    program = checkout.toolchain / "plugins" / name / "__main__.py"
    if not program.is_file():
        raise HostError(
            what=f"plugin {name} can't be installed",
            why=f"it can't be downloaded, and {program} doesn't exist",
            remedy="restore the file from the repository",
        )


def _install_official(
    name: str, version: str, cli: Cli, environment: dict[str, str], step: Step
) -> bool:
    """Try to download an official plugin; whether it is there."""
    step.say(f"downloading plugin {name} {version}")
    command = [str(cli.path), "plugin", "install", "resource", name, version]
    downloading = {
        key: value
        for key, value in environment.items()
        if key != "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION"
    }
    try:
        finished = shell.run(command, environment=downloading, timeout_s=DOWNLOAD_TIMEOUT_S)
    except HostError as error:
        step.say(f"{error.what}; taking the stand-in")
        return False
    if finished.code != 0:
        step.say(f"plugin {name} can't be downloaded; taking the stand-in")
    return finished.code == 0


def _stage(name: str, checkout: Checkout, manifest: str, folder: Path) -> None:
    """Fill a folder with a stand-in as it is installed.

    Pulumi copies it away, so all that it imports goes along under the names that it has in the
    checkout, and the path of the virtual environment is written in.
    """
    sources = checkout.toolchain / "plugins"
    package = folder / checkout.toolchain.name
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(sources, package / sources.name, ignore=ignored)
    shutil.copyfile(checkout.toolchain / "__init__.py", package / "__init__.py")
    shutil.copyfile(sources / name / "__main__.py", folder / "__main__.py")
    (folder / "PulumiPlugin.yaml").write_text(manifest)


def _install_folder(
    name: str, version: str, folder: Path, cli: Cli, environment: dict[str, str]
) -> None:
    """Install a folder as a plugin, in the place of one that is there."""
    command = [str(cli.path), "plugin", "install", "resource", name, version, "--reinstall"]
    shell.require(
        shell.run([*command, "--file", str(folder)], environment=environment, timeout_s=120),
        what=f"the stand-in for plugin {name} {version} can't be installed",
        remedy="run `make clean`, then `make up`; if it happens again, report the message",
    )
