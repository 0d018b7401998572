"""The cache of layers."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from images.archive import Layer, layer_file
from images.cache import KEPT_DAYS, LayerCache, default_folder

DIFF_ID = f"sha256:{'c' * 64}"
LAYER = Layer(diff_id=DIFF_ID, size=512, manifest={"etc": "d 0755 0:0"})


@pytest.fixture
def cache(tmp_path: Path) -> LayerCache:
    """A cache that holds one layer under the key `k`."""
    cache = LayerCache(tmp_path / "cache")
    (cache.layers / layer_file(DIFF_ID)).write_bytes(b"layer")
    cache.keep("k", LAYER, {"bash": "5.2"})
    return cache


def test_kept_layer_is_found_again(cache: LayerCache) -> None:
    """Another checkout, with a cache object of its own, finds what one has built."""
    other = LayerCache(cache.folder)
    found = other.find("k")
    assert found is not None
    assert (found.diff_id, found.size, found.packages) == (DIFF_ID, 512, {"bash": "5.2"})
    assert other.manifest(DIFF_ID) == LAYER.manifest
    assert other.find("another") is None


def test_layer_without_its_file_is_not_found(cache: LayerCache) -> None:
    """A record alone doesn't count: the layer is built again."""
    (cache.layers / layer_file(DIFF_ID)).unlink()
    assert cache.find("k") is None


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"diff_id": 1, "strange": 2}'])
def test_damaged_record_is_not_found(cache: LayerCache, text: str) -> None:
    """A damaged record is replaced by a new build."""
    (cache.layers / "k.json").write_text(text)
    assert cache.find("k") is None


def test_unused_layers_go_and_used_ones_stay(cache: LayerCache) -> None:
    """What nobody asked for in a month is removed; a look keeps a layer."""
    long_ago = time.time() - (KEPT_DAYS + 1) * 86400
    for path in cache.layers.iterdir():
        os.utime(path, (long_ago, long_ago))
    (cache.layers / "old.json").write_text("{}")
    os.utime(cache.layers / "old.json", (long_ago, long_ago))
    (cache.layers / ".partial-1").write_text("of an interrupted build")
    assert cache.find("k")
    cache.prune()
    assert cache.find("k")
    assert not (cache.layers / "old.json").exists()
    assert not (cache.layers / ".partial-1").exists()


def test_second_builder_waits_and_says_so(cache: LayerCache) -> None:
    """Two checkouts never build at once; the one that waits tells its user."""
    said: list[str] = []
    order: list[str] = []
    waiting = threading.Event()

    def second() -> None:
        def on_wait() -> None:
            said.append("waiting")
            waiting.set()

        with LayerCache(cache.folder).locked(on_wait):
            order.append("second")

    with cache.locked(lambda: said.append("first had to wait")):
        thread = threading.Thread(target=second)
        thread.start()
        assert waiting.wait(timeout=10)
        order.append("first")
    thread.join(timeout=10)
    assert said == ["waiting"]
    assert order == ["first", "second"]


def test_cache_lies_where_the_user_keeps_caches(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """XDG_CACHE_HOME if set, else ~/.cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_folder() == tmp_path / "abox/images"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert default_folder() == tmp_path / "home/.cache/abox/images"
