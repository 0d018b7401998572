"""Builds the images that are missing: `python -m images.build [--only NAME]`.

Nothing happens where the lock file names the same recipe and the engine has the image. What one
checkout built, another one takes from the cache.
"""

from __future__ import annotations

import argparse
import errno
import gzip
import os
import shutil
import signal
import sys
import tempfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from abox.errors import AboxError, HostError
from images import disk
from images.agent import AGENT
from images.archive import image_config, image_id, write_archive, write_layer
from images.base import BASE
from images.cache import LayerCache, Stored, default_folder
from images.debian import remove_tree, unpack
from images.engine import data_folder, image_ids, load, tag_image
from images.gateway import GATEWAY
from images.host import run
from images.lock import Locked, read_lock, write_lock
from images.progress import Progress
from images.recipe import Recipe
from images.tree import clean, installed_packages, strip_privileges
from images.vm import VM

RECIPES = (BASE, GATEWAY, AGENT)
"""Every image of the engine, parents first."""

ALL = (*RECIPES, VM)
"""With the one of virtual machines, which is built only where it is named."""

EXIT_FAILED = 2
EXIT_INTERRUPTED = 130


@dataclass(frozen=True)
class Builder:
    """Makes images with the help of a cache."""

    cache: LayerCache
    rebuild: bool
    """Take today's packages, also where the recipe has not changed."""
    done: dict[str, Stored]
    """Debian layers that this run has looked at already, by image."""

    def ensure(self, recipe: Recipe) -> Locked:
        """Build what is missing of an image and load it into the engine."""
        progress = Progress(recipe.name)
        if recipe is VM:
            return self._disk(recipe, progress)
        recipe_hash = recipe.hash()  # first: a file edited meanwhile makes the next run build again
        layers = self.debian_layers(recipe, progress)
        packages = layers[-1].packages
        if overlay := self._overlay_layer(recipe):
            layers.append(overlay)
        config = image_config(recipe.config, [layer.diff_id for layer in layers], architecture())
        identity = image_id(config)
        if image_ids([identity]) == [identity]:
            tag_image(identity, recipe.tag)  # another checkout has loaded it
        else:
            progress.say("loading into the engine")
            identity = self._load(recipe.tag, config, layers)
        total_mb = sum(layer.size for layer in layers) / 1e6
        progress.say(f"ready: {identity[:19]}, {total_mb:.0f} MB, {len(packages)} packages")
        return Locked(id=identity, recipe=recipe_hash, packages=packages)

    def _disk(self, recipe: Recipe, progress: Progress) -> Locked:
        """The image of virtual machines, built unless this host has it."""
        found = None if self.rebuild else disk.find(recipe.hash())
        if found:
            progress.say("this host has it")
            return found
        disk.make_reachable(disk.FOLDER)
        for folder in (self.cache.folder, disk.FOLDER):
            _check_space(folder, recipe.space_mb)
        log = self.cache.folder / f"{recipe.name}.log"
        progress.say(f"installing Debian packages, log in {log}")
        return disk.build(recipe, self.cache.folder / "build", log, progress)

    def debian_layers(self, recipe: Recipe, progress: Progress) -> list[Stored]:
        """The layers of Debian packages, lowest first."""
        below = self.debian_layers(recipe.parent, progress) if recipe.parent else []
        if recipe.name not in self.done:
            self.done[recipe.name] = self._debian_layer(recipe, below, progress)
        return [*below, self.done[recipe.name]]

    def _debian_layer(self, recipe: Recipe, below: list[Stored], progress: Progress) -> Stored:
        key = "-".join([recipe.packages_hash(), *(layer.diff_id[7:23] for layer in below)])
        found = None if self.rebuild else self.cache.find(key)
        if found:
            progress.say(f"the Debian layer of {recipe.name} is in the cache")
            return found
        _check_space(self.cache.folder, recipe.space_mb)
        _check_space(data_folder(), recipe.space_mb)
        work = self.cache.folder / "build"
        log = self.cache.folder / f"{recipe.name}.log"
        progress.say(f"installing Debian packages, log in {log}")
        remove_tree(work)
        try:
            unpack(
                work,
                variant=recipe.variant,
                packages=recipe.packages,
                progress=progress,
                log=log,
            )
            progress.say("finishing the root filesystem")
            packages = installed_packages(work)
            clean(work)
            recipe.furnish(work)
            strip_privileges(work)
            layer = write_layer(
                work,
                self.cache.layers,
                below=self.cache.manifest(below[-1].diff_id) if below else None,
                on_progress=lambda done, total: progress.say_sometimes(
                    f"writing the layer, {done} of {total} files"
                ),
            )
        finally:
            remove_tree(work)
        return self.cache.keep(key, layer, packages)

    def _load(self, tag: str, config: bytes, layers: list[Stored]) -> str:
        """Load an image made of layers of the cache; returns the id that the engine gave it."""
        try:
            return load(
                tag,
                lambda stream: write_archive(
                    stream,
                    config=config,
                    tag=tag,
                    layers=[(layer.diff_id, layer.size) for layer in layers],
                    folder=self.cache.layers,
                ),
            )
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise HostError(
                what=f"{tag} was not loaded",
                why=f"a layer in {self.cache.layers} is damaged",
                remedy=f"remove {self.cache.folder}, then try again: it is built anew",
            ) from error

    def _overlay_layer(self, recipe: Recipe) -> Stored | None:
        """The layer of the project's own files: made anew each time, since it takes no time."""
        if recipe.overlay is None:
            return None
        with tempfile.TemporaryDirectory(prefix="abox-overlay-") as folder:
            root = Path(folder)
            recipe.overlay.write(root, recipe.overlay.files())
            layer = write_layer(root, self.cache.layers)
        return self.cache.keep(f"overlay-{layer.diff_id[7:]}", layer, {})


def up_to_date(recipes: Sequence[Recipe], locked: dict[str, Locked]) -> list[str]:
    """Names of the images that the lock file has by the same recipe and the engine has by id."""
    known = [
        recipe.name
        for recipe in recipes
        if recipe.name in locked and locked[recipe.name].recipe == recipe.hash()
    ]
    disks = [name for name in known if locked[name].files]
    of_engine = [name for name in known if name not in disks]
    ids = image_ids([locked[name].id for name in of_engine])
    found = [name for name, identity in zip(of_engine, ids, strict=True) if identity]
    return found + [name for name in disks if disk.are_there(locked[name].files)]


def build(names: Sequence[str], *, rebuild: bool = False) -> dict[str, Locked]:
    """Make sure of the named images (all of the engine, if none is named) and of the lock file.

    Returns: the lock file's content.
    Raises: HostError if the machine lacks something, or a step fails.
    """
    wanted = [recipe for recipe in ALL if recipe.name in names] if names else list(RECIPES)
    locked = read_lock()
    ready = [] if rebuild else up_to_date(wanted, locked)
    missing = [recipe for recipe in wanted if recipe.name not in ready]
    if not missing:
        return locked
    _check_root()
    os.umask(0o022)  # modes of what the builder writes come from the recipe, not from the shell
    cache = LayerCache(default_folder())
    with cache.locked(lambda: Progress("all").say("waiting for another build on this machine")):
        builder = Builder(cache, rebuild, {})
        for recipe in missing:
            locked = {**read_lock(), recipe.name: builder.ensure(recipe)}
            write_lock(locked)
        cache.prune()
    return locked


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line of the builder; returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m images.build", description=__doc__)
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        choices=[recipe.name for recipe in ALL],
        help="build this image (may be given more than once)",
    )
    parser.add_argument(
        "--rebuild",
        action="store_true",
        help="install today's Debian packages, also where the recipe has not changed",
    )
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # end the child processes as well
    try:
        locked = build(options.only, rebuild=options.rebuild)
    except KeyboardInterrupt:
        sys.stderr.write("images: interrupted; the next build starts that image again\n")
        return EXIT_INTERRUPTED
    except AboxError as error:
        sys.stderr.write(f"{error}\n")
        return EXIT_FAILED
    except OSError as error:
        sys.stderr.write(f"{_describe_os_error(error)}\n")
        return EXIT_FAILED
    for name, image in sorted(locked.items()):
        sys.stdout.write(f"images: {name}: {image.id}\n")
    return 0


def _check_root() -> None:
    if os.geteuid() != 0:
        raise HostError(
            what="the images can't be built by this user",
            why="unpacking a root filesystem with its owners and modes needs root",
            remedy="run it as root",
        )


def _check_space(folder: Path, needed_mb: int) -> None:
    free_mb = shutil.disk_usage(folder).free // 1_000_000
    if free_mb < needed_mb:
        raise HostError(
            what=f"{folder}: {free_mb} MB free",
            why=f"the build needs {needed_mb} MB there",
            remedy="make room on that disk, or set XDG_CACHE_HOME to a larger one",
        )


def _describe_os_error(error: OSError) -> AboxError:
    full = error.errno == errno.ENOSPC
    return HostError(
        what=f"the images were not built: {error.strerror or error}",
        why=f"the file was {error.filename}" if error.filename else "a file could not be written",
        remedy="make room on the disk, then try again" if full else "mend what it names, try again",
    )


def architecture() -> str:
    """Debian's name of this machine's architecture, which is also the image format's."""
    return run(["dpkg", "--print-architecture"]).strip()


if __name__ == "__main__":
    sys.exit(main())
