"""Writes image layers and image archives: equal trees give equal bytes, hence equal ids.

A layer is a tar file in the order of its paths, with one fixed time for everything, without user
names, extended attributes, devices or sockets. What a layer holds is also kept as a manifest, so
that the next layer can be written as the difference to it without unpacking anything.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import stat
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

EPOCH_S = 1_577_836_800
"""Modification time of every file and creation time of every image: 2020-01-01 UTC."""

CREATED = "2020-01-01T00:00:00Z"
"""The same moment as `EPOCH_S`, as image configurations spell it."""

WHITEOUT = ".wh."
"""Prefix of the empty file that takes away a file of the layers below (OCI image layer format)."""

_CHUNK = 1 << 20

Manifest = dict[str, str]
"""Path without leading slash → what stands there: type, mode, owner, content."""


@dataclass(frozen=True, kw_only=True)
class Layer:
    """One finished layer in a folder of layers."""

    diff_id: str
    """`sha256:…` of the uncompressed tar file."""
    size: int
    """Bytes of the uncompressed tar file."""
    manifest: Manifest
    """What the layer and the layers below it hold together."""


def scan(root: Path) -> Manifest:
    """Describe every file below `root` that a layer can hold."""
    return {path: _describe(root / path) for path in walk(root)}


def write_layer(
    root: Path,
    folder: Path,
    *,
    below: Mapping[str, str] | None = None,
    on_progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> Layer:
    """Write what `root` holds as a compressed layer into `folder`.

    Args:
        root: a whole root filesystem, or, with `below` None or complete, what it adds.
        folder: takes the file `<diff id's hex>.tar.gz`.
        below: manifest of the layers below; only what differs from it is written, and what it has
            and `root` lacks is taken away.
        on_progress: called with entries written and entries in all.
    """
    below = below or {}
    manifest = scan(root)
    wanted = _entries(manifest, below)
    partial = folder / f".partial-{os.getpid()}"
    digest = _Digest()
    with partial.open("wb") as raw, gzip.GzipFile("", "wb", 1, raw, mtime=0) as packed:
        digest.target = packed
        with tarfile.open(fileobj=digest, mode="w", format=tarfile.PAX_FORMAT) as tar:
            first: dict[tuple[int, int], str] = {}
            for done, path in enumerate(wanted):
                _add(tar, root, path, first)
                on_progress(done + 1, len(wanted))
    partial.replace(folder / layer_file(digest.hexdigest()))
    return Layer(diff_id=f"sha256:{digest.hexdigest()}", size=digest.size, manifest=manifest)


def layer_file(diff_id: str) -> str:
    """Name of a layer's file in a folder of layers."""
    return f"{diff_id.removeprefix('sha256:')}.tar.gz"


def image_config(config: Mapping[str, Any], diff_ids: Sequence[str], architecture: str) -> bytes:
    """The image's configuration; its SHA-256 is the image's id."""
    document = {
        "architecture": architecture,
        "config": dict(config),
        "created": CREATED,
        "history": [{"created": CREATED, "created_by": "abox images.build"} for _ in diff_ids],
        "os": "linux",
        "rootfs": {"diff_ids": list(diff_ids), "type": "layers"},
    }
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()


def image_id(config: bytes) -> str:
    """`sha256:…` by which the engine knows an image with this configuration."""
    return f"sha256:{hashlib.sha256(config).hexdigest()}"


def write_archive(
    target: IO[bytes],
    *,
    config: bytes,
    tag: str,
    layers: Sequence[tuple[str, int]],
    folder: Path,
) -> None:
    """Write an archive for `docker load`.

    Args:
        target: takes the archive; needs no seeking.
        config: what `image_config` gave.
        tag: name under which the engine lists the image.
        layers: diff id and uncompressed size of each layer, lowest first.
        folder: where the layers' files are.
    """
    name = f"{image_id(config).removeprefix('sha256:')}.json"
    paths = [f"{diff_id.removeprefix('sha256:')}/layer.tar" for diff_id, _ in layers]
    manifest = json.dumps([{"Config": name, "Layers": paths, "RepoTags": [tag]}]).encode()
    with tarfile.open(fileobj=target, mode="w|", format=tarfile.PAX_FORMAT) as tar:
        tar.addfile(_header(name, len(config)), io.BytesIO(config))
        tar.addfile(_header("manifest.json", len(manifest)), io.BytesIO(manifest))
        for path, (diff_id, size) in zip(paths, layers, strict=True):
            with gzip.open(folder / layer_file(diff_id)) as layer:
                tar.addfile(_header(path, size), layer)


class _Digest(io.RawIOBase):
    """Passes bytes on to `target`, hashing and counting them."""

    def __init__(self) -> None:
        self.target: IO[bytes] | gzip.GzipFile | None = None
        self.size = 0
        self._hash = hashlib.sha256()

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        self._hash.update(data)
        self.size += len(data)
        if self.target is not None:
            self.target.write(data)
        return len(data)

    def tell(self) -> int:
        return self.size

    def hexdigest(self) -> str:
        return self._hash.hexdigest()


def walk(root: Path, prefix: str = "") -> Iterator[str]:
    """Paths below `root`, parents first, each folder in the order of its names."""
    with os.scandir(root / prefix) as listing:
        found = sorted(listing, key=lambda entry: os.fsencode(entry.name))
    for entry in found:
        path = f"{prefix}{entry.name}"
        mode = entry.stat(follow_symlinks=False).st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode)):
            continue
        yield path
        if stat.S_ISDIR(mode):
            yield from walk(root, f"{path}/")


def _describe(path: Path) -> str:
    found = path.lstat()
    owner = f"{stat.S_IMODE(found.st_mode):04o} {found.st_uid}:{found.st_gid}"
    if stat.S_ISDIR(found.st_mode):
        return f"d {owner}"
    if stat.S_ISLNK(found.st_mode):
        return f"l {found.st_uid}:{found.st_gid} {path.readlink()}"
    with path.open("rb") as content:
        return f"f {owner} {hashlib.file_digest(content, 'sha256').hexdigest()}"


def _entries(manifest: Mapping[str, str], below: Mapping[str, str]) -> list[str]:
    """Paths to write: what differs, with its parents, and the marks of what is taken away.

    Parents are written even where they are the same: an engine gives a parent that a layer leaves
    out a mode of its own liking.
    """
    wanted: set[str] = set()
    for path, described in manifest.items():
        if below.get(path) != described:
            wanted.add(path)
            wanted.update(_parents(path))
    for path in below.keys() - manifest.keys():
        parent, _, name = path.rpartition("/")
        if not parent or manifest.get(parent, "").startswith("d "):
            wanted.add(f"{parent}/{WHITEOUT}{name}" if parent else f"{WHITEOUT}{name}")
            wanted.update(_parents(path))
    return sorted(wanted, key=lambda path: [os.fsencode(part) for part in path.split("/")])


def _parents(path: str) -> Iterator[str]:
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path


def _add(tar: tarfile.TarFile, root: Path, path: str, first: dict[tuple[int, int], str]) -> None:
    """Add one path; a further name of a file that is already in becomes a hard link to it."""
    if path.rpartition("/")[2].startswith(WHITEOUT):
        tar.addfile(_header(path, 0))
        return
    source = root / path
    found = source.lstat()
    info = _header(path, 0)
    info.mode, info.uid, info.gid = stat.S_IMODE(found.st_mode), found.st_uid, found.st_gid
    if stat.S_ISDIR(found.st_mode):
        info.type = tarfile.DIRTYPE
        tar.addfile(info)
    elif stat.S_ISLNK(found.st_mode):
        info.type, info.linkname, info.mode = tarfile.SYMTYPE, str(source.readlink()), 0o777
        tar.addfile(info)
    elif (known := first.get((found.st_dev, found.st_ino))) is not None:
        info.type, info.linkname = tarfile.LNKTYPE, known
        tar.addfile(info)
    else:
        if found.st_nlink > 1:
            first[(found.st_dev, found.st_ino)] = path
        info.size = found.st_size
        with source.open("rb", buffering=_CHUNK) as content:
            tar.addfile(info, content)


def _header(path: str, size: int) -> tarfile.TarInfo:
    info = tarfile.TarInfo(path)
    info.size, info.mode, info.mtime = size, 0o644, EPOCH_S
    return info
