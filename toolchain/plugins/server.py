"""The process around a provider: port, threads, signals, and errors as the engine wants them."""

from __future__ import annotations

import functools
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent import futures
from typing import Any, Final, NoReturn, TypeAlias, TypeVar

import grpc
from google.protobuf import any_pb2
from pulumi.runtime.proto import provider_pb2, provider_pb2_grpc, status_pb2

from toolchain.plugins.wire_values import Properties, WireValueError, to_struct

WORKERS: Final = 64
"""Calls served at once; most of them wait for Docker or for a process."""

MAX_MESSAGE_BYTES: Final = 400 * 1024 * 1024
"""Largest gRPC message: the limit that the CLI and the SDK use."""

GRACE_S: Final = 1.0
"""Seconds that running calls get to end after a signal."""


class PluginError(Exception):
    """A call failed; the text goes to the user as it is."""


class PartlyMadeError(PluginError):
    """A resource exists, but not as it was asked for: the engine keeps it in the state."""

    def __init__(self, text: str, *, identity: str, properties: Properties) -> None:
        super().__init__(text)
        self.identity = identity
        self.properties = properties


Reply = TypeVar("Reply")
Handler: TypeAlias = Callable[[Any, Any], Reply]
"""A provider's method: itself, the request; it raises `PluginError`."""

Served: TypeAlias = Callable[[Any, Any, grpc.ServicerContext], Reply]
"""The same method as gRPC calls it."""


def answered(method: Handler[Reply]) -> Served[Reply]:
    """Turn errors of a provider's method into the answers that the engine reads."""

    @functools.wraps(method)
    def guarded(self: Any, request: Any, context: grpc.ServicerContext) -> Reply:
        try:
            return method(self, request)
        except PartlyMadeError as error:
            _abort_partly_made(context, error)
        except (PluginError, WireValueError) as error:
            _abort(context, str(error))

    return guarded


def _abort(context: grpc.ServicerContext, text: str) -> NoReturn:
    context.abort(grpc.StatusCode.UNKNOWN, text)
    raise AssertionError("abort doesn't return")


def _abort_partly_made(context: grpc.ServicerContext, error: PartlyMadeError) -> NoReturn:
    detail = provider_pb2.ErrorResourceInitFailed(
        id=error.identity, properties=to_struct(error.properties), reasons=[str(error)]
    )
    packed = any_pb2.Any()
    packed.Pack(detail)
    code = grpc.StatusCode.UNKNOWN
    status = status_pb2.Status(code=code.value[0], message=str(error), details=[packed])
    context.set_trailing_metadata((("grpc-status-details-bin", status.SerializeToString()),))
    _abort(context, str(error))


def serve(servicer: provider_pb2_grpc.ResourceProviderServicer) -> int:
    """Serve a provider until the process is told to end; the port is the first line printed.

    SIGTERM and SIGINT end it quietly: the CLI sends them when it is done with a plugin.
    """
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: stop.set())
    server = grpc.server(
        futures.ThreadPoolExecutor(max_workers=WORKERS),
        options=[
            ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
            ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
        ],
    )
    provider_pb2_grpc.add_ResourceProviderServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()
    stop.wait()
    server.stop(GRACE_S).wait()
    return 0


def engine_address(arguments: Sequence[str]) -> str | None:
    """Where the engine listens for log lines: the last argument that isn't a flag."""
    positional = [argument for argument in arguments if not argument.startswith("-")]
    return positional[-1] if positional else None
