"""The container engine: is an image there, and load one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import IO

from abox.errors import HostError
from images.host import feed, run, run_any


def image_ids(references: list[str]) -> list[str | None]:
    """Id of each image, None for one that the engine doesn't have.

    Raises:
        HostError: no engine answers.
    """
    return [_image_id(reference) for reference in references]


def load(tag: str, write: Callable[[IO[bytes]], None]) -> str:
    """Load an image archive; returns the id that the engine gave it.

    Args:
        tag: the tag that the archive names.
        write: fills a stream with the archive.

    Raises:
        HostError: the engine refused it.
    """
    feed(["docker", "load", "--quiet"], write)
    loaded = _image_id(tag)
    if loaded is None:
        raise HostError(
            what=f"{tag} is not in the engine",
            why="docker load reported success, yet the image is not listed",
            remedy="look at the engine's log, then try again",
        )
    return loaded


def tag_image(identity: str, tag: str) -> None:
    """Give an image of the engine a tag.

    Raises:
        HostError: the engine refused it.
    """
    run(["docker", "image", "tag", identity, tag])


def data_folder() -> Path:
    """Where the engine keeps its images.

    Raises:
        HostError: no engine answers.
    """
    code, output, errors = run_any(["docker", "info", "--format", "{{.DockerRootDir}}"])
    if code != 0 or not output.strip():
        raise _no_engine(errors)
    return Path(output.strip())


def _image_id(reference: str) -> str | None:
    code, output, errors = run_any(["docker", "image", "inspect", "--format", "{{.Id}}", reference])
    if code == 0:
        return output.strip()
    if "no such image" in errors.lower():
        return None
    raise _no_engine(errors)


def _no_engine(said: str) -> HostError:
    lines = [line for line in said.splitlines() if line.strip()]
    return HostError(
        what="no container engine answers",
        why=lines[-1].strip() if lines else "docker gave no reason",
        remedy="start it with `make engine` (or dockerd by hand), then try again",
    )
