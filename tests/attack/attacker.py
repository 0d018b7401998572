"""The program inside: random moves from several threads until the time is over.

It runs on the standard library alone, in the agent, as the agent; and once more as root in the
agent's namespace, where it writes frames by hand. It says at the end what it did and what, to its
surprise, worked.
"""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from tests.attack import dns_moves, http_moves, packets
from tests.attack.plan import Plan

WORKERS = 4
PATIENCE_S = 0.4
"""How long a move waits for an answer."""
FORBIDDEN = b"abxt-forbidden"
"""What every origin that may not be reached says."""
KEPT = 40
"""So many breaches are told in full."""
HONEST_S = 0.5
"""Pause between two honest requests."""
HONEST_LIMIT_S = 20
OWN = ("127.", "::1", "0.")
"""Addresses that lead nowhere but into the attacker's own namespace."""
ETH_P_ALL = 3


@dataclass
class Report:
    """What was done, and what should not have worked."""

    moves: Counter[str] = field(default_factory=Counter)
    breaches: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    """Moves that broke in the attacker itself."""
    honest: int = 0
    honest_failed: list[str] = field(default_factory=list)
    slowest_s: float = 0.0

    def breach(self, text: str) -> None:
        """Note that something worked."""
        self.moves["breaches"] += 1
        if len(self.breaches) < KEPT:
            self.breaches.append(text)

    def to_text(self) -> str:
        """The report as one line."""
        return json.dumps({**vars(self), "moves": dict(self.moves)})

    @classmethod
    def from_text(cls, text: str) -> Report:
        """The report as it was written."""
        given = json.loads(text)
        return cls(**{**given, "moves": Counter(given["moves"])})


class Attacker:
    """One thread's moves; the seed and the thread's number decide them."""

    def __init__(self, plan: Plan, number: int, report: Report) -> None:
        self._plan, self._report = plan, report
        self._random = Random(f"{plan.seed}-{number}-{plan.raw}")  # noqa: S311  # replayable
        self._held: list[socket.socket] = []
        self._moves: tuple[Callable[[], None], ...] = (
            (self._frames,)
            if plan.raw
            else (self._ask_proxy, self._ask_proxy, self._tunnel, self._tls, self._dns, self._dns,
                  self._connect, self._datagram, self._ping, self._odd_socket, self._hold,
                  self._scan)
        )  # fmt: skip

    def run(self, until: float) -> None:
        """Make moves until the time is over; what fails is the normal case."""
        while time.monotonic() < until:
            move = self._random.choice(self._moves)
            self._report.moves[move.__name__.strip("_")] += 1
            try:
                move()
            except (OSError, ValueError):
                pass  # refused, reset, silent, or nothing that a socket takes
            except Exception as error:  # noqa: BLE001  # a move that breaks proves nothing
                self._report.errors.append(f"{move.__name__}: {type(error).__name__}: {error}")
        for one in self._held:
            one.close()

    # --- moves --------------------------------------------------------------------------------

    def _proxy(self) -> socket.socket:
        place = (self._plan.gateway, self._plan.proxy_port)
        return socket.create_connection(place, timeout=PATIENCE_S * 5)

    def _listen(self, sock: socket.socket, what: str) -> bytes:
        heard = b""
        sock.settimeout(PATIENCE_S)
        with contextlib.suppress(OSError):
            while len(heard) < 1 << 16 and (piece := sock.recv(1 << 14)):
                heard += piece
        if FORBIDDEN in heard:
            self._report.breach(f"an origin that is not allowed answered: {what}")
        return heard

    def _ask_proxy(self) -> None:
        data = http_moves.message(self._random, self._plan)
        with self._proxy() as sock:
            sock.sendall(data)
            self._listen(sock, repr(data[:200]))

    def _open_tunnel(self, sock: socket.socket, authority: str) -> bool:
        head = f"CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n"
        sock.sendall(head.encode("latin-1", "replace"))
        return b" 200 " in self._listen(sock, authority)

    def _tunnel(self) -> None:
        """Something other than TLS, or a broken handshake, in a tunnel."""
        name = self._random.choice(self._plan.allowed)
        authority = f"{name}:{self._random.choice((80, 443))}"
        data = self._random.choice(
            (
                http_moves.message(self._random, self._plan),
                http_moves.mutated(self._random, _hello(self._random, self._plan)),
                b"SSH-2.0-x\r\n",
                self._random.randbytes(self._random.randrange(1, 400)),
            )
        )
        with self._proxy() as sock:
            if self._open_tunnel(sock, authority):
                sock.sendall(data)
                self._listen(sock, f"in a tunnel to {authority}: {data[:200]!r}")

    def _tls(self) -> None:
        """A whole handshake under some name, then a request for some host."""
        connect = self._random.choice((*self._plan.allowed, *self._plan.denied))
        name = self._random.choice((connect, self._random.choice(self._plan.denied)))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.set_alpn_protocols(self._random.choice((["h2"], ["http/1.1"], ["x"])))
        inner = self._random.choice(
            (
                http_moves.message(self._random, self._plan),
                f"GET / HTTP/1.1\r\nHost: {name}\r\n\r\n".encode(),
                b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + self._random.randbytes(200),
            )
        )
        with self._proxy() as sock:
            if not self._open_tunnel(sock, f"{connect}:443"):
                return
            sock.settimeout(PATIENCE_S * 5)
            with context.wrap_socket(sock, server_hostname=name) as tls:
                tls.sendall(inner)
                self._listen(tls, f"CONNECT {connect}, SNI {name}: {inner[:200]!r}")

    def _dns(self) -> None:
        data = dns_moves.question(self._random, self._plan)
        kind = self._random.choice((socket.SOCK_DGRAM, socket.SOCK_DGRAM, socket.SOCK_STREAM))
        to = self._random.choice((self._plan.gateway, self._plan.gateway, *self._plan.addresses))
        with socket.socket(_family(to), kind) as sock:
            sock.settimeout(PATIENCE_S)
            sock.connect((to, 53))
            if to != self._plan.gateway and kind == socket.SOCK_STREAM and not to.startswith(OWN):
                self._report.breach(f"TCP to {to}:53")
            sock.sendall(data)
            if self._listen(sock, "dns") and to != self._plan.gateway and not to.startswith(OWN):
                self._report.breach(f"{to} answered a question")

    def _target(self) -> tuple[str, int]:
        address = self._random.choice(
            (
                self._random.choice(self._plan.addresses),
                ".".join(str(self._random.randrange(256)) for _ in range(4)),
            )
        )
        port = self._random.choice((22, 53, 80, 443, 2375, 8080, self._random.randrange(1, 65536)))
        return address, port

    def _mine(self, address: str) -> bool:
        return address.startswith(OWN) or address == self._plan.agent

    def _connect(self) -> None:
        address, port = self._target()
        with socket.socket(_family(address), socket.SOCK_STREAM) as sock:
            sock.settimeout(PATIENCE_S)
            sock.connect((address, port))
            if not self._mine(address):
                self._report.breach(f"TCP to {address}:{port}")

    def _datagram(self) -> None:
        address, port = self._target()
        with socket.socket(_family(address), socket.SOCK_DGRAM) as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
            sock.settimeout(PATIENCE_S)
            sock.sendto(self._random.randbytes(self._random.randrange(1400)), (address, port))
            data, peer = sock.recvfrom(4096)
            if data and not self._mine(peer[0]):
                self._report.breach(f"UDP from {peer}")

    def _ping(self) -> None:
        address, _ = self._target()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP) as sock:
            sock.settimeout(PATIENCE_S)
            sock.sendto(b"\x08\0\0\0\0\0\0\1" + self._random.randbytes(30), (address, 0))
            data, peer = sock.recvfrom(4096)
            if data[:1] == b"\0" and not self._mine(peer[0]) and peer[0] != self._plan.gateway:
                self._report.breach(f"echo from {peer[0]}")

    def _odd_socket(self) -> None:
        """Families and kinds that lead past a filter for TCP and UDP."""
        family, kind, protocol = (
            self._random.randrange(46),
            self._random.choice((1, 2, 3, 5)),
            self._random.choice((0, 0, 1, 6, 17, 47, 58, 132, 136, 255)),
        )
        with socket.socket(family, kind, protocol) as sock:
            sock.settimeout(PATIENCE_S)
            if family in (socket.AF_INET, socket.AF_INET6):
                address, port = self._target()
                sock.connect((address, port))
                sock.send(b"x")

    def _hold(self) -> None:
        """A connection that says a little and stays; the oldest one goes."""
        sock = self._proxy()
        sock.sendall(http_moves.message(self._random, self._plan)[: self._random.randrange(60)])
        self._held.append(sock)
        if len(self._held) > 30:
            self._held.pop(0).close()

    def _scan(self) -> None:
        """Another port of the gateway."""
        port = self._random.choice((22, 80, 443, 953, 8953, 9901, self._random.randrange(1, 65536)))
        if port == self._plan.proxy_port:
            return
        with socket.socket() as sock:
            sock.settimeout(PATIENCE_S)
            sock.connect((self._plan.gateway, port))
            self._report.breach(f"TCP to the gateway's port {port}")

    def _frames(self) -> None:
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as sock:
            sock.bind((self._plan.device, 0))
            for _ in range(10):
                with contextlib.suppress(OSError):
                    sock.send(packets.frame(self._random, self._plan))
                time.sleep(0.005)


def _family(address: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def _hello(random: Random, plan: Plan) -> bytes:
    """A real ClientHello for some name, as bytes."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    name = random.choice((*plan.allowed, *plan.denied))
    tls = context.wrap_bio(incoming, outgoing, server_hostname=name)
    with contextlib.suppress(ssl.SSLError):
        tls.do_handshake()
    return outgoing.read()


class Honest:
    """Asks for what is allowed, all the time, as an ordinary client would."""

    def __init__(self, plan: Plan, report: Report) -> None:
        self._plan, self._report = plan, report

    def run(self, until: float) -> None:
        """Ask by absolute form and through a tunnel, by turns."""
        turn = 0
        while time.monotonic() < until:
            start = time.monotonic()
            self._report.honest += 1
            try:
                self._once(secure=turn % 2 == 1)
            except (OSError, ssl.SSLError, AssertionError) as error:
                if len(self._report.honest_failed) < KEPT:
                    self._report.honest_failed.append(f"{type(error).__name__}: {error}")
                self._report.moves["honest_failed"] += 1
            self._report.slowest_s = max(self._report.slowest_s, time.monotonic() - start)
            turn += 1
            time.sleep(HONEST_S)

    def _once(self, *, secure: bool) -> None:
        name = self._plan.allowed[0]
        place = (self._plan.gateway, self._plan.proxy_port)
        with socket.create_connection(place, timeout=HONEST_LIMIT_S) as sock:
            if not secure:
                self._get(sock, f"http://{name}/honest", name)
                return
            sock.sendall(f"CONNECT {name}:443 HTTP/1.1\r\nHost: {name}:443\r\n\r\n".encode())
            answer = sock.recv(4096)
            if b" 200 " not in answer:
                raise AssertionError(answer[:200])
            with ssl.create_default_context().wrap_socket(sock, server_hostname=name) as tls:
                self._get(tls, "/honest", name)

    @staticmethod
    def _get(sock: socket.socket, target: str, name: str) -> None:
        head = f"GET {target} HTTP/1.1\r\nHost: {name}\r\nConnection: close\r\n\r\n"
        sock.sendall(head.encode())
        answer = sock.recv(4096)
        if not answer.startswith(b"HTTP/1.1 200 "):
            raise AssertionError(answer[:200])


def attack(plan: Plan) -> Report:
    """Everything at once, until the time is over."""
    report, until = Report(), time.monotonic() + plan.seconds
    workers: list[Any] = [Attacker(plan, number, report) for number in range(WORKERS)]
    if not plan.raw:
        workers.append(Honest(plan, report))
    threads = [threading.Thread(target=worker.run, args=(until,)) for worker in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return report


def main() -> None:
    """Attack as the first argument says."""
    sys.stdout.write(attack(Plan.from_text(sys.argv[1])).to_text() + "\n")


if __name__ == "__main__":
    main()
