"""Files are replaced whole, and only if they change."""

from __future__ import annotations

from gateway.files import read_file, read_json, write_file


def test_a_file_is_written_once_and_keeps_its_mode(tmp_path):
    path = tmp_path / "policy.json"
    assert write_file(path, "one", mode=0o600)
    before = path.stat()
    assert not write_file(path, "one", mode=0o600)
    assert path.stat().st_ino == before.st_ino
    assert write_file(path, "two", mode=0o600)
    assert path.stat().st_ino != before.st_ino
    assert path.stat().st_mode & 0o777 == 0o600
    assert [found.name for found in tmp_path.iterdir()] == ["policy.json"]


def test_a_file_that_is_not_there_reads_as_none(tmp_path):
    assert read_file(tmp_path / "no") is None
    assert read_json(tmp_path / "no") is None


def test_what_is_no_object_reads_as_none(tmp_path):
    for text in ("", "[]", "{", '"x"'):
        write_file(tmp_path / "x.json", text)
        assert read_json(tmp_path / "x.json") is None
