"""Ways through the gateway to servers of three makes, each behind a relay that keeps the bytes."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from tests.cases.probe.http import Buffer, Conversation, open_tls
from tests.cases.probe.streams import PlainStream
from tests.integration.gateway.shapes import fill
from tests.integration.gateway.wire import Heard, Message, exchange, read_strictly
from tests.world.backends.backend import Backend

if TYPE_CHECKING:
    from tests.integration.gateway.conftest import Gateway

Answer = TypeVar("Answer")

ORIGINS = {"nginx": "198.51.100.11", "python": "198.51.100.12", "node": "198.51.100.13"}
"""Addresses of the relays, by the server behind each."""
PORTS = {"nginx": 8001, "python": 8002, "node": 8003}
"""Where the servers listen, on the world's loopback."""
CONTROL = "GET @T@P HTTP/1.1\r\nHost: @H\r\n\r\n"


@dataclass
class Lane:
    """One way to one origin: the proxy's port or a tunnel, and a server behind a relay."""

    gateway: Gateway
    backend: Backend
    secure: bool

    @property
    def name(self) -> str:
        return f"{self.backend.kind}.wild.test"

    @property
    def at(self) -> str:
        return f"{ORIGINS[self.backend.kind]}:{443 if self.secure else 80}"

    def open(self) -> Conversation:
        proxy = (self.gateway.pod.gateway, 8080)
        if self.secure:
            return open_tls(proxy, f"{self.name}:443", sni=self.name, alpn=["http/1.1"])
        stream = PlainStream(*proxy)
        return Conversation(stream, Buffer(stream), [])

    def send(self, shape: str, path: str) -> Heard:
        return exchange(self.open(), fill(shape, self.name, path, absolute=not self.secure))

    def arrived(self, connections: list[dict[str, Any]]) -> list[Message]:
        """Requests since the records were cleared, by the bytes on each connection."""
        seen = [c["data"].encode("latin-1") for c in connections if c["at"] == self.at]
        return [message for data in seen for message in read_strictly(data)]


def lay_lanes(gateway: Gateway, backends: list[Backend]) -> list[Lane]:
    """Make names and relays, and let the gateway allow them."""
    world = gateway.world
    world.reset()
    names = {f"{kind}.wild.test": [address] for kind, address in ORIGINS.items()}
    world.dns.set({**names, "evil.test": ["198.51.100.66"]})
    world.origin(at="198.51.100.66:80")
    world.origin(at="198.51.100.66:443", speaks="https")
    for backend in backends:
        address, to = ORIGINS[backend.kind], f"127.0.0.1:{backend.port}"
        certificate = {"names": [f"{backend.kind}.wild.test"]}
        http1 = ["http/1.1"]
        world.origin(at=f"{address}:80", speaks="relay", to=to)
        world.origin(at=f"{address}:443", speaks="relay", to=to, cert=certificate, alpn=http1)
    gateway.apply()
    return [Lane(gateway, backend, secure) for backend in backends for secure in (False, True)]


@dataclass
class Found(Generic[Answer]):
    """What became of a message on one lane."""

    lane: Lane
    path: str
    answer: Answer
    messages: list[Message]
    """What reached the origin, but the honest request that came after it."""


_numbers = itertools.count()


def through(lanes: list[Lane], act: Callable[[Lane, str], Answer]) -> list[Found[Answer]]:
    """Let something happen on every lane, then send an honest request by the same ways.

    Args:
        lanes: the ways.
        act: sends what is to be tried for a path of its own, and gives back what was answered.
    """
    number = next(_numbers)
    path, after = f"/s{number}", f"/after{number}"
    for backend in {lane.backend.kind: lane.backend for lane in lanes}.values():
        backend.forget()
    lanes[0].gateway.world.clear_records()
    with ThreadPoolExecutor(len(lanes)) as pool:
        answers = list(pool.map(lambda lane: act(lane, path), lanes))
        controls = list(pool.map(lambda lane: lane.send(CONTROL, after), lanes))
    connections = lanes[0].gateway.world.connections()
    found = []
    for lane, answer, control in zip(lanes, answers, controls, strict=True):
        assert control.statuses == [200], (lane, control)
        messages = lane.arrived(connections)
        (honest,) = [m for m in messages if m.target == after]
        assert (honest.host, honest.length, honest.method) == (lane.name, 0, "GET")
        found.append(Found(lane, path, answer, [m for m in messages if m is not honest]))
    return found


def check_readings(found: list[Found[Answer]]) -> None:
    """Every server understood what the strict reader read, and nothing else."""
    for kind in ORIGINS:
        ours = [one for one in found if one.lane.backend.kind == kind]
        messages = [message for one in ours for message in one.messages]
        entries = [e for e in ours[0].lane.backend.seen() if not _of_others(e, ours[0].path)]
        for entry in entries:
            same = [m for m in messages if _matches(m, entry)]
            assert same, (kind, entry, messages)
            messages.remove(same[0])
        assert [m for m in messages if m.complete] == [], (kind, entries)


def _of_others(entry: dict[str, Any], path: str) -> bool:
    """Whether a server's entry is about an honest request or, late, about an earlier message."""
    found = re.fullmatch(r"/(after|s)[0-9]+", entry.get("target", ""))
    return found is not None and entry["target"] != path


def _matches(message: Message, entry: dict[str, Any]) -> bool:
    """Whether a server's reading is that of the message."""
    if "malformed" in entry:
        return False
    same = all(entry[key] == getattr(message, key) for key in ("method", "target", "host"))
    return same and (not message.complete or entry.get("length", message.length) == message.length)
