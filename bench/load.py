"""The load generator: built from bench/load, started against one subject after another."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests import host

SOURCES = host.ROOT / "bench" / "load"
BINARY = host.ROOT / ".abox" / "bench" / "load"
BUILD_S = 600


class LoadError(Exception):
    """A measurement that says nothing, because requests failed."""


@dataclass(frozen=True)
class Load:
    """What a run of the generator counted."""

    requests: int
    failures: int
    failure: str
    seconds: float
    bytes: int
    p50_us: float
    p99_us: float

    @property
    def per_second(self) -> float:
        """Requests that succeeded, per second."""
        return self.requests / self.seconds

    @property
    def megabytes_per_second(self) -> float:
        """Bodies in both directions, in 10^6 bytes per second."""
        return self.bytes / self.seconds / 1e6


def build() -> None:
    """Compile the generator, if its sources changed."""
    BINARY.parent.mkdir(parents=True, exist_ok=True)
    command = ["go", "build", "-trimpath", "-o", str(BINARY), "."]
    host.run(command, cwd=SOURCES, timeout_s=BUILD_S)


def run(
    *options: str,
    seconds: float,
    connections: int,
    allow_failures: float = 0.01,
    enter: Sequence[str] = (),
) -> Load:
    """Put load on and count.

    Args:
        options: of the generator, which say what is asked and by which way.
        enter: command that leads into the namespace that it runs in; empty: this one.
        seconds: how long.
        connections: at once.
        allow_failures: share of requests that may fail.
    Raises: LoadError if more failed, or nothing succeeded.
    """
    bounds = ["--seconds", str(seconds), "--connections", str(connections)]
    done = host.run([*enter, str(BINARY), *options, *bounds], timeout_s=seconds + 120)
    load = parse(done.stdout)
    if not load.requests or load.failures > allow_failures * (load.requests + load.failures):
        raise LoadError(f"{load.failures} of {load.requests + load.failures}: {load.failure}")
    return load


def parse(text: str) -> Load:
    """The generator's line of JSON."""
    found: dict[str, Any] = json.loads(text)
    return Load(
        requests=int(found["requests"]),
        failures=int(found["failures"]),
        failure=str(found.get("failure", "")),
        seconds=float(found["seconds"]),
        bytes=int(found["bytes"]),
        p50_us=float(found["p50_us"]),
        p99_us=float(found["p99_us"]),
    )


def hold(*options: str, connections: int, log: Path) -> host.Process[bytes]:
    """Connections that stay open until the process is ended; all of them were answered.

    Raises: LoadError if some were not.
    """
    command = [str(BINARY), *options, "--hold", "--connections", str(connections)]
    process = host.spawn(command, stderr_path=log)
    assert process.stdout is not None
    answered = int(process.stdout.readline() or 0)
    if answered != connections:
        host.end(process)
        raise LoadError(f"{answered} of {connections} connections were answered")
    return process


def serve_origin(
    enter: Sequence[str], address: str, pair: tuple[Path, Path], log: Path
) -> host.Process[bytes]:
    """Start the origin that everything is measured against.

    Args:
        enter: command that leads into its namespace.
        address: where it listens, ports 80 and 443.
        pair: files with its certificate chain and key.
        log: takes its complaints.
    """
    certificate, key = pair
    listen = ["--http", f"{address}:80", "--https", f"{address}:443"]
    files = ["--certificate", str(certificate), "--key", str(key)]
    return host.spawn([*enter, str(BINARY), "origin", *listen, *files], stderr_path=log)
