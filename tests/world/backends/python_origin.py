"""Python's own HTTP server as an origin: says on standard output how it read each request."""

from __future__ import annotations

import argparse
import json
import ssl
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Handler(BaseHTTPRequestHandler):
    """Reads a body by the one framing that the fields state, and answers with what it saw."""

    protocol_version = "HTTP/1.1"

    def _chunks(self) -> int:
        total = 0
        while size := int(self.rfile.readline().split(b";")[0].strip(), 16):
            total += len(self.rfile.read(size))
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass
        return total

    def _body(self) -> int:
        if "chunked" in self.headers.get("transfer-encoding", "").lower():
            return self._chunks()
        size = left = int(self.headers.get("content-length", "0"))
        while left:
            piece = self.rfile.read(min(left, 1 << 20))
            if not piece:
                break
            left -= len(piece)
        return size - left

    def _serve(self) -> None:
        _say(
            method=self.command,
            target=self.requestline.split()[1],  # self.path has its slashes merged
            host=self.headers.get("host", ""),
            length=self._body(),
        )
        self.send_response(200)
        self.send_header("content-length", "7")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(b"python\n")

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = do_TRACE = _serve

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Note that something came which the server couldn't read."""
        _say(malformed=f"{code} {message}")
        super().send_error(code, message, explain)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: requests are noted as they are read."""


def _say(**facts: object) -> None:
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("address")
    parser.add_argument("port", type=int)
    parser.add_argument("--chain", default="")
    parser.add_argument("--key", default="")
    arguments = parser.parse_args()
    server = ThreadingHTTPServer((arguments.address, arguments.port), Handler)
    if arguments.chain:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(arguments.chain, arguments.key)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    server.serve_forever()
