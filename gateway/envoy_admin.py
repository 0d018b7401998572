"""Envoy's admin interface on its unix socket: what is live, what was refused."""

from __future__ import annotations

import http.client
import json
import re
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

TIMEOUT_S = 5
"""Seconds until an admin request counts as failed."""

_REGEX_MAX = 32
"""Characters of a name that are searched for."""


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("admin", timeout=TIMEOUT_S)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(TIMEOUT_S)
        self.sock.connect(str(self._path))


@dataclass(frozen=True)
class EnvoyAdmin:
    """The admin interface behind a unix socket. Every method raises OSError if nobody answers."""

    socket: Path

    def get(self, target: str, method: str = "GET") -> str:
        """Body of an answer.

        Raises: OSError if the status isn't 200 or nobody answers.
        """
        connection = _UnixConnection(self.socket)
        try:
            connection.request(method, target)
            answer = connection.getresponse()
            body = answer.read().decode()
        except http.client.HTTPException as error:
            raise OSError(f"envoy admin {target}: {error}") from error
        finally:
            connection.close()
        if answer.status != 200:
            raise OSError(f"envoy admin {target}: status {answer.status}")
        return body

    def is_live(self) -> bool:
        """Whether Envoy serves: all its configuration was loaded."""
        return self.get("/ready").strip() == "LIVE"

    def routes(self) -> dict[str, Mapping[str, Any]]:
        """Route configurations in force, by name."""
        dump = json.loads(self.get("/config_dump?resource=dynamic_route_configs"))
        return {
            config["route_config"]["name"]: config
            for config in dump.get("configs", ())
            if "route_config" in config
        }

    def listener(self, name: str) -> Mapping[str, Any] | None:
        """The configuration in force of a listener that came from a file, if it stands."""
        dump = json.loads(self.get("/config_dump?resource=dynamic_listeners"))
        for one in dump.get("configs", ()):
            if one["name"] == name and "active_state" in one:
                return _without_type(one["active_state"]["listener"])
        return None

    def clusters(self) -> dict[str, Mapping[str, Any]]:
        """Clusters in force beside those of the bootstrap, by name."""
        dump = json.loads(self.get("/config_dump?resource=dynamic_active_clusters"))
        found = [config["cluster"] for config in dump.get("configs", ()) if "cluster" in config]
        return {cluster["name"]: _without_type(cluster) for cluster in found}

    def secret_version(self, name: str) -> str:
        """Version of a secret in force; empty if Envoy doesn't have it."""
        # Envoy refuses long expressions, and there may be thousands of certificates.
        pattern = quote(f".*{re.escape(name[-_REGEX_MAX:])}")
        dump = self.get(f"/config_dump?resource=dynamic_active_secrets&name_regex={pattern}")
        configs = json.loads(dump).get("configs", ())
        return next((str(one["version_info"]) for one in configs if one["name"] == name), "")

    def counters(self, pattern: str) -> dict[str, int]:
        """Counters and gauges whose names match a regular expression."""
        text = self.get(f"/stats?filter={quote(pattern)}")
        return dict(_counters(text))


def _without_type(message: Mapping[str, Any]) -> dict[str, Any]:
    """A message of a dump, where it stands wrapped in ``Any``."""
    return {name: value for name, value in message.items() if name != "@type"}


def _counters(text: str) -> Iterator[tuple[str, int]]:
    for line in text.splitlines():
        name, _, value = line.rpartition(": ")
        if name and value.isdigit():
            yield name, int(value)
