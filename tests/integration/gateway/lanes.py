"""Ways through the gateway to servers of three makes, each behind a relay that keeps the bytes."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from tests.cases.probe.http import Buffer, Conversation, open_tls, read_response
from tests.cases.probe.streams import PlainStream
from tests.integration.gateway.shapes import PATHLESS, fill
from tests.integration.gateway.wire import (
    FIRST_BYTE_S,
    Heard,
    Message,
    exchange,
    read_strictly,
)
from tests.world.backends.backend import Backend

if TYPE_CHECKING:
    from tests.integration.gateway.conftest import Gateway

Answer = TypeVar("Answer")
Shape = TypeVar("Shape")
Entry = dict[str, Any]
"""What a server wrote about a request."""

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

    def send(self, shape: str, path: str, first_byte_s: float = FIRST_BYTE_S) -> Heard:
        data = fill(shape, self.name, path, absolute=not self.secure)
        return exchange(self.open(), data, first_byte_s=first_byte_s)

    def ask(self, path: str) -> int | str:
        """The status of an honest request."""
        opened = self.open()
        opened.stream.send(fill(CONTROL, self.name, path, absolute=not self.secure))
        answer = read_response(opened.buffer, "GET")
        opened.stream.close()
        return answer.status

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
    """What reached the origin for this path, or for none that is known."""


AT_ONCE = 8
"""Messages that go through the lanes beside each other, each for a path of its own."""
PATH = re.compile(r"/(?:s|after)[0-9]+")
_numbers = itertools.count()


class Trials(Generic[Shape, Answer]):
    """Sends messages by every lane, some at a time, and keeps what became of each."""

    def __init__(
        self,
        lanes: list[Lane],
        shapes: Mapping[str, Shape],
        act: Callable[[Lane, Shape, str], Answer],
    ) -> None:
        """Nothing is sent yet.

        Args:
            lanes: the ways.
            shapes: what is tried, by name.
            act: sends a shape for a path, and gives back what was answered.
        """
        self._lanes, self._shapes, self._act = lanes, shapes, act
        self._found: dict[str, list[Found[Answer]]] = {}
        self._entries: dict[str, dict[str, list[Entry]]] = {}

    def found(self, name: str) -> list[Found[Answer]]:
        """What became of a shape, a result a lane."""
        if name not in self._found:
            tried = {name, *self._found, *PATHLESS}
            others = [one for one in self._shapes if one not in tried]
            self._send([name] if name in PATHLESS else [name, *others][:AT_ONCE])
        return self._found[name]

    def _send(self, names: Sequence[str]) -> None:
        """Send some shapes, then honest requests by the same ways."""
        lanes = self._lanes
        paths = {name: f"/s{next(_numbers)}" for name in names}
        after = f"/after{next(_numbers)}"
        backends = {lane.backend.kind: lane.backend for lane in lanes}
        for backend in backends.values():
            backend.forget()
        lanes[0].gateway.world.clear_records()
        with ThreadPoolExecutor(len(lanes) * len(names)) as pool:
            answers = {
                name: [pool.submit(self._act, lane, self._shapes[name], path) for lane in lanes]
                for name, path in paths.items()
            }
            for each in answers.values():
                wait(each)
            controls = list(pool.map(lambda lane: lane.ask(after), lanes))
        assert controls == [200] * len(lanes)
        connections = lanes[0].gateway.world.connections()
        arrived = [lane.arrived(connections) for lane in lanes]
        for lane, messages in zip(lanes, arrived, strict=True):
            (honest,) = [m for m in messages if m.target == after]
            assert (honest.host, honest.length, honest.method) == (lane.name, 0, "GET")
        seen = {kind: backend.seen() for kind, backend in backends.items()}
        for name, path in paths.items():
            self._found[name] = [
                Found(lane, path, one.result(), [m for m in messages if concerns(path, m.target)])
                for lane, one, messages in zip(lanes, answers[name], arrived, strict=True)
            ]
            self._entries[name] = {
                kind: [e for e in entries if concerns(path, e.get("target", ""))]
                for kind, entries in seen.items()
            }

    def check_readings(self, name: str) -> None:
        """Every server understood what the strict reader read, and nothing else."""
        for kind, entries in self._entries[name].items():
            ours = [one for one in self._found[name] if one.lane.backend.kind == kind]
            messages = [message for one in ours for message in one.messages]
            for entry in entries:
                same = [m for m in messages if _matches(m, entry)]
                assert same, (kind, entry, messages)
                messages.remove(same[0])
            assert [m for m in messages if m.complete] == [], (kind, entries)


def concerns(path: str, target: str) -> bool:
    """Whether a target belongs to a path, or to none that was given out."""
    found = PATH.search(target)
    return found is None or found[0] == path


def _matches(message: Message, entry: Entry) -> bool:
    """Whether a server's reading is that of the message."""
    if "malformed" in entry:
        return False
    same = all(entry[key] == getattr(message, key) for key in ("method", "target", "host"))
    return same and (not message.complete or entry.get("length", message.length) == message.length)
