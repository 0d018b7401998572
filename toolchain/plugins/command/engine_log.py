"""Lines for the engine's own display, as a command prints them."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Any

import grpc
from pulumi.runtime.proto import engine_pb2, engine_pb2_grpc


class EngineLog:
    """Sends lines to the engine; without an address it sends nothing."""

    def __init__(self, address: str | None) -> None:
        self._address = address
        self._stub: Any = None
        self._lock = threading.Lock()

    def info(self, urn: str, line: str) -> None:
        """A passing line beside the resource; a lost one doesn't matter."""
        if self._address is None:
            return
        with self._lock:
            if self._stub is None:
                channel = grpc.insecure_channel(self._address)
                self._stub = engine_pb2_grpc.EngineStub(channel)
        request = engine_pb2.LogRequest(
            severity=engine_pb2.INFO, message=line, urn=urn, ephemeral=True
        )
        with suppress(grpc.RpcError):
            self._stub.Log(request, timeout=5)
