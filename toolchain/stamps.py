"""Content hashes: a step whose sources have the recorded hash has nothing to do."""

import hashlib
from collections.abc import Iterable
from pathlib import Path


def content_hash(paths: Iterable[Path], *extra: str) -> str:
    """SHA-256 over the contents of files and folders, and over further texts.

    A folder counts with the relative name and content of each file in it, byte-compiled Python
    left out. Order of the arguments matters, time stamps and absolute paths don't.
    """
    total = hashlib.sha256()
    for path in paths:
        for file in _files(path):
            _add(total, str(file.relative_to(path.parent)).encode())
            _add(total, file.read_bytes())
    for text in extra:
        _add(total, text.encode())
    return total.hexdigest()


def _files(path: Path) -> list[Path]:
    """The files of a folder in a stable order; a file is its own only one."""
    if not path.is_dir():
        return [path]
    found = (file for file in path.rglob("*") if file.is_file())
    return sorted(file for file in found if "__pycache__" not in file.parts)


def _add(total: "hashlib._Hash", data: bytes) -> None:
    """Add a piece with its length, so that no two lists of pieces hash alike."""
    total.update(len(data).to_bytes(8, "big"))
    total.update(data)


def is_current(stamp: Path, digest: str) -> bool:
    """Whether the step was finished with these sources."""
    try:
        return stamp.read_text().strip() == digest
    except FileNotFoundError:
        return False


def record(stamp: Path, digest: str) -> None:
    """Write down that the step is finished with these sources."""
    stamp.parent.mkdir(parents=True, exist_ok=True)
    stamp.write_text(f"{digest}\n")


def forget(stamp: Path) -> None:
    """Write down that the step has to be done again."""
    stamp.unlink(missing_ok=True)
