"""Kernel parameters and disk letters, as the official plugin writes and reads them."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolchain.plugins.libvirt.domain_document import (
    command_line,
    disk_letters,
    random_mac,
    split_command_line,
)

WORD = st.text(alphabet="abz019.,/-", min_size=1, max_size=6)


def test_parameters_are_sorted_and_joined() -> None:
    """All of them as strings, keyless ones in one piece."""
    given_parameters = [{"root": "/dev/vda", "console": "hvc0"}, {"_": "ro quiet"}]
    assert command_line(given_parameters) == "console=hvc0 ro quiet root=/dev/vda"


@pytest.mark.parametrize(
    ("line", "groups"),
    [
        ("", []),
        ("ro", [{"_": "ro"}]),
        ("a=1 ro b=2 quiet", [{"a": "1", "b": "2"}, {"_": "ro quiet"}]),
        ("a=1 b=x=y a=2", [{"a": "1", "b": "x=y"}, {"a": "2"}]),
    ],
)
def test_line_is_split_into_maps(line: str, groups: list[dict[str, str]]) -> None:
    """A repeated key starts a new map; what has no value comes last."""
    assert split_command_line(line) == groups


@given(values=st.dictionaries(WORD, WORD, min_size=1), keyless=st.lists(WORD, min_size=1))
def test_what_is_written_is_read_back(values: dict[str, str], keyless: list[str]) -> None:
    """In that form a program sees no difference after a refresh."""
    parameters = [values, {"_": " ".join(keyless)}]
    assert split_command_line(command_line(parameters)) == parameters


@pytest.mark.parametrize(
    ("index", "letters"), [(0, "a"), (25, "z"), (26, "aa"), (51, "az"), (52, "ba")]
)
def test_disks_get_letters(index: int, letters: str) -> None:
    """As the kernel names them."""
    assert disk_letters(index) == letters


def test_made_up_address_is_of_qemus_range() -> None:
    """Its first three bytes are QEMU's."""
    assert re.fullmatch("52:54:00(:[0-9a-f]{2}){3}", random_mac())
    assert random_mac(lambda _: 255) == "52:54:00:ff:ff:ff"
