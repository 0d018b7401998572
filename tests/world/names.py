"""The test world's resolver: answers from tables, counts what it was asked."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import dns.exception
import dns.flags
import dns.message
import dns.name
import dns.rcode
import dns.rdata
import dns.rdataclass
import dns.rdatatype
import dns.rrset

TTL_S = 1
"""Short, so that no cache on the way carries an answer from one test into the next."""
LONGEST_CHAIN = 8
"""CNAMEs that are followed before the server gives up."""


@dataclass(frozen=True)
class Query:
    """One question that reached the resolver."""

    name: str
    type: str
    transport: str


@dataclass
class Tables:
    """What the resolver knows; names are lower case, without the final dot."""

    addresses: dict[str, list[str]] = field(default_factory=dict)
    records: list[dict[str, Any]] = field(default_factory=list)
    failures: dict[str, str] = field(default_factory=dict)
    sequences: dict[str, list[list[str]]] = field(default_factory=dict)

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Tables:
        """Tables from the form in which `given` of a case writes them."""
        return cls(
            addresses={_plain(k): list(v) for k, v in (document.get("names") or {}).items()},
            records=[dict(r, name=_plain(r["name"])) for r in document.get("records") or []],
            failures={_plain(k): str(v) for k, v in (document.get("fail") or {}).items()},
            sequences={_plain(k): list(v) for k, v in (document.get("sequence") or {}).items()},
        )

    def names_of(self, address: str) -> list[str]:
        """The names that lead to an address, for the certificate of the origin there."""
        tables = {name: list(addresses) for name, addresses in self.addresses.items()}
        for name, lists in self.sequences.items():
            tables.setdefault(name, []).extend(a for part in lists for a in part)
        return sorted(name for name, addresses in tables.items() if address in addresses)


def _plain(name: str) -> str:
    return name.lower().rstrip(".")


def _covering(name: str) -> Iterator[str]:
    """The name itself, then the wildcards above it, nearest first."""
    yield name
    labels = name.split(".")
    for cut in range(1, len(labels)):
        yield ".".join(["*", *labels[cut:]])


def _of_family(addresses: Sequence[str], kind: str) -> list[str]:
    return [a for a in addresses if (":" in a) == (kind == "AAAA")]


def _txt(size: int) -> str:
    pieces = ["x" * min(255, size - start) for start in range(0, size, 255)]
    return " ".join(f'"{piece}"' for piece in pieces)


class Resolver:
    """Judges a message and makes the answer; knows nothing of sockets."""

    def __init__(self) -> None:
        self.tables = Tables()
        self.queries: list[Query] = []
        self._turns: dict[tuple[str, str], int] = {}

    def reset(self, tables: Tables | None = None) -> None:
        """Forget questions and sequences; know `tables` only."""
        self.tables = tables or Tables()
        self.queries.clear()
        self._turns.clear()

    def answer(self, wire: bytes, transport: str) -> bytes | None:
        """The answer to a message, or None where the table says that none comes."""
        try:
            question = dns.message.from_wire(wire)
        except dns.exception.DNSException:
            self.queries.append(Query("", "unreadable", transport))
            return None
        if not question.question:
            return None
        asked = question.question[0]
        name = _plain(asked.name.to_text(omit_final_dot=True))
        kind = dns.rdatatype.to_text(asked.rdtype)
        self.queries.append(Query(name, kind, transport))
        failure = self._failure(name)
        if failure == "timeout":
            return None
        reply = dns.message.make_response(question, recursion_available=True)
        if failure:
            reply.set_rcode(dns.rcode.from_text(failure))
        else:
            self._fill(reply, asked.name, name, kind)
        return self._to_wire(question, reply, transport)

    @staticmethod
    def _to_wire(
        question: dns.message.Message, reply: dns.message.Message, transport: str
    ) -> bytes:
        if transport == "tcp":
            return reply.to_wire(max_size=65535)
        size = question.payload if question.edns >= 0 else 512
        try:
            return reply.to_wire(max_size=max(512, size))
        except dns.exception.TooBig:
            cut = dns.message.make_response(question, recursion_available=True)
            cut.flags |= dns.flags.TC
            return cut.to_wire()

    def _failure(self, name: str) -> str:
        return next(
            (self.tables.failures[n] for n in _covering(name) if n in self.tables.failures), ""
        )

    def _fill(self, reply: dns.message.Message, owner: dns.name.Name, name: str, kind: str) -> None:
        known = False
        for _ in range(LONGEST_CHAIN):
            alias = self._alias(name) if kind != "CNAME" else None
            if alias is None:
                break
            known = True
            reply.answer.append(dns.rrset.from_text(owner, TTL_S, "IN", "CNAME", alias + "."))
            owner, name = dns.name.from_text(alias), _plain(alias)
        ttl, found, exists = self._find(name, kind)
        if found:
            reply.answer.append(dns.rrset.from_text(owner, ttl, "IN", kind, *found))
        elif not exists and not known:
            reply.set_rcode(dns.rcode.NXDOMAIN)
        if not found:
            zone = name.rpartition(".")[2] + "."
            soa = "ns.test. host.test. 1 60 60 60 0"
            reply.authority.append(dns.rrset.from_text(zone, 0, "IN", "SOA", soa))

    def _alias(self, name: str) -> str | None:
        for candidate in _covering(name):
            for record in self.tables.records:
                if record["name"] == candidate and record["type"] == "CNAME":
                    return _plain(str(record["data"]))
        return None

    def _find(self, name: str, kind: str) -> tuple[int, list[str], bool]:
        """TTL and data for a question, and whether the name exists at all."""
        for candidate in _covering(name):
            if candidate in self.tables.sequences:
                return 0, self._next(candidate, kind), True
            data = self._records(candidate, kind)
            if kind in ("A", "AAAA"):
                data += _of_family(self.tables.addresses.get(candidate, []), kind)
            here = candidate in self.tables.addresses or any(
                r["name"] == candidate for r in self.tables.records
            )
            if data or here:
                return TTL_S, data, True
        return 0, [], False

    def _records(self, name: str, kind: str) -> list[str]:
        matching = [r for r in self.tables.records if r["name"] == name and r["type"] == kind]
        return [str(r["data"]) if "data" in r else _txt(int(r["bytes"])) for r in matching]

    def _next(self, name: str, kind: str) -> list[str]:
        if kind not in ("A", "AAAA"):
            return []
        lists = self.tables.sequences[name]
        turn = self._turns.get((name, kind), 0)
        self._turns[name, kind] = turn + 1
        return _of_family(lists[min(turn, len(lists) - 1)], kind)


class _Datagrams(asyncio.DatagramProtocol):
    def __init__(self, resolver: Resolver) -> None:
        self._resolver = resolver

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.DatagramTransport, transport)

    def datagram_received(self, data: bytes, addr: Any) -> None:
        answer = self._resolver.answer(data, "udp")
        if answer is not None:
            self._transport.sendto(answer, addr)


async def _serve_stream(
    resolver: Resolver, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    try:
        while True:
            (size,) = struct.unpack("!H", await reader.readexactly(2))
            answer = resolver.answer(await reader.readexactly(size), "tcp")
            if answer is None:
                break
            writer.write(struct.pack("!H", len(answer)) + answer)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass  # the client went away
    finally:
        writer.close()


async def serve_names(resolver: Resolver, address: str) -> None:
    """Answer on port 53 of `address`, UDP and TCP, as long as the loop runs."""
    loop = asyncio.get_running_loop()
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
    sock.setblocking(False)
    sock.bind((address, 53))
    await loop.create_datagram_endpoint(lambda: _Datagrams(resolver), sock=sock)

    async def stream(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _serve_stream(resolver, reader, writer)

    await asyncio.start_server(stream, address, 53)
