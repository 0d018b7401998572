"""The variables with which plain Pulumi works."""

from __future__ import annotations

import json
import os
import stat
import sys
from pathlib import Path

import pytest

from tests import host
from toolchain import environment
from toolchain.layout import Checkout, this_checkout


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    """A checkout in a folder whose name needs quoting."""
    root = tmp_path / "it's a $HOME `x`"
    root.mkdir()
    return Checkout(root)


def choose(checkout: Checkout, **kinds: str) -> None:
    """Write down which plugins a checkout uses."""
    checkout.state.mkdir(exist_ok=True)
    (checkout.state / "toolchain.json").write_text(json.dumps({"plugins": kinds}))


def test_only_export_lines_that_a_shell_reads_back(checkout: Checkout) -> None:
    """`eval` gives exactly the variables, whatever the folder is called."""
    inherited = {"PATH": "/usr/bin:/bin"}
    lines = environment.export_lines(checkout, inherited)
    assert all(line.startswith("export ") for line in lines.splitlines())
    wanted = environment.variables(checkout, inherited)
    names = " ".join(wanted)
    shown = host.run(
        [
            "bash",
            "-c",
            f'eval "$1"; for n in {names}; do printf "%s\\0" "$n=${{!n}}"; done',
            "-",
            lines,
        ],
        env={},
    ).stdout
    assert dict(entry.split("=", 1) for entry in shown.split("\0") if entry) == wanted


def test_names_of_the_contract(checkout: Checkout) -> None:
    """Home, backend and passphrase lie in the checkout; our commands come first."""
    got = environment.variables(checkout, {"PATH": "/usr/bin"})
    state = checkout.root / ".abox"
    assert got == {
        "PATH": f"{state}/bin:/usr/bin",
        "PULUMI_HOME": f"{state}/pulumi",
        "PULUMI_BACKEND_URL": f"file://{state}/state?metadata=skip",
        "PULUMI_CONFIG_PASSPHRASE_FILE": f"{state}/passphrase",
        "PULUMI_SKIP_UPDATE_CHECK": "true",
        "ABOX_ROOT": str(checkout.root),
        "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
    }


def test_twice_is_once(checkout: Checkout) -> None:
    """A second `eval` in the same shell doesn't lengthen PATH."""
    once = environment.variables(checkout, {"PATH": "/usr/bin"})
    assert environment.variables(checkout, once) == once


def test_printing_makes_nothing(checkout: Checkout) -> None:
    """The variables of an untouched checkout leave it untouched."""
    environment.export_lines(checkout, {"PATH": "/usr/bin"})
    assert list(checkout.root.iterdir()) == []


def test_variables_that_would_win_are_unset(checkout: Checkout) -> None:
    """A passphrase or Python of the user's shell doesn't beat the checkout's."""
    inherited = {"PATH": "/bin", "PULUMI_CONFIG_PASSPHRASE": "", "PULUMI_PYTHON_CMD": "python2"}
    lines = environment.export_lines(checkout, inherited).splitlines()
    assert lines[:2] == ["unset PULUMI_CONFIG_PASSPHRASE", "unset PULUMI_PYTHON_CMD"]
    process = environment.process_environment(checkout, inherited)
    assert not set(process) & set(environment.REFUSED)


@pytest.mark.parametrize(
    ("kinds", "disabled"),
    [
        ({"docker": "official", "command": "official"}, False),
        ({"docker": "official", "command": "stand-in"}, True),
        ({"docker": "stand-in", "command": "stand-in"}, True),
    ],
)
def test_downloads_are_off_only_with_stand_ins(
    checkout: Checkout, kinds: dict[str, str], disabled: bool
) -> None:
    """The CLI may fetch plugins only where all of ours are official."""
    choose(checkout, **kinds)
    inherited = {"PATH": "/bin", environment.NO_DOWNLOADS: "true"}
    assert (environment.NO_DOWNLOADS in environment.variables(checkout, inherited)) is disabled
    process = environment.process_environment(checkout, inherited)
    assert (environment.NO_DOWNLOADS in process) is disabled


def test_passphrase_is_made_once_for_its_owner_alone(checkout: Checkout) -> None:
    """A random passphrase, readable by its owner only, that a second run keeps."""
    environment.prepare(checkout)
    first = checkout.passphrase.read_text()
    assert stat.S_IMODE(checkout.passphrase.stat().st_mode) == 0o600
    assert len(first.strip()) >= 40
    environment.prepare(checkout)
    assert checkout.passphrase.read_text() == first
    assert sorted(path.name for path in checkout.state.iterdir()) == [
        "bin",
        "passphrase",
        "pulumi",
        "state",
    ]


def test_make_env_is_fast_and_clean() -> None:
    """`make -s env` takes less than a second (of the processor) and prints only shell lines."""
    before = os.times()
    done = host.run(["make", "-s", "env", f"PYTHON={sys.executable}"], cwd=this_checkout().root)
    after = os.times()
    took_s = sum(after[2:4]) - sum(before[2:4])  # of children: a busy machine doesn't count
    lines = done.stdout.splitlines()
    allowed = {f"unset {name}" for name in environment.REFUSED if name in os.environ}
    assert [line for line in lines if not line.startswith("export ")] == sorted(allowed)
    assert f"export PULUMI_HOME={this_checkout().pulumi_home}" in lines
    assert done.stderr == ""
    assert took_s < 1.0
