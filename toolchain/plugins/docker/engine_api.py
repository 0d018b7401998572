"""The Docker Engine API over its socket, with errors as Docker's client words them."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote, urlencode, urlsplit

from toolchain.plugins.bridge.resource import ResourceError

NEWEST_API: Final = (1, 51)
"""The newest version of the API that the official plugin speaks."""

TIMEOUT_S: Final = 120.0
"""Time limit of a request; stopping a container waits at most its grace time."""

TIMEOUTS: Final = dict.fromkeys(("create", "delete", "update"), 20 * 60)
"""Limits in seconds that the bridged provider notes for containers and images."""

SCHEMES: Final = ("unix", "tcp", "http")


class EngineError(ResourceError):
    """The engine refused a request."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(f"Error response from daemon: {message}")
        self.status = status

    def says(self, *parts: str) -> bool:
        """Whether the message has one of the parts, whatever the case of letters."""
        return any(part.lower() in str(self).lower() for part in parts)


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout_s: float) -> None:
        super().__init__("localhost", timeout=timeout_s)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


@dataclass
class Engine:
    """One engine, named by its address; safe to use from many threads."""

    host: str
    checked: bool = True
    """Whether it must answer a ping before the first request."""
    _version: tuple[int, int] | None = field(default=None, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    def version(self) -> tuple[int, int]:
        """Version of the API that both sides speak; the first call asks the engine.

        Raises:
            ResourceError: it doesn't answer.
        """
        with self._lock:
            if self._version is None:
                self._version = min(self._ping(), NEWEST_API)
            return self._version

    def _ping(self) -> tuple[int, int]:
        try:
            _, headers = self._exchange("GET", "/_ping", b"", None, TIMEOUT_S)
        except ResourceError as error:
            if not self.checked:
                raise
            raise ResourceError(
                "failed to create Docker client: Error pinging Docker server, please make sure "
                f"that {self.host} is reachable and has a  '_ping' endpoint. Error: {error}"
            ) from error
        major, minor = headers.get("Api-Version", "1.41").split(".")
        return int(major), int(minor)

    def get(self, path: str, **query: object) -> Any:
        """What the engine says about something."""
        return self._call("GET", path, query, None)

    def post(
        self,
        path: str,
        body: Mapping[str, Any] | None = None,
        timeout_s: float = TIMEOUT_S,
        **query: object,
    ) -> Any:
        """Make or do something."""
        return self._call("POST", path, query, body, timeout_s)

    def delete(self, path: str, **query: object) -> Any:
        """Take something away."""
        return self._call("DELETE", path, query, None)

    def put_archive(self, container: str, archive: bytes) -> None:
        """Unpack a tar archive at the container's root."""
        major, minor = self.version()
        path = f"/v{major}.{minor}/containers/{quote(container)}/archive?path=/"
        self._exchange("PUT", path, archive, "application/x-tar", TIMEOUT_S)

    def _call(
        self,
        method: str,
        path: str,
        query: Mapping[str, object],
        body: Mapping[str, Any] | None,
        timeout_s: float = TIMEOUT_S,
    ) -> Any:
        major, minor = self.version()
        target = f"/v{major}.{minor}{path}"
        if query:
            target += "?" + urlencode({key: _spelled(value) for key, value in query.items()})
        sent = b"" if body is None else json.dumps(body).encode()
        answer, _ = self._exchange(
            method, target, sent, None if body is None else "application/json", timeout_s
        )
        try:
            return json.loads(answer) if answer else None
        except ValueError:
            return answer.decode(errors="replace")

    def _exchange(
        self, method: str, target: str, body: bytes, content_type: str | None, timeout_s: float
    ) -> tuple[bytes, Mapping[str, str]]:
        connection = self._connect(timeout_s)
        headers = {"Content-Type": content_type} if content_type else {}
        try:
            connection.request(method, target, body or None, headers)
            response = connection.getresponse()
            answer = response.read()
        except TimeoutError as error:
            raise ResourceError(
                f"the Docker daemon at {self.host} didn't answer {method} {urlsplit(target).path} "
                f"within {timeout_s:g} s"
            ) from error
        except (OSError, http.client.HTTPException) as error:
            raise ResourceError(
                f"Cannot connect to the Docker daemon at {self.host}. "
                f"Is the docker daemon running? ({error})"
            ) from error
        finally:
            connection.close()
        if response.status >= http.client.BAD_REQUEST:
            raise EngineError(_message(answer), response.status)
        return answer, dict(response.headers)

    def _connect(self, timeout_s: float) -> http.client.HTTPConnection:
        parts = urlsplit(self.host)
        if parts.scheme == "unix":
            return _UnixConnection(parts.path, timeout_s)
        return http.client.HTTPConnection(parts.netloc, timeout=timeout_s)


def _spelled(value: object) -> str:
    if isinstance(value, bool):
        return "1" if value else "0"
    return str(value)


def _message(answer: bytes) -> str:
    try:
        return str(json.loads(answer)["message"])
    except (ValueError, KeyError, TypeError):
        return answer.decode(errors="replace").strip()
