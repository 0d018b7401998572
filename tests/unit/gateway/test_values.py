"""Values of secrets: kept for control alone, found by their names and nothing else."""

from __future__ import annotations

import pytest

from gateway.messages import Value
from gateway.values import Values

NAME, OTHER = "api_key." + "1" * 64, "other." + "2" * 64


@pytest.fixture
def values(tmp_path):
    found = Values(tmp_path / "secrets")
    found.keep({NAME: "s3cr3t", OTHER: "0ther"})
    return found


def test_files_are_for_their_owner_alone(values):
    assert values.folder.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in values.folder.iterdir()} == {0o600}


def test_a_value_is_found_by_its_name_and_its_digest_is_its_version(values):
    assert values.find(NAME) == ("1" * 64, Value(b"s3cr3t"))
    assert "s3cr3t" not in repr(values.find(NAME))


@pytest.mark.parametrize("name", ["", ".", "..", "../ca.key", "/etc/passwd", "api_key", ".new"])
def test_no_other_file_is_read(values, name):
    (values.folder.parent / "ca.key").write_text("key")
    (values.folder / ".new").write_text("half")
    assert values.find(name) is None


def test_what_is_not_kept_is_forgotten(values):
    values.forget(keep={OTHER: ""})
    assert values.find(NAME) is None
    assert values.find(OTHER)


def test_the_stamp_changes_with_every_value(values, tmp_path):
    first = values.stamp()
    assert first == values.stamp()
    (values.folder / NAME).write_text("changed by hand")
    second = values.stamp()
    values.keep({NAME: "s3cr3t"})
    assert len({first, second, values.stamp()}) == 3
    assert Values(tmp_path / "none").stamp() == ()
