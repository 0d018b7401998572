"""Files of the log: whole lines or none, bounded, and mended after a crash."""

from __future__ import annotations

import os

import pytest

from gateway.log_files import RotatingFile


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_the_oldest_file_goes_when_there_are_too_many(tmp_path):
    file = RotatingFile(tmp_path / "log", file_bytes=10, files=3)
    for n in range(5):
        file.append(b"line %d\n" % n)
    assert contents(tmp_path) == {"log": b"line 4\n", "log.1": b"line 3\n", "log.2": b"line 2\n"}


def test_a_file_is_filled_before_the_next_is_begun(tmp_path):
    file = RotatingFile(tmp_path / "log", file_bytes=20, files=3)
    for _ in range(3):
        file.append(b"line 1\n")
    assert contents(tmp_path) == {"log": b"line 1\n", "log.1": b"line 1\nline 1\n"}


def test_files_are_their_owners_alone(tmp_path):
    RotatingFile(tmp_path / "log").append(b"x\n")
    assert (tmp_path / "log").stat().st_mode & 0o777 == 0o600


def test_a_line_that_was_cut_by_a_crash_is_ended(tmp_path):
    (tmp_path / "log").write_bytes(b"whole\nhal")
    RotatingFile(tmp_path / "log").append(b"next\n")
    assert contents(tmp_path) == {"log": b"whole\nhal\nnext\n"}


def test_a_file_that_was_removed_is_made_again(tmp_path):
    file = RotatingFile(tmp_path / "log")
    file.append(b"one\n")
    (tmp_path / "log").unlink()
    file.append(b"two\n")
    assert contents(tmp_path) == {"log": b"two\n"}


def test_a_write_that_fails_half_way_leaves_nothing_behind(tmp_path, monkeypatch):
    file = RotatingFile(tmp_path / "log")
    file.append(b"one\n")
    real = os.write
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", lambda handle, data: real(handle, data[:2]))
        with pytest.raises(OSError, match="2 of 4 bytes"):
            file.append(b"two\n")
    file.append(b"three\n")
    assert contents(tmp_path) == {"log": b"one\nthree\n"}


def test_a_folder_that_is_gone_is_an_error_and_then_none(tmp_path):
    folder = tmp_path / "logs"
    file = RotatingFile(folder / "log")
    with pytest.raises(OSError, match="No such file"):
        file.append(b"one\n")
    folder.mkdir()
    file.append(b"two\n")
    assert contents(folder) == {"log": b"two\n"}


def test_a_link_is_not_followed(tmp_path):
    (tmp_path / "log").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic"):
        RotatingFile(tmp_path / "log").append(b"x\n")
