"""gRPC's own server as an origin: one method of each kind, bytes in and bytes out."""

from __future__ import annotations

import argparse
import json
import sys
import threading
from collections.abc import Iterator
from concurrent import futures
from pathlib import Path

import grpc

SERVICE = "abxt.Echo"


def _say(**facts: object) -> None:
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()


def _unary(request: bytes, context: grpc.ServicerContext) -> bytes:
    fields = {str(k): str(v) for k, v in context.invocation_metadata()}
    _say(method="Unary", length=len(request), fields=fields)
    context.set_trailing_metadata((("abxt-trailer", "kept"),))
    if request == b"fail":
        context.abort(grpc.StatusCode.FAILED_PRECONDITION, "told to fail")
    return request


def _download(request: bytes, _: grpc.ServicerContext) -> Iterator[bytes]:
    _say(method="Download", length=len(request))
    for number in range(int(request)):
        yield str(number).encode()


def _upload(requests: Iterator[bytes], _: grpc.ServicerContext) -> bytes:
    total = sum(len(piece) for piece in requests)
    _say(method="Upload", length=total)
    return str(total).encode()


def _both(requests: Iterator[bytes], _: grpc.ServicerContext) -> Iterator[bytes]:
    _say(method="Both", length=0)
    for piece in requests:
        yield piece[::-1]


def _handlers() -> grpc.GenericRpcHandler[bytes, bytes]:
    return grpc.method_handlers_generic_handler(
        SERVICE,
        {
            "Unary": grpc.unary_unary_rpc_method_handler(_unary),
            "Download": grpc.unary_stream_rpc_method_handler(_download),
            "Upload": grpc.stream_unary_rpc_method_handler(_upload),
            "Both": grpc.stream_stream_rpc_method_handler(_both),
        },
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("address")
    parser.add_argument("port", type=int)
    parser.add_argument("--chain", type=Path, required=True)
    parser.add_argument("--key", type=Path, required=True)
    arguments = parser.parse_args()
    server = grpc.server(futures.ThreadPoolExecutor(4))
    server.add_generic_rpc_handlers((_handlers(),))
    pair = (arguments.key.read_bytes(), arguments.chain.read_bytes())
    server.add_secure_port(
        f"{arguments.address}:{arguments.port}", grpc.ssl_server_credentials([pair])
    )
    server.start()
    threading.Event().wait()
