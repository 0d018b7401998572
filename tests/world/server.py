"""The process inside a test namespace: resolver, origins and capture, told what to do on stdin.

One JSON request a line, one JSON answer a line; the process ends when its input ends, so a crashed
test run leaves none behind.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from tests.world.capture import Capture
from tests.world.certificates import Authority
from tests.world.names import Resolver, Tables, serve_names
from tests.world.origins import Origins, Spec

LONGEST_LINE = 64 << 20


class Server:
    """Carries out the requests of the test run."""

    def __init__(self, capture: Capture) -> None:
        self._capture = capture
        self._authority = Authority()
        self._resolver = Resolver()
        self._origins = Origins(self._authority)
        self._operations: dict[str, Callable[[dict[str, Any]], Awaitable[Any]]] = {
            "listen": self._listen,
            "set_names": self._set_names,
            "add_origin": self._add_origin,
            "reset": self._reset,
            "clear_records": self._clear_records,
            "seen": self._seen,
            "ca": self._ca,
            "leaf": self._leaf,
        }

    async def perform(self, request: dict[str, Any]) -> dict[str, Any]:
        """One request; a failure is an answer too."""
        try:
            result = await self._operations[request["op"]](request)
        except (OSError, ValueError, KeyError) as error:
            return {"error": f"{type(error).__name__}: {error}"}
        return {"result": result}

    async def _listen(self, request: dict[str, Any]) -> None:
        await serve_names(self._resolver, request["address"])

    async def _set_names(self, request: dict[str, Any]) -> None:
        self._resolver.tables = Tables.from_document(request["tables"])

    async def _add_origin(self, request: dict[str, Any]) -> None:
        def names_of(address: str) -> list[str]:
            return list(request.get("names", ())) or self._resolver.tables.names_of(address)

        await self._origins.add(Spec.from_document(request["origin"], names_of))

    async def _reset(self, _request: dict[str, Any]) -> None:
        self._resolver.reset()
        await self._origins.clear()
        self._capture.clear()

    async def _clear_records(self, _request: dict[str, Any]) -> None:
        self._resolver.reset(self._resolver.tables)
        self._origins.book.clear()
        self._capture.clear()

    async def _seen(self, _request: dict[str, Any]) -> dict[str, Any]:
        book = self._origins.book
        return {
            "queries": [[q.name, q.type, q.transport] for q in self._resolver.queries],
            "connections": [c.to_document() for c in book.connections],
            "requests": [r.to_document() for r in book.requests],
            "server_names": book.server_names,
            "packets": [p.to_document() for p in self._capture.packets()],
        }

    async def _ca(self, _request: dict[str, Any]) -> str:
        return self._authority.pem

    async def _leaf(self, request: dict[str, Any]) -> dict[str, str]:
        pair = self._authority.leaf(request["names"])
        return {"certificate": pair.certificate, "key": pair.key}


def _stay_silent() -> None:
    """Let packets to addresses that the world doesn't have vanish, instead of refusing them."""
    Path("/proc/sys/net/ipv4/ip_forward").write_text("0")


async def _main(interface: str) -> None:
    if interface:
        _stay_silent()
    loop = asyncio.get_running_loop()
    server = Server(Capture(interface))
    reader = asyncio.StreamReader(limit=LONGEST_LINE)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        answer = await server.perform(json.loads(line))
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--interface", default="", help="the world's leg, to capture on; all if empty"
    )
    asyncio.run(_main(parser.parse_args().interface))
