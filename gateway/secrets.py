"""Envoy's secret discovery service: certificates and values for the names that Envoy asks for."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from gateway.messages import Certificate, SecretRequest, Value, parse_request, render_response

_SERVICE = "envoy.service.secret.v3.SecretDiscoveryService"
_LOG = logging.getLogger(__name__)

Found = tuple[str, Certificate | Value]
"""Version and content of a secret."""


@dataclass
class SecretService:
    """Answers Envoy's streams, again for all their names when something has changed.

    ``find`` gives what stands behind a name; names without anything are refused, which ends the
    handshake, or the request, that waits for it.
    """

    find: Callable[[str], Found | None]
    ready: bool = True
    """Until then nobody is answered."""
    held_max: int | None = None
    """Most streams with something in hand: Envoy opens one a name, and asks again if need be."""
    _holding: dict[asyncio.Event, None] = field(default_factory=dict)
    """By what tells a stream to let go, the oldest first."""
    _generation: int = 0
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def renew(self) -> None:
        """What was handed out may have changed."""
        self._generation += 1
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def stream(
        self, requests: AsyncIterator[bytes], _context: object
    ) -> AsyncIterator[bytes]:
        """One stream of Envoy's: requests in, secrets out."""
        let_go = asyncio.Event()
        try:
            async for answer in self._answers(requests, let_go):
                yield answer
        finally:
            self._holding.pop(let_go, None)

    async def _answers(
        self, requests: AsyncIterator[bytes], let_go: asyncio.Event
    ) -> AsyncIterator[bytes]:
        names: set[str] = set()
        nonce, generation = 0, self._generation
        pending = asyncio.ensure_future(anext(requests, None))
        while True:
            # While an answer is on its way the service may change: then there is no waiting.
            if generation == self._generation:
                await _any(pending, self._changed, let_go)
            dropped = set(names) if let_go.is_set() else set()
            names -= dropped
            let_go.clear()
            wanted = names if generation != self._generation else set()
            generation = self._generation
            if pending.done():
                data = pending.result()
                if data is None:
                    return
                wanted = wanted | self._take(parse_request(data), names)
                pending = asyncio.ensure_future(anext(requests, None))
            if (wanted or dropped) and self.ready:
                nonce += 1
                self._hold(let_go, holds=bool(names))
                yield self._answer(sorted(wanted), sorted(dropped - wanted), str(nonce))

    def _hold(self, let_go: asyncio.Event, *, holds: bool) -> None:
        """Count a stream, and have the oldest let go if there are too many."""
        self._holding.pop(let_go, None)
        if holds:
            self._holding[let_go] = None
        if self.held_max is not None and len(self._holding) > self.held_max:
            oldest = next(iter(self._holding))
            del self._holding[oldest]
            oldest.set()

    def _take(self, request: SecretRequest, names: set[str]) -> set[str]:
        if request.rejected:
            _LOG.error("envoy refused a secret: %s", request.rejected)
        names.difference_update(request.unsubscribe)
        names.update(request.subscribe)
        return set(request.subscribe)

    def _answer(self, names: list[str], dropped: list[str], nonce: str) -> bytes:
        found = [(name, self.find(name)) for name in names]
        granted = [(name, *secret) for name, secret in found if secret]
        refused = [name for name, secret in found if not secret]
        return render_response(granted, [*refused, *dropped], nonce)


async def _any(pending: asyncio.Future[bytes | None], *events: asyncio.Event) -> None:
    """Wait for a request, or for one of some events."""
    waiting = [asyncio.ensure_future(event.wait()) for event in events]
    tasks: set[asyncio.Future[Any]] = {pending, *waiting}
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for one in waiting:
        one.cancel()


async def start_server(service: SecretService, socket: Path) -> grpc.aio.Server:
    """Serve on a unix socket that its group may use."""
    server = grpc.aio.server(options=(("grpc.so_reuseport", 0),))
    handler = grpc.stream_stream_rpc_method_handler(service.stream)
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler(_SERVICE, {"DeltaSecrets": handler}),)
    )
    socket.unlink(missing_ok=True)
    server.add_insecure_port(f"unix:{socket}")
    await server.start()
    socket.chmod(0o660)
    return server
