"""Official plugins where they can be had, stand-ins else; installed again when they change."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from abox.errors import HostError
from toolchain import pulumi_cli, resource_plugins
from toolchain.layout import PLUGINS, Checkout
from toolchain.progress import Step
from toolchain.pulumi_cli import Cli

FAKE_CLI = """\
#!/bin/sh
# plugin install resource NAME VERSION
echo "$*" >> "$PULUMI_HOME/calls"
[ -e "$PULUMI_HOME/online" ] || { echo "error: 403 not found" >&2; exit 1; }
mkdir -p "$PULUMI_HOME/plugins/resource-$4-v$5"
"""


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Checkout:
    """A checkout with stand-ins that share a module, and a user without plugins."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    made = Checkout(tmp_path / "clone")
    for name in PLUGINS:
        folder = made.toolchain / "plugins" / name
        folder.mkdir(parents=True)
        (folder / "__main__.py").write_text(f"# {name}\n")
    (made.toolchain / "plugins" / "shared.py").write_text("# shared\n")
    for name in ("__init__.py", "filter_race.py"):
        (made.toolchain.parent / "abox").mkdir(exist_ok=True)
        (made.toolchain.parent / "abox" / name).write_text("# of the library\n")
    (made.toolchain / "__init__.py").write_text("")
    made.requirements.mkdir()
    (made.requirements / "runtime.txt").write_text(
        "pulumi-docker==5.2.0 \\\npulumi-command==1.2.1\npulumi-libvirt==0.5.4\n"
    )
    made.pulumi_home.mkdir(parents=True)
    pulumi_cli.write_executable(made.state / "pulumi-cli", FAKE_CLI)
    return made


def install(checkout: Checkout, *, official: bool = False) -> tuple[list[str], str]:
    """Install the plugins; the names that the CLI was asked for, and what the user saw."""
    log = checkout.pulumi_home / "calls"
    log.unlink(missing_ok=True)
    cli = Cli(checkout.state / "pulumi-cli", "3.274.1", official=official)
    variables = {"PULUMI_HOME": str(checkout.pulumi_home), "PATH": "/usr/bin:/bin"}
    output = io.StringIO()
    resource_plugins.install(checkout, cli, variables, Step("p", output=output))
    asked = log.read_text().splitlines() if log.exists() else []
    return [call.removeprefix("plugin install resource ") for call in asked], output.getvalue()


def installed(checkout: Checkout, name: str) -> Path:
    """Where Pulumi looks for a plugin."""
    return checkout.pulumi_home / "plugins" / f"resource-{name}-v{checkout.plugin_version(name)}"


def kinds(checkout: Checkout) -> dict[str, str]:
    """The recorded kind of each plugin."""
    choice = json.loads(resource_plugins.choice_file(checkout).read_text())
    got: dict[str, str] = choice["plugins"]
    return got


STAND_INS = dict.fromkeys(PLUGINS, "stand-in")
OFFICIAL = dict.fromkeys(PLUGINS, "official")


def test_stand_in_is_installed_with_all_that_it_imports(checkout: Checkout) -> None:
    """The copy holds the program, the shared modules and the checkout's environment."""
    install(checkout)
    for name in PLUGINS:
        folder = installed(checkout, name)
        assert (folder / "__main__.py").read_text() == f"# {name}\n"
        assert (folder / "toolchain" / "plugins" / "shared.py").read_text() == "# shared\n"
        assert (folder / "abox" / "filter_race.py").read_text() == "# of the library\n"
        assert json.dumps(str(checkout.venv)) in (folder / "PulumiPlugin.yaml").read_text()
    assert kinds(checkout) == STAND_INS


def test_nothing_but_plugins_is_left(checkout: Checkout) -> None:
    """No half-made copy stays where Pulumi looks for plugins, also after a second installation."""
    install(checkout)
    (checkout.toolchain / "plugins" / "shared.py").write_text("# changed\n")
    install(checkout)
    folders = sorted(path.name for path in (checkout.pulumi_home / "plugins").iterdir())
    assert folders == [
        "resource-command-v1.2.1",
        "resource-docker-v5.2.0",
        "resource-libvirt-v0.5.4",
    ]


def test_second_run_installs_nothing(checkout: Checkout) -> None:
    """Unchanged stand-ins stay as they are."""
    install(checkout)
    before = installed(checkout, "docker").stat().st_ino
    _, seen = install(checkout)
    assert "installed the stand-in" not in seen
    assert installed(checkout, "docker").stat().st_ino == before


@pytest.mark.parametrize("path", ["docker/__main__.py", "shared.py"])
def test_changed_source_is_installed_again(checkout: Checkout, path: str) -> None:
    """A change in a stand-in, or in what it imports, reaches the installed copy."""
    install(checkout)
    (checkout.toolchain / "plugins" / path).write_text("# changed\n")
    install(checkout)
    copy = installed(checkout, "docker")
    changed = copy / "toolchain" / "plugins" / path
    assert changed.read_text() == "# changed\n"
    program = (checkout.toolchain / "plugins" / "docker" / "__main__.py").read_text()
    assert (copy / "__main__.py").read_text() == program


def test_removed_copy_is_installed_again(checkout: Checkout) -> None:
    """A copy that was taken away comes back."""
    install(checkout)
    installed(checkout, "command").rename(checkout.state / "taken")
    install(checkout)
    assert (installed(checkout, "command") / "__main__.py").exists()


def test_official_plugins_are_preferred(checkout: Checkout) -> None:
    """With the official CLI and a reachable download, no stand-in is installed."""
    (checkout.pulumi_home / "online").touch()
    asked, _ = install(checkout, official=True)
    assert asked == ["docker 5.2.0", "command 1.2.1", "libvirt 0.5.4"]
    assert kinds(checkout) == OFFICIAL
    assert install(checkout, official=True)[0] == []


def test_failed_download_falls_back_and_is_remembered(checkout: Checkout) -> None:
    """A plugin that can't be downloaded is replaced by its stand-in; a second run doesn't wait."""
    asked, seen = install(checkout, official=True)
    assert asked == ["docker 5.2.0", "command 1.2.1", "libvirt 0.5.4"]
    assert "plugin docker can't be downloaded; taking the stand-in" in seen
    assert kinds(checkout) == STAND_INS
    assert install(checkout, official=True)[0] == []


def test_download_that_hangs_falls_back(
    checkout: Checkout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A download has an end."""
    monkeypatch.setattr(resource_plugins, "DOWNLOAD_TIMEOUT_S", 0.3)
    hanging = FAKE_CLI.replace("[ -e ", "sleep 30 <&- >&- 2>&-; [ -e ")
    pulumi_cli.write_executable(checkout.state / "pulumi-cli", hanging)
    _, seen = install(checkout, official=True)
    assert "did not end within 0.3 s" in seen
    assert kinds(checkout) == STAND_INS


def test_own_cli_never_tries_a_download(checkout: Checkout) -> None:
    """Where the CLI had to be built, nothing but package registries is asked."""
    (checkout.pulumi_home / "online").touch()
    assert install(checkout)[0] == []
    assert kinds(checkout) == STAND_INS


def test_users_own_plugin_is_taken(checkout: Checkout) -> None:
    """An official plugin that the user has for other projects is used, with any CLI."""
    own = Path.home() / ".pulumi" / "plugins" / "resource-docker-v5.2.0"
    own.mkdir(parents=True)
    (own / "pulumi-resource-docker").write_text("binary")
    install(checkout)
    assert kinds(checkout) == {**STAND_INS, "docker": "official"}
    assert (installed(checkout, "docker") / "pulumi-resource-docker").read_text() == "binary"


def test_plugin_without_stand_in_is_named(checkout: Checkout) -> None:
    """A plugin that can be had in neither way is an error."""
    (checkout.toolchain / "plugins" / "command" / "__main__.py").unlink()
    with pytest.raises(HostError, match="plugin command can't be installed"):
        install(checkout)
