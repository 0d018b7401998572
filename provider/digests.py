"""Digests of big files, remembered until a file changes: every preview asks for them."""

from __future__ import annotations

import hashlib
from pathlib import Path

from provider import host

FOLDER = "digests"
"""Below the host's state."""


def file_digest(path: Path, remembered: Path) -> str:
    """SHA-256 of a file in lower-case hex.

    Args:
        path: the file.
        remembered: folder of what was found out before.
    Raises: OSError if the file can't be read.
    """
    stat = path.stat()
    # A changed content changes the time of change, which no user can set back.
    seen = [str(path), stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns]
    memory = remembered / f"{hashlib.sha256(str(path).encode()).hexdigest()[:32]}.json"
    known = host.read_document(memory)
    if known is not None and known.get("seen") == seen:
        return str(known.get("sha256"))
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    host.write_document(memory, {"seen": seen, "sha256": digest})
    return digest


def on_this_host(path: str) -> str:
    """SHA-256 of a file, remembered in the host's state."""
    return file_digest(Path(path), host.state_dir() / FOLDER)
