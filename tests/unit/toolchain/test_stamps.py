"""Content hashes: what counts and what doesn't."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from toolchain import stamps


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with two files, one of them below."""
    (tmp_path / "source" / "below").mkdir(parents=True)
    (tmp_path / "source" / "a").write_text("A")
    (tmp_path / "source" / "below" / "b").write_text("B")
    return tmp_path / "source"


def test_hash_ignores_time_place_and_byte_code(folder: Path, tmp_path: Path) -> None:
    """A copy elsewhere, touched later and compiled, has the same hash."""
    before = stamps.content_hash([folder])
    os.utime(folder / "a", (0, 0))
    (folder / "__pycache__").mkdir()
    (folder / "__pycache__" / "a.pyc").write_text("compiled")
    moved = tmp_path / "elsewhere" / "source"
    moved.parent.mkdir()
    folder.rename(moved)
    assert stamps.content_hash([moved]) == before


@pytest.mark.parametrize("change", ["content", "name", "more", "extra"])
def test_hash_sees_every_change(folder: Path, change: str) -> None:
    """Another content, name, file or text gives another hash."""
    before = stamps.content_hash([folder], "flag")
    extra = "flag"
    match change:
        case "content":
            (folder / "below" / "b").write_text("C")
        case "name":
            (folder / "a").rename(folder / "c")
        case "more":
            (folder / "d").write_text("")
        case _:
            extra = "flags"
    assert stamps.content_hash([folder], extra) != before


def test_pieces_dont_run_together(tmp_path: Path) -> None:
    """Text moved from one piece to the next gives another hash."""
    assert stamps.content_hash([], "ab", "c") != stamps.content_hash([], "a", "bc")


def test_stamp_is_current_until_forgotten(tmp_path: Path) -> None:
    """A step is finished for one hash only, and can be made unfinished."""
    stamp = tmp_path / "stamps" / "step"
    assert not stamps.is_current(stamp, "one")
    stamps.record(stamp, "one")
    assert stamps.is_current(stamp, "one")
    assert not stamps.is_current(stamp, "two")
    stamps.forget(stamp)
    stamps.forget(stamp)
    assert not stamps.is_current(stamp, "one")
