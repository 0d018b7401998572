"""Answers from a folder: its files, and its bare git repositories by git's own service."""

from __future__ import annotations

import gzip
import json
import mimetypes
import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import parse_qs, unquote

from tests import host

Response = tuple[int, dict[str, str], bytes]
"""Status, header fields, body."""

_REPOSITORY = re.compile(r"/(?P<name>[\w.-]+\.git)/(?P<rest>info/refs|git-(?:up|re)\w+-pack)")
_SERVICES = ("git-upload-pack", "git-receive-pack")


def answer_from_folder(
    folder: Path, target: str, asked: Mapping[str, str], body: bytes
) -> Response:
    """What a folder says to a request.

    Args:
        folder: its files are served under their paths; ``NAME.fields`` is a JSON object with the
            header fields of NAME. A folder called ``*.git`` in it can be cloned and pushed to.
        target: the request's target in origin form.
        asked: the request's header fields, names in lower case.
        body: the request's body.
    """
    path, _, query = target.partition("?")
    if found := _REPOSITORY.fullmatch(path):
        service = parse_qs(query).get("service", [""])[0] or found["rest"]
        if service in _SERVICES and (folder / found["name"]).is_dir():
            return _git(folder / found["name"], service, asked, body, greet="info" in path)
    return _file(folder, unquote(path))


def _file(folder: Path, name: str) -> Response:
    path = (folder / name.lstrip("/")).resolve()
    if path.is_dir():
        path = path / "index.html"
    if not path.is_relative_to(folder.resolve()) or not path.is_file():
        return 404, {"content-type": "text/plain"}, b"no such file\n"
    kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    fields = path.with_name(f"{path.name}.fields")
    more = json.loads(fields.read_text()) if fields.is_file() else {}
    return 200, {"content-type": kind, **more}, path.read_bytes()


def _git(
    repository: Path, service: str, asked: Mapping[str, str], body: bytes, *, greet: bool
) -> Response:
    """The stateless half of git's smart protocol over HTTP (gitprotocol-http(5))."""
    command = [
        service,
        "--stateless-rpc",
        *(["--advertise-refs"] if greet else []),
        str(repository),
    ]
    if asked.get("content-encoding") == "gzip":
        body = gzip.decompress(body)
    environment = {"GIT_PROTOCOL": asked.get("git-protocol", "")}
    said = host.transform(command, b"" if greet else body, env=environment)
    if not greet:
        return 200, {"content-type": f"application/x-{service}-result"}, said
    line = f"# service={service}\n"
    said = f"{len(line) + 4:04x}{line}0000".encode() + said
    return 200, {"content-type": f"application/x-{service}-advertisement"}, said
