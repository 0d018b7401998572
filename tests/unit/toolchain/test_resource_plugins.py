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
# plugin install resource NAME VERSION [--reinstall --file DIR]
echo "$*" >> "$PULUMI_HOME/calls"
if [ -z "$8" ]; then
    [ -e "$PULUMI_HOME/online" ] || { echo "error: 403 not found" >&2; exit 1; }
fi
target="$PULUMI_HOME/plugins/resource-$4-v$5"
rm -rf "$target"; mkdir -p "$target"
[ -z "$8" ] || cp -r "$8/." "$target"
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    """A checkout with two stand-ins that share a module."""
    made = Checkout(tmp_path / "clone")
    for name in PLUGINS:
        folder = made.toolchain / "plugins" / name
        folder.mkdir(parents=True)
        (folder / "__main__.py").write_text(f"# {name}\n")
    (made.toolchain / "plugins" / "shared.py").write_text("# shared\n")
    (made.toolchain / "__init__.py").write_text("")
    made.requirements.mkdir()
    (made.requirements / "runtime.txt").write_text(
        "pulumi-docker==5.2.0 \\\npulumi-command==1.2.1\n"
    )
    made.pulumi_home.mkdir(parents=True)
    pulumi_cli.write_executable(made.state / "pulumi-cli", FAKE_CLI)
    return made


def install(checkout: Checkout, *, official: bool = False) -> list[str]:
    """Install both plugins; the calls of the CLI that it took."""
    log = checkout.pulumi_home / "calls"
    log.unlink(missing_ok=True)
    cli = Cli(checkout.state / "pulumi-cli", "3.274.1", official=official)
    variables = {"PULUMI_HOME": str(checkout.pulumi_home), "PATH": "/usr/bin:/bin"}
    resource_plugins.install(checkout, cli, variables, Step("p", output=io.StringIO()))
    return log.read_text().splitlines() if log.exists() else []


def kinds(checkout: Checkout) -> dict[str, str]:
    """The recorded kind of each plugin."""
    choice = json.loads(resource_plugins.choice_file(checkout).read_text())
    got: dict[str, str] = choice["plugins"]
    return got


def test_stand_in_is_installed_with_all_that_it_imports(checkout: Checkout) -> None:
    """The copy holds the program, the shared modules and the checkout's environment."""
    calls = install(checkout)
    assert [call.split()[3:5] for call in calls] == [["docker", "5.2.0"], ["command", "1.2.1"]]
    assert all("--reinstall --file" in call for call in calls)
    folder = checkout.pulumi_home / "plugins" / "resource-docker-v5.2.0"
    assert (folder / "__main__.py").read_text() == "# docker\n"
    assert (folder / "toolchain" / "plugins" / "shared.py").read_text() == "# shared\n"
    assert json.dumps(str(checkout.venv)) in (folder / "PulumiPlugin.yaml").read_text()
    assert kinds(checkout) == {"docker": "stand-in", "command": "stand-in"}


def test_second_run_installs_nothing(checkout: Checkout) -> None:
    """Unchanged stand-ins stay as they are."""
    assert len(install(checkout)) == 2
    assert install(checkout) == []


@pytest.mark.parametrize("path", ["docker/__main__.py", "shared.py"])
def test_changed_source_is_installed_again(checkout: Checkout, path: str) -> None:
    """A change in a stand-in, or in what it imports, reaches the installed copy."""
    install(checkout)
    (checkout.toolchain / "plugins" / path).write_text("# changed\n")
    assert any(" docker " in call for call in install(checkout))


def test_removed_copy_is_installed_again(checkout: Checkout) -> None:
    """A copy that was taken away comes back."""
    install(checkout)
    folder = checkout.pulumi_home / "plugins" / "resource-command-v1.2.1"
    folder.rename(checkout.state / "taken")
    assert [call.split()[3] for call in install(checkout)] == ["command"]


def test_official_plugins_are_preferred(checkout: Checkout) -> None:
    """With the official CLI and a reachable download, no stand-in is installed."""
    (checkout.pulumi_home / "online").touch()
    calls = install(checkout, official=True)
    assert len(calls) == 2
    assert not any("--file" in call for call in calls)
    assert kinds(checkout) == {"docker": "official", "command": "official"}
    assert install(checkout, official=True) == []


def test_failed_download_falls_back(checkout: Checkout) -> None:
    """Where a plugin can't be downloaded, its stand-in is installed."""
    calls = install(checkout, official=True)
    assert ["--file" in call for call in calls] == [False, True, False, True]
    assert kinds(checkout) == {"docker": "stand-in", "command": "stand-in"}


def test_download_that_hangs_falls_back(
    checkout: Checkout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A download has an end."""
    monkeypatch.setattr(resource_plugins, "DOWNLOAD_TIMEOUT_S", 0.3)
    hanging = FAKE_CLI.replace("[ -e ", "sleep 30 <&- >&- 2>&-; [ -e ")
    pulumi_cli.write_executable(checkout.state / "pulumi-cli", hanging)
    install(checkout, official=True)
    assert kinds(checkout) == {"docker": "stand-in", "command": "stand-in"}


def test_own_cli_never_tries_a_download(checkout: Checkout) -> None:
    """The built CLI has no language host for official plugins' downloads to matter."""
    (checkout.pulumi_home / "online").touch()
    assert all("--file" in call for call in install(checkout))


def test_plugin_without_stand_in_is_named(checkout: Checkout) -> None:
    """A plugin that can be had in neither way is an error."""
    (checkout.toolchain / "plugins" / "command" / "__main__.py").unlink()
    with pytest.raises(HostError, match="plugin command can't be installed"):
        install(checkout)
