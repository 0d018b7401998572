"""The test world as tests use it.

with World() as world:
    world.join("abx-abxt-1a2ba")            # a sandbox's bridges lead here
    world.dns.set({"allowed.test": ["198.51.100.10"]})
    world.origin(at="198.51.100.10:443", speaks="https")
    ...
    assert world.dns.queries("evil.test") == 0
    assert world.escaped() == 0
"""

from __future__ import annotations

import ipaddress
import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from tests import host
from tests.world import cables, sweep
from tests.world.backends.backend import Backend, start
from tests.world.origins import DEVICE

UPSTREAM_DNS = cables.RESOLVER
"""The resolver that a sandbox of the tests asks."""
EVIL = "198.51.100.66"
"""Where evil.test leads, always."""


class WorldError(Exception):
    """The world could not do what a test asked."""


def bare(address: str) -> set[str]:
    """Every form in which packets to an address can show up: IPv4 inside IPv6 included."""
    parsed = ipaddress.ip_address(address.strip("[]").partition("%")[0])
    forms = {str(parsed)}
    if isinstance(parsed, ipaddress.IPv6Address):
        number = int(parsed)
        if parsed.ipv4_mapped is not None:
            forms.add(str(parsed.ipv4_mapped))
        elif 1 < number < 2**32:
            forms.add(str(ipaddress.IPv4Address(number)))
    return forms


@dataclass(frozen=True)
class Seen:
    """What one namespace saw since the last reset."""

    queries: list[tuple[str, str, str]]
    connections: list[dict[str, Any]]
    requests: list[dict[str, Any]]
    packets: list[dict[str, Any]]
    server_names: list[str | None]


class Outpost:
    """The server process inside one namespace."""

    def __init__(self, enter: Sequence[str], *, interface: str, log: Path) -> None:
        self._log = log
        command = [*enter, sys.executable, "-m", "tests.world.server"]
        self._process = host.spawn([*command, "--interface", interface], stderr_path=log)

    def ask(self, op: str, **details: Any) -> Any:
        """Let the server do one thing and hand back its result."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps({"op": op, **details}).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError as error:
            raise WorldError(f"the world's server died: {self._complaint()}") from error
        line = self._process.stdout.readline()
        if not line:
            raise WorldError(f"the world's server died: {self._complaint()}")
        answer = json.loads(line)
        if "error" in answer:
            raise WorldError(f"{op}: {answer['error']}")
        return answer["result"]

    def seen(self) -> Seen:
        """What the namespace saw."""
        raw = self.ask("seen")
        queries = [(name, kind, transport) for name, kind, transport in raw["queries"]]
        seen = [raw[key] for key in ("connections", "requests", "packets", "server_names")]
        return Seen(queries, *seen)

    def close(self) -> None:
        """End the server."""
        host.end(self._process)

    def _complaint(self) -> str:
        return self._log.read_text()[-2000:] if self._log.exists() else ""


@dataclass
class Names:
    """The world's resolver."""

    outpost: Outpost
    tables: dict[str, Any] = field(default_factory=dict)

    def set(
        self,
        names: Mapping[str, Sequence[str]] | None = None,
        *,
        records: Sequence[Mapping[str, Any]] = (),
        fail: Mapping[str, str] | None = None,
        sequence: Mapping[str, Sequence[Sequence[str]]] | None = None,
    ) -> None:
        """Replace what the resolver knows.

        Args:
            names: name, or ``*.zone``, to addresses of both families.
            records: other records: ``name``, ``type`` and ``data`` (or ``bytes`` of made-up TXT).
            fail: name to SERVFAIL (or another code) or ``timeout``.
            sequence: the n-th look-up gets the n-th list with TTL 0; the last one repeats.
        """
        self.tables = {
            "names": {name: list(addresses) for name, addresses in (names or {}).items()},
            "records": [dict(record) for record in records],
            "fail": dict(fail or {}),
            "sequence": {
                name: [list(a) for a in lists] for name, lists in (sequence or {}).items()
            },
        }
        self.outpost.ask("set_names", tables=self.tables)

    def asked(self) -> list[tuple[str, str, str]]:
        """Every question so far: name, type, transport."""
        return self.outpost.seen().queries

    def queries(self, below: str = "") -> int:
        """How many questions came, for `below` and every name below it if given."""
        return sum(
            1 for name, _, _ in self.asked() if f".{name}".endswith(f".{below}" if below else "")
        )


class World:
    """One upstream world; a context manager that leaves nothing on the host."""

    def __init__(self) -> None:
        self._addresses: set[str] = set()
        self._joined: set[str] = set()
        self._pods: dict[int, Outpost] = {}
        self._backends: list[Backend] = []
        self._folder = tempfile.TemporaryDirectory(prefix=cables.PREFIX)
        self._log = Path(self._folder.name, "server.log")
        self.swept: list[str] = []

    def __enter__(self) -> World:
        """Sweep after dead runs, lay the cables, start the server."""
        self.swept = sweep.sweep()
        self.run = cables.register()
        try:
            cables.lay(self.run)
            self.outpost = Outpost(
                ["ip", "netns", "exec", self.run.world],
                interface=DEVICE,
                log=self._log,
            )
            self.outpost.ask("listen", address=cables.RESOLVER)
            self.dns = Names(self.outpost)
            self.ca_pem: str = self.outpost.ask("ca")
            cables.guard_target(self.run, cables.RESOLVER)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Take everything down."""
        self.close()

    def close(self) -> None:
        """End the servers and remove what the world made on the host."""
        self.end_backends()
        for pod in self._pods.values():
            pod.close()
        self._pods.clear()
        if hasattr(self, "outpost"):
            self.outpost.close()
        cables.remove(self.run)
        cables.unregister(self.run)
        self._folder.cleanup()

    def join(self, *bridges: str) -> None:
        """Lead whatever comes in by these bridges into the world; they need not exist yet."""
        fresh = [bridge for bridge in bridges if bridge not in self._joined]
        cables.route_bridges(self.run, fresh)
        for bridge in fresh:
            cables.guard_device(self.run, bridge)
        self._joined.update(fresh)

    def watch_pod(self, pid: int) -> None:
        """Capture and serve loopback origins in the gateway pod's namespace too.

        Args:
            pid: a process of the pod, as the host counts (its `pause`).
        """
        if pid not in self._pods:
            enter = ["nsenter", f"--net=/proc/{pid}/ns/net", "--"]
            self._pods[pid] = Outpost(enter, interface="", log=self._log)

    def forget_pods(self) -> None:
        """Leave the pods' namespaces, before a pod is made again."""
        for pod in self._pods.values():
            pod.close()
        self._pods.clear()

    def origin(
        self,
        *,
        at: str,
        speaks: str = "http",
        cert: Mapping[str, Any] | None = None,
        answer: Mapping[str, Any] | None = None,
        alpn: Sequence[str] | None = None,
        to: str | None = None,
    ) -> bool:
        """Put an origin at an address and port (see FORMAT of the cases for the keys).

        An address of loopback goes into the joined pods' namespaces. Beyond the cases' keys an
        answer may name a ``folder`` whose files are served, or a ``body``; a ``relay`` leads ``to``
        an address and port of the world and records what it hands on.

        Returns: whether somebody could reach it: a namespace without IPv6 has no ``::1``.
        """
        document: dict[str, Any] = {"at": at, "speaks": speaks, "cert": cert, "answer": answer}
        if alpn is not None:
            document["alpn"] = list(alpn)
        if to is not None:
            document["to"] = to
        address = ipaddress.ip_address(at.rpartition(":")[0].strip("[]"))
        if address.is_loopback:
            return self._loopback_origin(document, str(address))
        self._take_address(address)
        self.outpost.ask("add_origin", origin=document)
        return True

    def _take_address(self, address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> None:
        if str(address) not in self._addresses:
            cables.add_address(self.run, str(address))
            self._addresses.add(str(address))
            if address.version == 4:
                cables.guard_target(self.run, str(address))

    def backend(self, kind: str, *, at: str, names: Sequence[str] = (), tls: str = "") -> Backend:
        """Start a server that others wrote; it stays until `end_backends`.

        Args:
            kind: nginx, python, node, grpc, or openssl, which wants a client certificate.
            at: address and port; a loopback address is the world's own, for a relay in front.
            names: it speaks TLS, with a certificate for these names.
            tls: the one version of it, for nginx and openssl.
        """
        address, _, port = at.rpartition(":")
        parsed = ipaddress.ip_address(address)
        if not parsed.is_loopback:
            self._take_address(parsed)
        pair = self.outpost.ask("leaf", names=list(names)) if names else None
        self._backends.append(start(kind, self.run.world, address, int(port), pair, tls))
        return self._backends[-1]

    def end_backends(self) -> None:
        """End the servers that others wrote."""
        for backend in self._backends:
            backend.close()
        self._backends.clear()

    def _loopback_origin(self, document: dict[str, Any], address: str) -> bool:
        tables = self.dns.tables.get("names", {})
        names = [name for name, addresses in tables.items() if address in addresses]
        for pod in self._pods.values():
            try:
                pod.ask("add_origin", origin=document, names=names)
            except WorldError:
                return False
        return bool(self._pods)

    def reset(self) -> None:
        """No names, no origins, nothing seen; servers that others wrote stay."""
        self.dns.tables = {}
        for outpost in (self.outpost, *self._pods.values()):
            outpost.ask("reset")
        kept = {backend.address for backend in self._backends}
        cables.remove_addresses(self.run, self._addresses - kept)
        cables.forget_input(self.run)
        self._addresses &= kept

    def clear_records(self) -> None:
        """Forget what was seen; names and origins stay. Sequences begin again."""
        for outpost in (self.outpost, *self._pods.values()):
            outpost.ask("clear_records")

    def connections(self) -> list[dict[str, Any]]:
        """Connections that origins accepted, loopback ones included."""
        return [c for o in (self.outpost, *self._pods.values()) for c in o.seen().connections]

    def requests(self) -> list[dict[str, Any]]:
        """Requests that origins got, in the order of their arrival at each."""
        return [r for o in (self.outpost, *self._pods.values()) for r in o.seen().requests]

    def server_names(self) -> list[str | None]:
        """SNI of every ClientHello that an origin got; None for one without."""
        return [n for o in (self.outpost, *self._pods.values()) for n in o.seen().server_names]

    def packets(self) -> list[dict[str, Any]]:
        """First packets of flows that arrived in the world's namespace."""
        return [p for p in self.outpost.seen().packets if not p["outgoing"]]

    def dialled(self) -> list[dict[str, Any]]:
        """First packets of flows that the pods sent, whether they arrived or not."""
        return [p for pod in self._pods.values() for p in pod.seen().packets if p["outgoing"]]

    def arrived_in_pods(self) -> list[dict[str, Any]]:
        """First packets of flows that came into the pods from outside."""
        return [
            p
            for pod in self._pods.values()
            for p in pod.seen().packets
            if not p["outgoing"] and p["interface"] != "lo"
        ]

    def attempts(self, address: str, port: int | None = None) -> list[dict[str, Any]]:
        """Packets towards an address, in any form, that a pod sent or the world got.

        A pod's own name service on loopback doesn't count.
        """
        forms = bare(address)
        return [
            packet
            for packet in (*self.dialled(), *self.packets())
            if packet["destination"] in forms
            and (port is None or packet["port"] == port)
            and not (packet["interface"] == "lo" and 53 in (packet["port"], packet["source_port"]))
            and packet["proto"] != "icmpv6"
        ]

    def watch_host(self, device: str, address: str, proto: str, port: int) -> None:
        """Count packets that get past the filters to the host itself, until the next reset."""
        cables.watch_input(self.run, device, address, proto, port)

    def reached_host(self) -> int:
        """Packets that `watch_host` counted."""
        return cables.counted_input(self.run)

    def escaped(self) -> int:
        """Packets of this run's tests that would have left the machine: must stay 0."""
        return cables.escaped(self.run)

    def escapees(self) -> str:
        """Which packets `escaped` counted, for the one who looks for the reason."""
        return cables.escapees(self.run)
