"""The lock file of images is read, or refused in three lines."""

import json

import pytest

from abox.errors import HostError
from components.images import LOCK_FILE, read_image_ids

GOOD = {role: {"id": "sha256:" + digit * 64} for role, digit in (("gateway", "a"), ("agent", "b"))}


def write(root, text):
    path = root / LOCK_FILE
    path.parent.mkdir(parents=True)
    path.write_text(text)


def test_ids_are_read_by_role(tmp_path):
    write(tmp_path, json.dumps(GOOD))
    assert read_image_ids(tmp_path) == {r: GOOD[r]["id"] for r in GOOD}


def test_a_missing_lock_says_what_to_run(tmp_path):
    with pytest.raises(HostError, match="make images"):
        read_image_ids(tmp_path)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"gateway": {}}', '{"gateway": 1}', "\x00"])
def test_anything_else_is_refused(tmp_path, text):
    write(tmp_path, text)
    with pytest.raises(HostError, match="can't be read"):
        read_image_ids(tmp_path)
