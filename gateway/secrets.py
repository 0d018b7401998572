"""Envoy's secret discovery service: a certificate for every name that Envoy asks for."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path

import grpc
import grpc.aio

from gateway.authority import Authority
from gateway.messages import SecretRequest, parse_request, render_response

_SERVICE = "envoy.service.secret.v3.SecretDiscoveryService"
_LOG = logging.getLogger(__name__)


@dataclass
class SecretService:
    """Answers Envoy's streams from the authority that is in force.

    ``may_mint`` says for which names there are certificates; the others are refused, which ends
    the handshake.
    """

    may_mint: Callable[[str], bool]
    authority: Authority | None = None
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def replace_authority(self, authority: Authority) -> None:
        """From now on sign with this authority; names that were handed out get new leaves."""
        self.authority = authority
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def stream(
        self, requests: AsyncIterator[bytes], _context: object
    ) -> AsyncIterator[bytes]:
        """One stream of Envoy's: requests in, certificates out."""
        names: set[str] = set()
        nonce = 0
        pending = asyncio.ensure_future(anext(requests, None))
        while True:
            changed = asyncio.ensure_future(self._changed.wait())
            await asyncio.wait((pending, changed), return_when=asyncio.FIRST_COMPLETED)
            renewed = changed.done()
            changed.cancel()
            asked: set[str] = set()
            if pending.done():
                data = pending.result()
                if data is None:
                    return
                asked = self._take(parse_request(data), names)
                pending = asyncio.ensure_future(anext(requests, None))
            wanted = names if renewed else asked
            if wanted and self.authority:
                nonce += 1
                yield self._answer(self.authority, sorted(wanted), str(nonce))

    def _take(self, request: SecretRequest, names: set[str]) -> set[str]:
        if request.rejected:
            _LOG.error("envoy refused a certificate: %s", request.rejected)
        names.difference_update(request.unsubscribe)
        names.update(request.subscribe)
        return set(request.subscribe)

    def _answer(self, authority: Authority, names: list[str], nonce: str) -> bytes:
        granted = [name for name in names if self.may_mint(name)]
        leaves = [(name, authority.leaf(name)) for name in granted]
        refused = [name for name in names if name not in set(granted)]
        return render_response(
            ((name, leaf.version, leaf.certificate) for name, leaf in leaves), refused, nonce
        )


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
