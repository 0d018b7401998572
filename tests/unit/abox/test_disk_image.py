"""Disk images: what a header says, and which files nobody may base a VM on."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from abox.disk_image import DiskImage, parse_header

GIGABYTE = 2**30


def qcow2(version: int = 3, backing: int = 0, encryption: int = 0, features: int = 0) -> bytes:
    head = struct.pack(">4sIQIIQI", b"QFI\xfb", version, backing, 0, 16, 8 * GIGABYTE, encryption)
    return head.ljust(72, b"\0") + struct.pack(">Q", features) + b"\0" * 32


def test_a_qcow2_image_tells_its_size() -> None:
    assert parse_header(qcow2(), 5000) == DiskImage("qcow2", 8 * GIGABYTE)
    assert parse_header(qcow2(version=2), 5000) == DiskImage("qcow2", 8 * GIGABYTE)


def test_a_raw_disk_is_as_big_as_its_file() -> None:
    assert parse_header(b"\0" * 510 + b"\x55\xaa", GIGABYTE) == DiskImage("raw", GIGABYTE)


@pytest.mark.parametrize(
    ("head", "said"),
    [
        (qcow2(backing=512), "overlay of another file"),
        (qcow2(features=1 << 2), "data lies in another file"),
        (qcow2(encryption=1), "encrypted"),
        (qcow2(version=4), "version"),
        (qcow2()[:20], "too early"),
        (b"", "neither"),
        (b"#!/bin/sh\n", "neither"),
        (b"\x7fELF" + b"\0" * 4000, "neither"),
        (b"KDMV" + b"\0" * 4000, "neither"),
        (b"\0" * 509 + b"\x55\xaa\0", "neither"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_no_vm_can_be_based_on_is_refused(head: bytes, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        parse_header(head, 5000)


@given(st.binary(max_size=4096))
def test_any_bytes_are_read_or_refused(head: bytes) -> None:
    for data in (head, b"QFI\xfb" + head):
        try:
            found = parse_header(data, len(data))
        except ValueError:
            continue
        assert found.format in ("qcow2", "raw")
