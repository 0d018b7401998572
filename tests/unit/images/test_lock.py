"""The lock file's form."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from images.lock import Locked, read_lock, write_lock

ID = f"sha256:{'a' * 64}"
RECIPE = "b" * 64
GOOD = Locked(id=ID, recipe=RECIPE, packages={"bash": "5.2"})


def test_written_lock_has_the_documented_form(tmp_path: Path) -> None:
    """One object a name: id, recipe, packages; the folder is made."""
    path = tmp_path / "state/images.lock.json"
    write_lock({"base": GOOD}, path)
    assert json.loads(path.read_text()) == {
        "base": {"id": ID, "recipe": RECIPE, "packages": {"bash": "5.2"}}
    }
    assert read_lock(path) == {"base": GOOD}
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


def test_missing_lock_is_empty(tmp_path: Path) -> None:
    """Before the first build there are no images."""
    assert read_lock(tmp_path / "none.json") == {}


@pytest.mark.parametrize("text", ["", "{", "[]", "7", '"x"', "null"])
def test_damaged_lock_is_empty(tmp_path: Path, text: str) -> None:
    """A damaged file is made again, not obeyed."""
    path = tmp_path / "lock.json"
    path.write_text(text)
    assert read_lock(path) == {}


@pytest.mark.parametrize(
    "entry",
    [
        None,
        [],
        {},
        {"id": ID},
        {"id": ID[:-1], "recipe": RECIPE},
        {"id": "abox/base:local", "recipe": RECIPE},
        {"id": f"{ID}\n", "recipe": RECIPE},
        {"id": ID.upper(), "recipe": RECIPE},
        {"id": ID, "recipe": "x"},
        {"id": ID, "recipe": 7},
    ],
    ids=str,
)
def test_damaged_entry_counts_as_absent(tmp_path: Path, entry: object) -> None:
    """Only an id by digest and a whole recipe hash are believed; good entries beside it stay."""
    path = tmp_path / "lock.json"
    good = {"id": ID, "recipe": RECIPE, "packages": {"bash": "5.2"}}
    path.write_text(json.dumps({"agent": entry, "base": good}))
    assert read_lock(path) == {"base": GOOD}
