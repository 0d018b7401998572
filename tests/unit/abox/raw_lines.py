"""Lines as Envoy and Unbound write them, for the tests of what reads them."""

from __future__ import annotations

import json

LINE = {
    "address": "198.51.100.10:443", "client": "10.10.3.10", "details": "via_upstream",
    "duration_ms": 7, "flags": "-", "mark": "tls", "method": "GET", "name": "a.test",
    "path": "/x", "port": "443", "protocol": "HTTP/2", "reason": None, "received": 3,
    "rule": None, "sent": 222, "status": 200, "time": "2026-11-30T04:27:08.483Z",
    "tls_failure": None,
}  # fmt: skip
DENIED = {"status": 403, "details": "direct_response", "reason": "not_allowed", "address": None}


def request(**changes) -> bytes:
    return json.dumps({**LINE, **changes}).encode() + b"\n"


def reply(
    name="evil.test", *, rcode="NXDOMAIN", kind="A", client="10.10.3.10", time=1796013749, size=53
) -> bytes:
    return (
        f"[{time}] unbound[9:0] reply: {client} {name}. {kind} IN {rcode} 0.012000 1 {size}\n"
    ).encode()
