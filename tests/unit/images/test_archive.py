"""The archive writer: equal trees give equal bytes."""

from __future__ import annotations

import gzip
import io
import json
import os
import tarfile
from pathlib import Path

import pytest

from images.archive import (
    EPOCH_S,
    Layer,
    image_config,
    image_id,
    layer_file,
    scan,
    write_archive,
    write_layer,
)


def make_tree(root: Path, *, order: tuple[str, ...] = ("b", "a-1", "a/x", "a/y")) -> Path:
    """A small tree; `order` is the order in which its files come into being."""
    root.mkdir()
    (root / "a").mkdir()
    for name in order:
        (root / name).write_text(f"content of {name}")
        (root / name).chmod(0o640)
    (root / "link").symlink_to("a/x")
    os.link(root / "a/x", root / "z")
    return root


def members(folder: Path, layer: Layer) -> dict[str, tarfile.TarInfo]:
    """Entries of a layer that `written` wrote, in their order."""
    with gzip.open(folder / "layers" / layer_file(layer.diff_id)) as packed:
        content = packed.read()
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        return {member.name: member for member in tar.getmembers()}


def written(tmp_path: Path, root: Path, below: dict[str, str] | None = None) -> Layer:
    """Write a layer of `root` into the test's folder of layers."""
    (tmp_path / "layers").mkdir(exist_ok=True)
    return write_layer(root, tmp_path / "layers", below=below)


def test_equal_trees_give_equal_layers(tmp_path: Path) -> None:
    """Neither times nor the order in which files were made show in a layer."""
    one = written(tmp_path, make_tree(tmp_path / "one"))
    other_tree = make_tree(tmp_path / "other", order=("a/y", "a/x", "b", "a-1"))
    os.utime(other_tree / "b", (1, 1))
    other = written(tmp_path, other_tree)
    assert one.diff_id == other.diff_id
    assert one.manifest == other.manifest


@pytest.mark.parametrize("change", ["content", "mode", "name", "link"])
def test_each_difference_shows_in_the_id(tmp_path: Path, change: str) -> None:
    """A layer's id tells two trees apart by content, mode, name or link target."""
    one = written(tmp_path, make_tree(tmp_path / "one"))
    root = make_tree(tmp_path / "other")
    if change == "content":
        (root / "b").write_text("something else")
    elif change == "mode":
        (root / "b").chmod(0o600)
    elif change == "name":
        (root / "b").rename(root / "c")
    else:
        (root / "link").unlink()
        (root / "link").symlink_to("a/y")
    assert written(tmp_path, root).diff_id != one.diff_id


def test_entries_are_sorted_parents_first_with_one_time(tmp_path: Path) -> None:
    """A folder's content follows it, also where another name sorts between as text."""
    found = members(tmp_path, layer := written(tmp_path, make_tree(tmp_path / "one")))
    assert list(found) == ["a", "a/x", "a/y", "a-1", "b", "link", "z"]
    assert {member.mtime for member in found.values()} == {EPOCH_S}
    assert found["z"].linkname == "a/x"
    assert found["z"].islnk()
    assert found["a/x"].mode == 0o640
    assert layer.size % 512 == 0


def test_difference_holds_what_changed_with_its_parents(tmp_path: Path) -> None:
    """A layer on top of another one holds changed files, their folders, and nothing else."""
    below = scan(make_tree(tmp_path / "below"))
    root = make_tree(tmp_path / "above")
    (root / "a/x").unlink()
    (root / "a/x").write_text("changed")
    (root / "a/x").chmod(0o640)
    found = members(tmp_path, written(tmp_path, root, below))
    assert list(found) == ["a", "a/x"]


def test_difference_takes_away_what_is_gone(tmp_path: Path) -> None:
    """What the upper tree lacks is marked once, at the highest place."""
    below_root = make_tree(tmp_path / "below")
    below = scan(below_root)
    root = make_tree(tmp_path / "above")
    (root / "a/x").unlink()
    (root / "a/y").unlink()
    (root / "a").rmdir()
    (root / "z").unlink()
    found = members(tmp_path, written(tmp_path, root, below))
    assert list(found) == [".wh.a", ".wh.z"]


def test_equal_tree_gives_an_empty_difference(tmp_path: Path) -> None:
    """Nothing is written where nothing differs."""
    root = make_tree(tmp_path / "one")
    assert members(tmp_path, written(tmp_path, root, scan(root))) == {}


def test_devices_and_sockets_are_left_out(tmp_path: Path) -> None:
    """A named pipe stands for all that isn't a file, a folder or a link."""
    root = make_tree(tmp_path / "one")
    os.mkfifo(root / "pipe")
    assert "pipe" not in members(tmp_path, written(tmp_path, root))


def test_archive_is_the_same_twice_and_complete(tmp_path: Path) -> None:
    """Two archives of the same layers are equal, and hold what `docker load` asks for."""
    layer = written(tmp_path, make_tree(tmp_path / "one"))
    config = image_config({"Env": ["A=b"]}, [layer.diff_id], "amd64")

    def archive() -> bytes:
        stream = io.BytesIO()
        write_archive(
            stream,
            config=config,
            tag="abox/x:local",
            layers=[(layer.diff_id, layer.size)],
            folder=tmp_path / "layers",
        )
        return stream.getvalue()

    content = archive()
    assert content == archive()
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        manifest = json.load(tar.extractfile("manifest.json") or io.BytesIO())
        (entry,) = manifest
        assert entry["RepoTags"] == ["abox/x:local"]
        assert f"sha256:{entry['Config'].removesuffix('.json')}" == image_id(config)
        assert tar.getmember(entry["Layers"][0]).size == layer.size


def test_image_id_depends_on_settings_and_layers() -> None:
    """The id covers environment, layers and architecture, and no clock."""
    ids = {
        image_id(image_config(config, layers, architecture))
        for config, layers, architecture in [
            ({"Env": ["A=b"]}, ["sha256:1"], "amd64"),
            ({"Env": ["A=c"]}, ["sha256:1"], "amd64"),
            ({"Env": ["A=b"]}, ["sha256:2"], "amd64"),
            ({"Env": ["A=b"]}, ["sha256:1"], "arm64"),
        ]
    }
    assert len(ids) == 4
    again = image_id(image_config({"Env": ["A=b"]}, ["sha256:1"], "amd64"))
    assert again in ids
