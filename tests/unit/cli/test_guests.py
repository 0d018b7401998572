"""VMs as the commands reach them: every argument stays one, and nothing of the host's is used."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from abox.errors import AboxError, HostError, SettingsError
from cli import copy, execute
from cli.checkout import Checkout
from cli.guests import Guest, find_guest, guest_of, list_guests


@pytest.fixture
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("ABOX_STATE_DIR", str(tmp_path))
    return tmp_path


def make_guest(state, name="dev"):
    folder = state / "sandboxes" / name / "ssh"
    folder.mkdir(parents=True)
    (folder / "config").write_text("Host guest\n")
    return Guest(name, folder / "config")


def test_a_guest_is_found_by_its_settings(state):
    assert find_guest("dev") is None
    made = make_guest(state)
    assert find_guest("dev") == made
    assert list_guests(["dev", "other"]) == [made]


@pytest.mark.parametrize("name", ["../dev", "a/b", "", "."])
def test_no_name_leaves_the_folder(state, name):
    with pytest.raises(SettingsError):
        find_guest(name)


def test_a_stack_that_wants_a_vm_and_has_none_is_told(state, tmp_path):
    checkout = Checkout(tmp_path)
    (tmp_path / "stacks").mkdir()
    for backend in ("vm", "container"):
        text = f"config:\n  abox:sandbox: {{allow: [a.test], backend: {backend}}}\n"
        (tmp_path / "stacks" / f"Pulumi.{backend}.yaml").write_text(text)
    with pytest.raises(HostError, match="no VM on this host"):
        guest_of(checkout, "vm")
    assert guest_of(checkout, "container") is None
    assert guest_of(checkout, "vm" if make_guest(state, "vm") else "") is not None


@given(st.lists(st.text(st.characters(exclude_characters="\0", codec="utf-8")), min_size=1))
def test_every_argument_reaches_the_guest_as_it_is(words):
    guest = Guest("dev", Path("/config"))
    *_, remote = guest.run(words)
    assert shlex.split(remote)[4:] == words


def test_ssh_uses_the_sandboxs_settings_and_a_terminal_only_if_there_is_one(state):
    guest = make_guest(state)
    assert guest.run(["true"])[:5] == ["ssh", "-F", str(guest.config), "-T", "guest"]
    assert guest.run(["true"], terminal=True)[3] == "-tt"
    assert guest.ssh() == ["ssh", "-F", str(guest.config), "guest"]


# --- copying -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        ("dev:data", ("dev", "/workspace/data")),
        ("dev:/etc/motd", ("dev", "/etc/motd")),
        ("dev:", ("dev", "/workspace/")),
        ("./dev:data", None),
        ("/a:b", None),
        ("data", None),
    ],
)
def test_a_place_in_an_agent_begins_with_its_stack(place, expected):
    assert copy.split_place(place) == expected


@pytest.mark.parametrize(("source", "target"), [("a", "b"), ("dev:a", "dev:b"), ("a", "./x:y")])
def test_exactly_one_place_is_in_an_agent(source, target):
    with pytest.raises(SettingsError, match="one of the two places"):
        copy.copy(source, target)


def test_a_file_on_the_host_is_never_taken_for_another_machine(state, monkeypatch):
    guest = make_guest(state)
    monkeypatch.setattr(copy, "find_agent", lambda _: guest)
    assert copy.copy_command("a:b c", "dev:x")[-2:] == ["./a:b c", "guest:/workspace/x"]
    assert copy.copy_command("dev:x", "a b:y")[-2:] == ["guest:/workspace/x", "./a b:y"]
    assert "--" in copy.copy_command("-r", "dev:x")


def test_only_a_vm_has_ssh(monkeypatch):
    monkeypatch.setattr(execute, "find_agent", lambda _: object())
    with pytest.raises(AboxError, match="has no ssh"):
        execute.open_ssh("dev")
