"""Names of interfaces and tables: valid, unique, and never longer than the kernel takes."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from abox.errors import SettingsError
from abox.naming import (
    INTERFACE_NAME_MAX,
    NAME_PATTERN,
    bridge_name,
    check_name,
    egress_bridge_name,
    table_name,
)

NAMES = st.from_regex(re.compile(NAME_PATTERN[1:-1]), fullmatch=True)


@pytest.mark.parametrize("name", ["a", "Z", "project-a", "my_vm", "a" * 63, "a-_9"])
def test_a_name_of_the_pattern_passes(name: str) -> None:
    assert check_name(name) == name


@pytest.mark.parametrize(
    "name",
    [
        "",
        "../x",
        "1dev",
        "a b",
        "a.b",
        "-a",
        "_a",
        "a" * 64,
        "dev\n",
        "dev\x00",
        "dév",
        "\uff41",
        "a;b",
    ],
)
def test_any_other_name_is_refused_and_the_pattern_is_told(name: str) -> None:
    with pytest.raises(SettingsError, match="stack name") as caught:
        check_name(name)
    assert NAME_PATTERN in caught.value.remedy


@pytest.mark.parametrize(
    ("name", "bridge"),
    [
        ("dev", "abx-dev"),
        ("project-a", "abx-project-a"),
        ("ten-chars1", "abx-ten-chars1"),
        ("my_vm", "abx-my_vm"),
    ],
)
def test_a_short_name_is_part_of_the_bridge(name: str, bridge: str) -> None:
    assert bridge_name(name) == bridge
    assert egress_bridge_name(name) == f"{bridge}e"
    assert table_name(name) == f"abox-{bridge.removeprefix('abx-')}"


@pytest.mark.parametrize("name", ["eleven-char", "a" * 63, "deve"])
def test_a_long_name_or_one_that_ends_in_e_becomes_a_hash(name: str) -> None:
    assert re.fullmatch(r"abx-[0-9a-f]{10}", bridge_name(name))


def test_names_do_not_change_between_versions() -> None:
    assert bridge_name("a-name-that-is-too-long") == "abx-c8400dedb3"


@given(NAMES)
def test_every_interface_fits_and_needs_no_quoting(name: str) -> None:
    for interface in (bridge_name(name), egress_bridge_name(name)):
        assert len(interface) <= INTERFACE_NAME_MAX
        assert re.fullmatch(r"[a-zA-Z0-9_-]+", interface)


@given(NAMES, NAMES)
def test_two_sandboxes_never_share_an_interface(one: str, other: str) -> None:
    mine = {bridge_name(one), egress_bridge_name(one)}
    theirs = {bridge_name(other), egress_bridge_name(other)}
    assert len(mine) == 2
    assert one == other or mine.isdisjoint(theirs)


@given(st.from_regex(r"[a-z][a-z0-9]{0,5}", fullmatch=True))
def test_the_egress_bridge_of_one_is_not_the_bridge_of_another(name: str) -> None:
    assert egress_bridge_name(name) != bridge_name(f"{name}e")
