"""A client of the Docker engine with the three calls that the SDK lacks."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import docker
import docker.errors
from docker.utils.socket import demux_adaptor, frames_iter


@dataclass(frozen=True)
class ExecResult:
    """What a process in a container left behind."""

    exit_code: int
    stdout: bytes
    stderr: bytes


class Engine(docker.APIClient):
    """The SDK's low-level client, extended."""

    def find_container(self, container: str) -> dict[str, Any] | None:
        """Inspection of a container, None if the engine says that it doesn't exist."""
        try:
            found: dict[str, Any] = self.inspect_container(container)
        except docker.errors.NotFound:
            return None
        return found

    def find_network(self, network: str) -> dict[str, Any] | None:
        """Inspection of a network, None if the engine says that it doesn't exist."""
        try:
            found: dict[str, Any] = self.inspect_network(network)
        except docker.errors.NotFound:
            return None
        return found

    def find_image(self, image: str) -> dict[str, Any] | None:
        """Inspection of an image, None if the engine says that it doesn't exist."""
        try:
            found: dict[str, Any] = self.inspect_image(image)  # type: ignore[no-untyped-call]
        except docker.errors.NotFound:
            return None
        return found

    def set_resources(self, container: str, body: Mapping[str, Any]) -> None:
        """Change limits or the restart policy of a live container (the SDK knows no pids limit)."""
        # The stubs leave out what a subclass may use.
        url = self._url("/containers/{0}/update", container)  # type: ignore[attr-defined]
        answer = self._post_json(url, data=dict(body))  # type: ignore[attr-defined]
        self._raise_for_status(answer)  # type: ignore[attr-defined]

    def exec_with_input(
        self, container: str, command: list[str], *, stdin: bytes, timeout_s: int
    ) -> ExecResult:
        """Run ``command`` in a container, with ``stdin`` as its whole standard input."""
        made = self.exec_create(container, command, stdin=True)
        stream: Any = self.exec_start(made["Id"], socket=True)
        # Over a unix socket the SDK hands out a file object around the socket that we need.
        connection: socket.socket = getattr(stream, "_sock", stream)
        try:
            connection.settimeout(timeout_s)
            connection.sendall(stdin)
            connection.shutdown(socket.SHUT_WR)
            parts: tuple[list[bytes], list[bytes]] = ([], [])
            for frame in frames_iter(stream, tty=False):  # type: ignore[no-untyped-call]
                for kept, part in zip(parts, demux_adaptor(*frame), strict=True):
                    kept.append(part or b"")
        finally:
            stream.close()
            connection.close()  # the file object doesn't own it
        code: int = self.exec_inspect(made["Id"])["ExitCode"]
        return ExecResult(code, b"".join(parts[0]), b"".join(parts[1]))
