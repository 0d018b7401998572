"""Asks a pod for the same names without a pause, and writes down when it was answered what.

Runs as a process of its own, so that several put load on at once::

    python -m tests.integration.gateway.asking {plain|tunnel|dns} GATEWAY PORT NAME...

A first line comes with the first answer. When standard input ends, each question gets a line:
name, when it was sent, when the answer came (both CLOCK_MONOTONIC, seconds) and the answer: allow,
deny, or what went wrong.
"""

from __future__ import annotations

import itertools
import json
import select
import socket
import ssl
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException

import dns.message
import dns.rcode
import dns.rdatatype

ALLOW, DENY = "allow", "deny"
PATIENCE_S = 10
"""After so long without an answer a question has failed."""
RESOLVER_PATIENCE_S = 1
"""The same for a datagram, which may be lost with the process that would have answered."""
RETRY_S = 0.02
"""Pause after a failure: a closed port must not be asked a million times."""


@dataclass(frozen=True)
class Asked:
    """One question and what became of it."""

    name: str
    sent: float
    got: float
    answer: str


class Plain:
    """Absolute-form requests over one connection that is kept."""

    def __init__(self, gateway: str, port: int) -> None:
        self._at = (gateway, port)
        self._kept: HTTPConnection | None = None

    def ask(self, name: str) -> str:
        """One request."""
        if self._kept is None:
            self._kept = self._open(name)
        try:
            self._kept.request("GET", self._target(name), headers={"Host": name})
            answer = self._kept.getresponse()
            answer.read()
        except (OSError, HTTPException):
            self.close()
            raise
        if answer.will_close:
            self.close()
        return {200: ALLOW, 403: DENY}.get(answer.status, str(answer.status))

    def close(self) -> None:
        """Drop the connection."""
        if self._kept is not None:
            self._kept.close()
        self._kept = None

    def _open(self, name: str) -> HTTPConnection:
        del name
        return HTTPConnection(*self._at, timeout=PATIENCE_S)

    def _target(self, name: str) -> str:
        return f"http://{name}/"


class Tunnel(Plain):
    """Requests inside one intercepted tunnel that is kept; for one name."""

    def _open(self, name: str) -> HTTPConnection:
        plain = HTTPConnection(*self._at, timeout=PATIENCE_S)
        plain.set_tunnel(name, 443)
        plain.connect()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        plain.sock = context.wrap_socket(plain.sock, server_hostname=name)
        return plain

    def _target(self, name: str) -> str:
        del name
        return "/"


class Questions:
    """Questions to the resolver."""

    def __init__(self, gateway: str, port: int) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.connect((gateway, port))
        self._socket.settimeout(RESOLVER_PATIENCE_S)

    def ask(self, name: str) -> str:
        """One question."""
        question = dns.message.make_query(name, dns.rdatatype.A)
        self._socket.send(question.to_wire())
        while True:
            answer = dns.message.from_wire(self._socket.recv(4096))
            if answer.id == question.id:  # else it answers a question that was given up
                break
        if answer.rcode() == dns.rcode.NXDOMAIN:
            return DENY
        return ALLOW if answer.answer else dns.rcode.to_text(answer.rcode())

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()


WAYS: dict[str, Callable[[str, int], Plain | Questions]] = {
    "plain": Plain,
    "tunnel": Tunnel,
    "dns": Questions,
}


def ask_until(
    ended: Callable[[], bool], way: Plain | Questions, names: Sequence[str]
) -> Iterator[Asked]:
    """Ask for the names in turn until it is enough."""
    for name in itertools.cycle(names):
        if ended():
            return
        sent = time.monotonic()
        try:
            answer = way.ask(name)
        except (OSError, HTTPException) as error:
            answer = f"{type(error).__name__}: {error}"
            time.sleep(RETRY_S)
        yield Asked(name, sent, time.monotonic(), answer)


def main(kind: str, gateway: str, port: str, *names: str) -> None:
    """Ask until standard input ends, then say what came."""
    way = WAYS[kind](gateway, int(port))
    asking = ask_until(lambda: bool(select.select([sys.stdin], [], [], 0)[0]), way, names)
    found = list(itertools.islice(asking, 1))
    sys.stdout.write("asking\n")
    sys.stdout.flush()
    found += asking
    way.close()
    for one in found:
        sys.stdout.write(json.dumps([one.name, one.sent, one.got, one.answer]) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
