"""A spool is read once, given back as it is read, and never holds up who writes it."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from gateway import spool as module
from gateway.spool import SLICE_BYTES, Spool


@pytest.fixture
def path():
    """A file on a file system in memory, which gives space back in pages."""
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="abxt-spool-") as folder:
        yield Path(folder, "lines")


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def test_lines_are_read_once_and_whole(path):
    spool = Spool(path)
    assert list(spool.slices()) == []  # nobody has written yet
    append(path, b"one\ntwo\nthr")
    assert b"".join(spool.slices()) == b"one\ntwo\n"
    append(path, b"ee\n")
    assert b"".join(spool.slices()) == b"three\n"
    assert list(spool.slices()) == []


def test_what_was_read_takes_no_space(path):
    spool = Spool(path)
    append(path, b"x" * 99 + b"\n")
    for _ in range(20):
        append(path, (b"y" * 99 + b"\n") * 1000)
        assert sum(map(len, spool.slices())) >= 100_000
        spool.release()
    assert path.stat().st_size > 2_000_000
    assert path.stat().st_blocks * 512 <= 2 * os.sysconf("SC_PAGESIZE")
    append(path, b"last\n")
    assert b"".join(spool.slices()) == b"last\n"


def test_a_reader_that_died_is_followed_by_one_that_goes_on_where_it_was(path):
    append(path, b"read before\n" * 1000)
    first = Spool(path)
    list(first.slices())
    first.release()
    append(path, b"not yet\n")
    assert b"".join(Spool(path).slices()) == b"not yet\n"


def test_a_file_that_was_replaced_is_read_from_its_beginning(path):
    spool = Spool(path)
    append(path, b"old\n")
    list(spool.slices())
    path.unlink()
    append(path, b"new\n")
    assert b"".join(spool.slices()) == b"new\n"


def test_slices_are_bounded_and_hold_whole_lines(path):
    append(path, b"z" * 999 + b"\n")
    append(path, (b"z" * 999 + b"\n") * 1000)
    slices = list(Spool(path).slices())
    assert max(map(len, slices)) <= SLICE_BYTES
    assert all(one.endswith(b"\n") for one in slices)
    assert sum(map(len, slices)) == 1_001_000


def test_a_line_without_an_end_stops_nobody(path):
    append(path, b"q" * (2 * SLICE_BYTES) + b"\nnext\n")
    assert b"".join(Spool(path).slices()).endswith(b"next\n")


def test_a_full_file_system_is_noticed(path, monkeypatch):
    spool = Spool(path)
    append(path, b"x\n")
    assert not spool.is_full  # nothing is open yet
    list(spool.slices())
    assert not spool.is_full
    monkeypatch.setattr(module, "FULL_BYTES", 2**62)
    assert spool.is_full


def test_a_link_is_not_followed(path):
    path.symlink_to("/etc/passwd")
    assert list(Spool(path).slices()) == []
