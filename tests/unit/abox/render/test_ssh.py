"""ssh's settings: the guest is known, and nothing of the host's own is offered to it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from abox.render.ssh import SshSpec, render_config, render_known_hosts

SPEC = SshSpec(
    address="10.10.3.10",
    user="agent",
    key_file="/var/lib/abox/ssh/dev/id_ed25519",
    known_hosts_file="/var/lib/abox/ssh/dev/known_hosts",
)
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAICsAt85wr/S/UDZ0zhBbUsEKHd6ktRgfwl19ArCvVklb"


def lines(spec: SshSpec = SPEC) -> list[str]:
    return [line.strip() for line in render_config(spec).splitlines()]


@pytest.mark.parametrize(
    "line",
    [
        "StrictHostKeyChecking yes",
        "UpdateHostKeys no",
        "GlobalKnownHostsFile none",
        "ForwardAgent no",
        "ForwardX11 no",
        "IdentitiesOnly yes",
        "IdentityAgent none",
        "PasswordAuthentication no",
        "PermitLocalCommand no",
        "BatchMode yes",
        "HostName 10.10.3.10",
        "User agent",
    ],
)
def test_nothing_is_trusted_and_nothing_is_offered(line: str) -> None:
    assert line in lines()


def test_the_one_known_host_is_the_stacks() -> None:
    assert render_known_hosts("guest", KEY) == f"guest {KEY}\n"


@pytest.mark.parametrize("key", ["", "ssh-rsa AAAA", KEY + "\nevil " + KEY, f"* {KEY}", KEY[:-1]])
def test_what_is_no_key_is_known_as_nobody(key: str) -> None:
    with pytest.raises(ValueError, match="ed25519"):
        render_known_hosts("guest", key)


@given(
    st.sampled_from(["address", "user", "key_file", "known_hosts_file"]),
    st.text(alphabet="/ab\"'\n\r %\0{}", max_size=16),
)
def test_no_value_adds_a_setting(field: str, value: str) -> None:
    change: dict[str, Any] = {field: value}
    try:
        spec = replace(SPEC, **change)
    except ValueError:
        return
    assert [line.split()[0] for line in lines(spec)] == [line.split()[0] for line in lines()]
