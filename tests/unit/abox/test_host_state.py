"""Where abox keeps what it knows of a host."""

from __future__ import annotations

from pathlib import PurePosixPath

import pytest

from abox.errors import SettingsError
from abox.host_state import (
    STATE_DIR,
    STATE_VARIABLE,
    instance_dir,
    key_log,
    last_heartbeat,
    monitor_socket,
    state_dir,
)

STATE = PurePosixPath("/state")


def test_the_variable_names_another_folder_and_an_empty_one_none():
    """An empty variable counts as unset, as shells leave it."""
    assert str(state_dir({})) == str(state_dir({STATE_VARIABLE: ""})) == STATE_DIR
    assert state_dir({STATE_VARIABLE: "/state"}) == STATE


def test_a_sandbox_has_one_folder_with_its_logs_below():
    """Logs and keys go with the instance directory."""
    assert key_log(STATE, "dev").is_relative_to(instance_dir(STATE, "dev"))
    assert instance_dir(STATE, "dev").is_relative_to(STATE)
    assert monitor_socket(STATE, "dev").parent.parent == instance_dir(STATE, "dev")
    assert last_heartbeat(STATE, "dev").parent == monitor_socket(STATE, "dev").parent


def test_the_longest_name_leaves_room_for_its_socket():
    """The kernel takes 107 bytes for a socket's path."""
    assert len(str(monitor_socket(PurePosixPath(STATE_DIR), "a" * 63))) <= 107


@pytest.mark.parametrize("name", ["..", "a/b", "", "/etc", "dev\n"])
def test_no_name_leads_out_of_the_state(name: str):
    """What isn't a sandbox's name is refused before it becomes a path."""
    with pytest.raises(SettingsError):
        instance_dir(STATE, name)
