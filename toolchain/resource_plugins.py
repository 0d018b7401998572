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
        cli: plugins are downloaded only with the official CLI: where that had to be built,
            nothing but package registries is asked.
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
    target = checkout.pulumi_home / "plugins" / f"resource-{name}-v{version}"
    manifest = MANIFEST.format(virtualenv=json.dumps(str(checkout.venv)))
    sources = checkout.toolchain / "plugins"
    digests = {
        "official": f"official {version}",
        "stand-in": stamps.content_hash([sources, *_shared(checkout)], manifest, version, name),
    }
    for kind, digest in digests.items():
        if target.is_dir() and stamps.is_current(stamp, digest):
            return kind
    stamps.forget(stamp)
    kind = "official"
    if _copy_users_own(name, target):
        step.say(f"took plugin {name} {version} from ~/.pulumi")
    elif not (cli.official and _download(name, version, cli, environment, step)):
        kind = "stand-in"
        _require_stand_in(name, checkout)
        _install_stand_in(name, checkout, manifest, target)
        step.say(f"installed the stand-in for plugin {name} {version}")
    stamps.record(stamp, digests[kind])
    return kind


def _shared(checkout: Checkout) -> list[Path]:
    """Modules of the library that stand-ins use; they import nothing else of it."""
    library = checkout.toolchain.parent / "abox"
    return [library / "__init__.py", library / "filter_race.py"]


def _require_stand_in(name: str, checkout: Checkout) -> None:
    """Refuse a plugin that has no stand-in."""
    program = checkout.toolchain / "plugins" / name / "__main__.py"
    if not program.is_file():
        raise HostError(
            what=f"plugin {name} can't be installed",
            why=f"it can't be downloaded, and {program} doesn't exist",
            remedy="restore the file from the repository",
        )


def _copy_users_own(name: str, target: Path) -> bool:
    """Take an official plugin that the user has for other projects; whether there is one."""
    source = Path.home() / ".pulumi" / "plugins" / target.name
    if not (source / f"pulumi-resource-{name}").is_file():
        return False
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".abox-", dir=target.parent) as temporary:
        shutil.copytree(source, Path(temporary) / "new")
        _replace(target, Path(temporary))
    return True


def _replace(target: Path, temporary: Path) -> None:
    """Move the folder `new` to its place; what was there goes with the temporary folder."""
    if target.exists():
        target.rename(temporary / "old")
    (temporary / "new").rename(target)


def _download(name: str, version: str, cli: Cli, environment: dict[str, str], step: Step) -> bool:
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


def _install_stand_in(name: str, checkout: Checkout, manifest: str, target: Path) -> None:
    """Put a stand-in where Pulumi looks for the plugin, in one move.

    `pulumi plugin install --file` would do the same, and besides let an official language host
    upgrade pip in the checkout's environment. What the stand-in imports goes along under the
    names that it has in the checkout.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".abox-", dir=target.parent) as temporary:
        folder = Path(temporary) / "new"
        sources = checkout.toolchain / "plugins"
        package = folder / checkout.toolchain.name
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(sources, package / sources.name, ignore=ignored)
        shutil.copyfile(checkout.toolchain / "__init__.py", package / "__init__.py")
        shutil.copyfile(sources / name / "__main__.py", folder / "__main__.py")
        for module in _shared(checkout):
            (folder / module.parent.name).mkdir(exist_ok=True)
            shutil.copyfile(module, folder / module.parent.name / module.name)
        (folder / "PulumiPlugin.yaml").write_text(manifest)
        _replace(target, Path(temporary))
