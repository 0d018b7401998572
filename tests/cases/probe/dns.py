"""DNS questions, well-formed or not."""

from __future__ import annotations

import contextlib
import secrets
import socket
import struct
import time
from typing import Any

TYPES = {
    "A": 1,
    "NS": 2,
    "CNAME": 5,
    "SOA": 6,
    "NULL": 10,
    "PTR": 12,
    "MX": 15,
    "TXT": 16,
    "AAAA": 28,
    "SRV": 33,
    "NAPTR": 35,
    "DS": 43,
    "DNSKEY": 48,
    "SVCB": 64,
    "HTTPS": 65,
    "AXFR": 252,
    "ANY": 255,
    "URI": 256,
    "CAA": 257,
}
RCODES = {
    0: "NOERROR",
    1: "FORMERR",
    2: "SERVFAIL",
    3: "NXDOMAIN",
    4: "NOTIMP",
    5: "REFUSED",
    9: "NOTAUTH",
}
RESEND_S = 2.5
TRIES = 4


def question(labels: list[bytes], kind: str, edns: int | None) -> bytes:
    """A query message with recursion desired."""
    number = TYPES[kind] if kind in TYPES else int(kind.removeprefix("TYPE"))
    head = struct.pack("!HHHHHH", secrets.randbelow(65536), 0x0100, 1, 0, 0, 1 if edns else 0)
    name = b"".join(bytes([len(label)]) + label for label in labels) + b"\0"
    message = head + name + struct.pack("!HH", number, 1)
    if edns:
        message += b"\0" + struct.pack("!HHIH", 41, edns, 0, 0)
    return message


def ask(
    server: str, port: int, message: bytes, *, tries: int = TRIES, resend_s: float = RESEND_S
) -> dict[str, Any]:
    """Send a message over UDP until an answer comes.

    Returns: the answer in hex with its rcode and flags; rcode ``none`` if none came.
    """
    start = time.monotonic()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.connect((server, port))
        for _ in range(tries):
            try:
                sock.send(message)
                answer = _answer(sock, message[:2], resend_s)
            except TimeoutError:
                continue
            except OSError as error:
                return {"rcode": "none", "error": str(error), "seconds": 0.0, "wire": ""}
            return {
                "rcode": RCODES.get(answer[3] & 15, str(answer[3] & 15)),
                "truncated": bool(answer[2] & 2),
                "wire": answer.hex(),
                "seconds": time.monotonic() - start,
            }
    return {"rcode": "none", "wire": "", "seconds": time.monotonic() - start}


def _answer(sock: socket.socket, identity: bytes, timeout_s: float) -> bytes:
    deadline = time.monotonic() + timeout_s
    while True:
        sock.settimeout(max(0.01, deadline - time.monotonic()))
        answer = sock.recv(65535)
        if answer[:2] == identity and len(answer) >= 12:
            return answer


def to_labels(name: str) -> list[bytes]:
    """Labels of a name in text."""
    return [part.encode("latin-1") for part in name.rstrip(".").split(".") if part]


def burst(server: str, port: int, action: dict[str, Any]) -> list[dict[str, Any]]:
    """Many questions spread over `over_s` seconds, each name made anew; answers aren't awaited."""
    times, over_s = int(action["times"]), float(action.get("over_s") or 0)
    start = time.monotonic()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.connect((server, port))
        sock.setblocking(False)
        for turn in range(times):
            name = fresh(action["name"], turn)
            with contextlib.suppress(OSError):  # a refusal by ICMP, or a full buffer: go on
                sock.send(question(to_labels(name), action.get("type", "A"), action.get("edns")))
            pause = start + over_s * (turn + 1) / times - time.monotonic()
            if pause > 0:
                time.sleep(pause)
    return [{"rcode": "sent", "wire": "", "seconds": time.monotonic() - start}]


def fresh(text: str, turn: int) -> str:
    """A text with the placeholders that change from one repetition to the next."""
    return text.replace("{random}", secrets.token_hex(8)).replace("{n}", str(turn + 1))
