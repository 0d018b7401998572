"""Stacks: known names, salts, locks of killed commands, causes first."""

from __future__ import annotations

import io
import json
import os
import socket
from pathlib import Path

import pytest

from abox.errors import AboxError, HostError, SettingsError
from toolchain import pulumi_cli, stack
from toolchain.layout import Checkout
from toolchain.progress import Step
from toolchain.stack import Stacks, causes, is_stale_lock

CONFIG = "# kept\nconfig:\n  abox:sandbox:\n    mode: active\n"
SALT = "encryptionsalt: v1:abc=:v1:def:ghi==\n"

FAKE_CLI = """\
#!/bin/sh
echo "$*" >> "$PULUMI_HOME/calls"
case "$1 $2" in
"stack ls") cat "$PULUMI_HOME/stacks" ;;
"up -s") echo "error: the cause"; echo "Traceback"; exit 255 ;;
esac
"""


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Checkout:
    """A checkout with one configured stack and a CLI that records its calls."""
    made = Checkout(tmp_path)
    made.stack_file("mine").parent.mkdir()
    made.stack_file("mine").write_text(CONFIG)
    for folder in (made.bin, made.pulumi_home, made.backend):
        folder.mkdir(parents=True)
    pulumi_cli.write_executable(made.bin / "pulumi", FAKE_CLI)
    monkeypatch.setenv("PATH", f"{made.bin}:/usr/bin:/bin")
    in_backend(made)
    return made


def in_backend(checkout: Checkout, **resources: int) -> None:
    """Let the backend have stacks with so many resources."""
    listed = [{"name": name, "resourceCount": count} for name, count in resources.items()]
    (checkout.pulumi_home / "stacks").write_text(json.dumps(listed))


def calls(checkout: Checkout) -> list[str]:
    """The calls of the CLI so far."""
    log = checkout.pulumi_home / "calls"
    return log.read_text().splitlines() if log.exists() else []


def quiet() -> Step:
    """A step that nobody reads."""
    return Step("up", output=io.StringIO())


@pytest.mark.parametrize("name", ["", "1a", "a b", "../mine", "a" * 64])
def test_malformed_name_is_refused(checkout: Checkout, name: str) -> None:
    """A name that can't be a sandbox's is refused before anything is touched."""
    with pytest.raises(AboxError):
        Stacks(checkout, quiet()).up(name)
    assert calls(checkout) == []


def test_unknown_name_lists_the_known(checkout: Checkout) -> None:
    """A stack without configuration is refused, with the names that there are."""
    with pytest.raises(SettingsError) as refused:
        Stacks(checkout, quiet()).up("other")
    assert "there are: mine" in refused.value.why
    assert calls(checkout) == []


def test_failed_up_ends_with_the_cause(checkout: Checkout) -> None:
    """The exit code is Pulumi's, and the cause stands last, without the traceback."""
    in_backend(checkout, mine=0)
    output = io.StringIO()
    assert Stacks(checkout, Step("up", output=output)).up("mine") == 255
    assert output.getvalue().splitlines()[-1].split(maxsplit=1)[1] == "error: the cause"


def test_new_stack_is_made_and_a_foreign_salt_removed(checkout: Checkout) -> None:
    """A salt of another checkout's passphrase would only say "incorrect passphrase"."""
    checkout.stack_file("mine").write_text(SALT + CONFIG)
    Stacks(checkout, quiet()).up("mine")
    assert checkout.stack_file("mine").read_text() == CONFIG
    assert any(call.startswith("stack init mine") for call in calls(checkout))


def test_known_stack_keeps_its_salt(checkout: Checkout) -> None:
    """The salt of a stack that the backend has is the right one."""
    in_backend(checkout, mine=3)
    checkout.stack_file("mine").write_text(SALT + CONFIG)
    Stacks(checkout, quiet()).up("mine")
    assert checkout.stack_file("mine").read_text() == SALT + CONFIG
    assert not any("init" in call for call in calls(checkout))


def test_secrets_of_another_passphrase_are_not_thrown_away(checkout: Checkout) -> None:
    """With secrets in the file the salt stays, and the user decides."""
    text = SALT + CONFIG + "  abox:secrets:\n    key:\n      secure: v1:x\n"
    checkout.stack_file("mine").write_text(text)
    with pytest.raises(SettingsError, match="encrypted elsewhere"):
        Stacks(checkout, quiet()).up("mine")
    assert checkout.stack_file("mine").read_text() == text


def test_down_removes_resources_stack_and_salt(checkout: Checkout) -> None:
    """After `down` the stack is gone and its configuration as it was."""
    in_backend(checkout, mine=3)
    checkout.stack_file("mine").write_text(CONFIG + SALT)
    assert Stacks(checkout, quiet()).down("mine") == 0
    made = [call.split(" --")[0] for call in calls(checkout)]
    assert made == ["stack ls", "destroy -s mine", "stack rm mine"]
    assert "--preserve-config" in calls(checkout)[-1]
    assert checkout.stack_file("mine").read_text() == CONFIG


def test_down_twice_is_fine(checkout: Checkout) -> None:
    """What doesn't exist is nothing to take away."""
    assert Stacks(checkout, quiet()).down("mine") == 0
    assert not any("destroy" in call for call in calls(checkout))


@pytest.mark.parametrize(
    ("output", "wanted"),
    [
        (
            ["    error: Program failed", "error: update failed", "    error: Program failed"],
            ["error: Program failed"],
        ),
        (["error: update failed"], ["error: update failed"]),
        (["warning: x"], ["no reason given; see above"]),
    ],
)
def test_causes(output: list[str], wanted: list[str]) -> None:
    """Each cause once; the general line only if there is no other."""
    assert causes(output) == wanted


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("@ updating....", False),
        ("", False),
        (" ~  docker:index:Container a-b refreshing (0s) ", False),
        (" ~  docker:index:Container a-b refresh (0.02s) ", False),
        ("    docker:index:Container a-b  ", False),
        (" ~  docker:index:Container a-b updating (0s) [diff: +env]", True),
        (" +  docker:index:Container refreshing creating (0s) ", True),
        ("    abox:index:FirewallTable a error: nft failed", True),
        ("    45 unchanged", True),
        ("error: update failed", True),
    ],
)
def test_what_changes_and_what_fails_is_shown(line: str, shown: bool) -> None:
    """Reads, dots and untouched resources are left out, nothing else."""
    assert (stack.NOISE.match(line) is None) is shown


@pytest.mark.parametrize(
    ("lock", "stale"),
    [
        ({"hostname": socket.gethostname(), "pid": 999999999}, True),
        ({"hostname": socket.gethostname(), "pid": os.getpid()}, True),  # no pulumi
        ({"hostname": "elsewhere", "pid": 999999999}, False),
        ({"pid": 1}, False),
    ],
)
def test_lock_of_a_killed_command_is_stale(
    tmp_path: Path, lock: dict[str, object], stale: bool
) -> None:
    """Only a process of this host that is gone leaves a stale lock."""
    path = tmp_path / "lock.json"
    path.write_text(json.dumps(lock))
    assert is_stale_lock(path) is stale


def test_lock_of_a_running_pulumi_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lock that someone holds is respected."""
    monkeypatch.setattr(stack, "program_of", lambda _: "pulumi")
    path = tmp_path / "lock.json"
    path.write_text(json.dumps({"hostname": socket.gethostname(), "pid": 1}))
    assert not is_stale_lock(path)


def test_clean_refuses_while_something_stands(checkout: Checkout) -> None:
    """The state of what stands on the host isn't removed by accident."""
    in_backend(checkout, mine=3, empty=0)
    with pytest.raises(HostError) as refused:
        stack.clean(checkout, quiet(), force=False)
    assert "make down STACK=mine" in refused.value.remedy
    assert "empty" not in refused.value.what
    assert checkout.state.exists()


def test_forced_clean_destroys_first(checkout: Checkout, tmp_path: Path) -> None:
    """With force what stands is destroyed, then the state removed."""
    in_backend(checkout, mine=3)
    log = tmp_path / "calls"
    text = FAKE_CLI.replace('"$PULUMI_HOME/calls"', f'"{log}"')
    pulumi_cli.write_executable(checkout.bin / "pulumi", text)
    stack.clean(checkout, quiet(), force=True)
    assert not checkout.state.exists()
    assert "destroy -s mine" in log.read_text()


def test_clean_of_nothing_standing_just_removes(checkout: Checkout) -> None:
    """Empty stacks don't keep the state, and a second clean is fine."""
    in_backend(checkout, empty=0)
    stack.clean(checkout, quiet(), force=False)
    assert not checkout.state.exists()
    stack.clean(checkout, quiet(), force=False)
