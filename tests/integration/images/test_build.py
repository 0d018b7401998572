"""The builder: repeatable, done once, shared, and plain about what is missing."""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from images import build as builder_module
from images.archive import image_config, image_id
from images.base import BASE
from images.build import Builder, architecture
from images.cache import LayerCache, Stored
from images.engine import image_ids
from images.lock import Locked, read_lock
from images.progress import Progress
from images.recipe import Overlay, Recipe
from tests import host

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]


def cli(*arguments: str, env: dict[str, str] | None = None) -> host.Completed:
    """Run the builder as a user does."""
    return host.run(
        [sys.executable, "-m", "images.build", *arguments],
        check=False,
        timeout_s=600,
        env={**os.environ, **(env or {})},
        cwd=host.ROOT,
    )


def base_layer(folder: Path) -> Stored:
    """Build the base image's layer into a cache of its own."""
    (stored,) = Builder(LayerCache(folder), False, {}).debian_layers(BASE, Progress("base"))
    return stored


def test_two_builds_of_the_base_image_are_the_same(
    images: dict[str, Locked], tmp_path: Path
) -> None:
    """Equal package versions give an equal id, from nothing, in caches that share nothing."""
    again = base_layer(tmp_path / "one")
    if again.packages == images["base"].packages:
        assert image_id(image_config(BASE.config, [again.diff_id], architecture())) == (
            images["base"].id
        )
    else:  # the archive has moved since the image was built
        third = base_layer(tmp_path / "two")
        assert third.packages == again.packages
        assert third.diff_id == again.diff_id


def test_second_run_does_nothing(images: dict[str, Locked]) -> None:
    """With everything in place the builder only names the images."""
    assert cli().code == 0
    done = cli()
    expected = [f"images: {name}: {image.id}" for name, image in sorted(read_lock().items())]
    assert done.stdout.splitlines() == expected
    assert len(expected) == len(images)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Recipe]:
    """A recipe of one file instead of Debian packages, and an overlay; its image is removed."""

    def unpack(root: Path, **_ignored: object) -> None:
        (root / "var/lib/dpkg").mkdir(parents=True)
        status = "Package: a\nStatus: install ok installed\nVersion: 1\n"
        (root / "var/lib/dpkg/status").write_text(status)
        (root / "etc").mkdir()
        with (tmp_path / "unpacked").open("a") as calls:
            calls.write("x")

    def write(root: Path, _files: Mapping[str, Path]) -> None:
        (root / "copied").write_bytes(source.read_bytes())

    source = tmp_path / "source.txt"
    source.write_text("one")
    monkeypatch.setattr(builder_module, "unpack", unpack)
    recipe = Recipe(
        name=f"abxt-{uuid.uuid4().hex[:8]}",
        variant="essential",
        packages=(),
        inputs=(),
        furnish=lambda _root: None,
        config={"User": "65534"},
        overlay=Overlay(files=lambda: {"/copied": source}, write=write),
        space_mb=1,
    )
    yield recipe
    host.run(["docker", "image", "rm", "-f", recipe.tag, f"{recipe.tag}-kept"], check=False)


def unpacked(tmp_path: Path) -> int:
    """How often the test's stand-in for Debian packages was asked."""
    return len((tmp_path / "unpacked").read_text())


def test_image_that_the_engine_lost_comes_back_from_the_cache(
    small: Recipe, tmp_path: Path
) -> None:
    """Another checkout, or the same after a loss, loads the same id and installs nothing."""
    first = Builder(LayerCache(tmp_path / "cache"), False, {}).ensure(small)
    host.run(["docker", "image", "rm", first.id])
    assert builder_module.up_to_date([small], {small.name: first}) == []
    second = Builder(LayerCache(tmp_path / "cache"), False, {}).ensure(small)
    assert second == first
    assert unpacked(tmp_path) == 1
    assert builder_module.up_to_date([small], {small.name: first}) == [small.name]


def test_image_that_another_checkout_loaded_is_not_loaded_again(
    small: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second checkout gets the id, and the tag back, without another transfer."""
    cache = LayerCache(tmp_path / "cache")
    first = Builder(cache, False, {}).ensure(small)
    host.run(["docker", "image", "tag", first.id, f"{small.tag}-kept"])
    host.run(["docker", "image", "rm", small.tag])

    def refuse(*_ignored: object) -> str:
        raise AssertionError("loaded a second time")

    monkeypatch.setattr(builder_module, "load", refuse)
    assert Builder(cache, False, {}).ensure(small) == first
    assert image_ids([small.tag]) == [first.id]


def test_edited_source_makes_a_new_image_without_new_packages(
    small: Recipe, tmp_path: Path
) -> None:
    """Editing the project's own modules gives another id from the same Debian layer."""
    cache = LayerCache(tmp_path / "cache")
    first = Builder(cache, False, {}).ensure(small)
    (tmp_path / "source.txt").write_text("two")
    assert builder_module.up_to_date([small], {small.name: first}) == []
    second = Builder(cache, False, {}).ensure(small)
    assert second.id != first.id
    assert unpacked(tmp_path) == 1


def test_rebuild_takes_todays_packages(small: Recipe, tmp_path: Path) -> None:
    """Asked to rebuild, the builder installs again although the cache has a layer."""
    cache = LayerCache(tmp_path / "cache")
    first = Builder(cache, False, {}).ensure(small)
    second = Builder(cache, True, {}).ensure(small)
    assert unpacked(tmp_path) == 2
    assert first.id == second.id


def test_failed_build_leaves_no_tree(
    small: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A build that fails in the middle takes its root filesystem away."""

    def fail(_root: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(builder_module, "clean", fail)
    with pytest.raises(OSError, match="No space left"):
        Builder(LayerCache(tmp_path / "cache"), False, {}).ensure(small)
    assert not (tmp_path / "cache/build").exists()
    assert list((tmp_path / "cache/layers").iterdir()) == []


def lines_of(done: host.Completed) -> tuple[str, str, str]:
    """The three lines of a refusal."""
    assert done.code == 2, done
    what, why, remedy = done.stderr.splitlines()
    assert why.startswith("why: ")
    assert remedy.startswith("do: ")
    return what, why, remedy


def test_no_engine_is_told_in_three_lines(tmp_path: Path) -> None:
    """Without a container engine nothing is built, and the error says how to get one."""
    what, _, remedy = lines_of(cli(env={"DOCKER_HOST": f"unix://{tmp_path}/none.sock"}))
    assert "no container engine answers" in what
    assert "make engine" in remedy


def test_missing_mmdebstrap_is_told_in_three_lines(tmp_path: Path) -> None:
    """Without mmdebstrap the error names the package to install."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for folder in ("/usr/sbin", "/usr/bin"):
        for tool in Path(folder).iterdir():
            if tool.name != "mmdebstrap" and not (tools / tool.name).exists():
                (tools / tool.name).symlink_to(tool)
    env = {"PATH": str(tools), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    what, _, remedy = lines_of(cli("--only", "base", "--rebuild", env=env))
    assert what == "mmdebstrap is not on this machine"
    assert "apt-get install mmdebstrap" in remedy


def test_full_disk_is_told_in_three_lines(tmp_path: Path) -> None:
    """A cache on a small disk is refused before anything is downloaded."""
    small = tmp_path / "small"
    small.mkdir()
    host.run(["mount", "-t", "tmpfs", "-o", "size=40m", "abxt", str(small)])
    try:
        done = cli("--only", "base", "--rebuild", env={"XDG_CACHE_HOME": str(small)})
    finally:
        host.run(["umount", str(small)])
    what, why, remedy = lines_of(done)
    assert "MB free" in what
    assert "needs" in why
    assert "XDG_CACHE_HOME" in remedy
