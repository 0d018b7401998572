"""The guest's first script: it says what the documents say, and no value becomes a command."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from abox.render.boot_script import DONE, HOST_KEY, render_boot_script
from abox.render.cloud_init import (
    GuestFile,
    GuestSpec,
    instance_id,
    render_java_store,
    sensor_files,
    system_files,
    trust_sources,
)
from abox.render.heartbeat import UNIT
from tests.unit.abox.render.test_cloud_init import SPEC

OTHER_CA = SPEC.ca_certificate.replace("YWJj", "ZGVm")


def words(spec: GuestSpec) -> list[str]:
    """The script as a shell splits it, without its quotes."""
    return shlex.split(render_boot_script(spec))


def written(spec: GuestSpec) -> dict[str, str]:
    """Path → content of each `printf %s CONTENT > PATH`."""
    split = words(spec)
    return {
        split[at + 4].rstrip(")"): split[at + 2]
        for at in range(len(split) - 4)
        if split[at : at + 2] == ["printf", "%s"] and split[at + 3] == ">"
    }


def test_it_writes_the_files_of_the_documents() -> None:
    told = replace(SPEC, trusted_cas=(OTHER_CA,))
    files = written(told)
    for file in (*system_files(told), *trust_sources(told)):
        assert files[file.path] == file.content
    assert files[HOST_KEY] == SPEC.host_key
    assert files["/etc/hostname"] == "my-project\n"
    assert files["$home/.ssh/authorized_keys"] == "".join(f"{k}\n" for k in SPEC.authorized_keys)
    assert files["/etc/sudoers.d/50-abox"] == "agent ALL=(ALL) NOPASSWD:ALL\n"


def test_the_private_key_is_written_for_its_owner_alone() -> None:
    lines = render_boot_script(SPEC).splitlines()
    (begin,) = [number for number, line in enumerate(lines) if "BEGIN OPENSSH" in line]
    assert lines[begin].startswith("(umask 077; printf %s ")


def test_its_address_is_static_and_there_is_no_route() -> None:
    (commands,) = [word for word in words(SPEC) if word.startswith("link set")]
    assert commands == "link set eth0 up\naddress replace 10.10.3.10/24 dev eth0\n"
    assert "route" not in render_boot_script(SPEC)


def test_authorities_are_trusted_in_every_form() -> None:
    told = replace(SPEC, trusted_cas=(OTHER_CA,))
    script = render_boot_script(told)
    assert f"{render_java_store(told)} | base64 -d > /etc/ssl/certs/java/cacerts\n" in script
    assert script.count(">> /etc/ssl/certs/ca-certificates.crt\n") == 2
    assert script.count('.0"\n') == 2
    assert '[ -n "$told" ]; then update-ca-certificates --fresh' in script


def test_files_are_written_once_for_what_the_guest_is_told() -> None:
    changed = replace(SPEC, gateway="10.10.3.3")
    for spec in (SPEC, changed):
        assert f'if [ "$told" != {instance_id(spec)} ]; then\n' in render_boot_script(spec)
    assert instance_id(SPEC) != instance_id(changed)


@pytest.mark.parametrize(
    "own",
    [
        {"packages": ("jq",)},
        {"files": (GuestFile(path="/etc/motd", content=""),)},
        {"commands": ("true",)},
        {"extra_files": (GuestFile(path="/etc/motd", content=""),)},
        {"extra_commands": ("true",)},
    ],
    ids=lambda own: next(iter(own)),
)
def test_cloud_init_is_left_with_the_users_own(own: dict[str, Any]) -> None:
    nothing_left = f": > {DONE}\n"
    assert render_boot_script(SPEC).endswith(nothing_left)
    assert nothing_left not in render_boot_script(replace(SPEC, **own))


def test_the_workspace_belongs_to_whoever_logs_in() -> None:
    """The image's own account owns a new one from the beginning."""
    script = render_boot_script(replace(SPEC, user="worker"))
    assert "useradd -m -s /bin/bash -p '*' worker\n" in script
    assert 'wait "$workspace"\nchown -- worker: /workspace\n' in script
    assert "chown -- agent: /workspace" not in render_boot_script(SPEC)


def test_equal_specs_give_equal_text() -> None:
    assert render_boot_script(SPEC) == render_boot_script(replace(SPEC))


HOSTILE = st.text(alphabet="ab'\"\\:#{}[]&*!|>%@`-?$, ();\n\tö0~", min_size=1, max_size=30)


@settings(deadline=None)  # the YAML library is slow on a busy machine
@given(HOSTILE, HOSTILE, HOSTILE)
def test_no_value_becomes_a_word_of_the_script(one: str, two: str, three: str) -> None:
    """A shell splits the same words, whatever they hold."""
    own = replace(SPEC, authorized_keys=(one,), host_key=two, host_key_public=three)
    split, plain = words(own), words(SPEC)
    assert len(split) == len(plain)
    values = {f"{one}\n", two, f"{three}\n", instance_id(own)}
    assert {a for a, b in zip(split, plain, strict=True) if a != b} <= values


def test_the_sensor_is_written_and_started_at_every_boot_of_a_guest_that_has_one() -> None:
    watched = replace(SPEC, monitor=True)
    always = render_boot_script(watched).partition("\nfi\n")[2]
    assert f"systemctl --no-block start {UNIT}\n" in always
    for file in sensor_files(watched):
        assert written(watched)[file.path] == file.content
        assert f"> {file.path}\n" in always
    assert UNIT not in render_boot_script(SPEC)
