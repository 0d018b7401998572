"""A free /24 for each of the sandbox's bridges, unique on this host."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from abox.addresses import (
    AGENT_NUMBER,
    EGRESS_POOL,
    EGRESS_POOL_V6,
    GATEWAY_NUMBER,
    HOST_NUMBER,
    SANDBOX_POOL,
    Network,
)
from abox.errors import AboxError, HostError, SettingsError
from abox.naming import (
    FIRST_GENERATION,
    bridge_name,
    check_name,
    egress_bridge_name,
    table_name,
)
from provider import host
from provider.generation import generation_of, next_generation
from provider.host import Taken
from provider.leftovers import Leftovers
from provider.records import Records
from provider.resource import UNKNOWN, Data, Failure, Field, Resource, is_unknown

AUTO = "auto"
"""Setting that leaves the choice of N to the host."""


@dataclass(frozen=True)
class Lease:
    """The N that a sandbox has, and who leased it."""

    sandbox: str
    number: int
    """N, 0 to 255."""
    owner: str
    """Folder of the checkout that drives the sandbox."""

    @property
    def subnet(self) -> ipaddress.IPv4Network:
        """Addresses of the host-only bridge."""
        return _slice(SANDBOX_POOL, self.number)

    @property
    def egress_subnet(self) -> ipaddress.IPv4Network:
        """Addresses of the egress bridge."""
        return _slice(EGRESS_POOL, self.number)

    @property
    def egress_subnet_v6(self) -> ipaddress.IPv6Network:
        """Addresses of the egress bridge in IPv6, where it has that."""
        start = int(EGRESS_POOL_V6.network_address) + (self.number << 64)
        return ipaddress.IPv6Network((start, 64))

    @property
    def interfaces(self) -> tuple[str, str]:
        """Names of the two bridges."""
        return bridge_name(self.sandbox), egress_bridge_name(self.sandbox)

    def overlaps(self, network: Network) -> bool:
        """Whether ``network`` shares an address with either bridge."""
        if isinstance(network, ipaddress.IPv6Network):
            return network.overlaps(self.egress_subnet_v6)
        return network.overlaps(self.subnet) or network.overlaps(self.egress_subnet)

    def to_document(self) -> dict[str, Any]:
        """The lease as it stands in its file."""
        return {"sandbox": self.sandbox, "number": self.number, "owner": self.owner}


def _slice(pool: ipaddress.IPv4Network, number: int) -> ipaddress.IPv4Network:
    return ipaddress.IPv4Network((int(pool.network_address) + (number << 8), 24))


def parse_subnet(subnet: str) -> int | None:
    """N of a fixed subnet, None for "auto".

    Raises:
        SettingsError: it is neither "auto" nor a /24 of the pool.
    """
    if subnet == AUTO:
        return None
    try:
        network = ipaddress.IPv4Network(subnet)
    except ValueError:
        network = None
    if network is None or network.prefixlen != 24 or not network.subnet_of(SANDBOX_POOL):
        raise SettingsError(
            what=f"subnet {subnet!r} is refused",
            why=f"a sandbox gets a /24 of {SANDBOX_POOL}",
            remedy=f"write {AUTO!r}, or for example 10.10.3.0/24",
        )
    return (int(network.network_address) >> 8) & 0xFF


@dataclass(frozen=True)
class Leases:
    """The leases of this host, in one folder, under one lock."""

    folder: Path
    owner: str
    """Folder of the checkout that leases now."""
    in_use: Callable[[], list[Taken]]
    """Addresses in use on the host: routes, Docker networks, libvirt networks."""

    def find(self, sandbox: str) -> Lease | None:
        """The lease of a sandbox, None if it has none."""
        document = host.read_document(self._path(sandbox))
        return None if document is None else _lease(self._path(sandbox), document)

    def take(self, sandbox: str, subnet: str) -> Lease:
        """Lease ``subnet``, or the lowest free one for "auto"; takes over the sandbox's old lease.

        Raises:
            HostError: another sandbox, a route or a network has those addresses.
        """
        with host.locked(self.folder):
            lease = self._choose(sandbox, subnet)
            host.write_document(self._path(sandbox), lease.to_document())
            return lease

    def check(self, sandbox: str, subnet: str) -> None:
        """Raise what ``take`` would raise; changes nothing."""
        self._choose(sandbox, subnet)

    def restore(self, lease: Lease) -> None:
        """Write the lease's file again, as long as nobody else has its addresses."""
        with host.locked(self.folder):
            self._refuse_namesake(lease.sandbox)
            self._refuse_taken(lease)
            host.write_document(self._path(lease.sandbox), lease.to_document())

    def conflicts(self, lease: Lease) -> list[str]:
        """Who else has addresses of the lease, and what is wrong with its file."""
        found = [f"{taken.by} overlaps" for taken in self._strangers(lease)]
        found += [f"{other} overlaps" for other in self._other_leases(lease)]
        written = self.find(lease.sandbox)
        if written is None:
            found.append("the lease's file is gone")
        elif written.number != lease.number:
            found.append(f"the lease's file says {written.subnet}")
        return sorted(found)

    def free(self, sandbox: str) -> None:
        """Give the lease back; no error if there is none. Another checkout's lease stays."""
        with host.locked(self.folder):
            lease = self.find(sandbox)
            if lease is not None and lease.owner == self.owner:
                self._path(sandbox).unlink(missing_ok=True)

    def _path(self, sandbox: str) -> Path:
        return self.folder / f"{check_name(sandbox)}.json"

    def _choose(self, sandbox: str, subnet: str) -> Lease:
        fixed = parse_subnet(subnet)
        self._refuse_namesake(sandbox)
        if fixed is not None:
            wanted = Lease(sandbox, fixed, self.owner)
            self._refuse_taken(wanted)
            return wanted
        in_use = self.in_use()
        for number in self._order(sandbox, in_use):
            lease = Lease(sandbox, number, self.owner)
            if not self._strangers(lease, in_use) and not self._other_leases(lease):
                return lease
        raise HostError(
            what=f"no /24 is free for sandbox {sandbox!r}",
            why=f"every /24 of {SANDBOX_POOL} or its partner in {EGRESS_POOL} overlaps a route, "
            "a network or another sandbox",
            remedy="destroy a sandbox, or remove the route or network that covers the pool "
            "(`ip route`, `docker network ls`)",
        )

    def _order(self, sandbox: str, in_use: list[Taken]) -> Iterator[int]:
        """Numbers to try: what the sandbox had, what its bridge has, then from 0 up."""
        old = self.find(sandbox)
        if old is not None:
            yield old.number
        bridge = bridge_name(sandbox)
        for taken in in_use:
            network = taken.network
            if taken.interface != bridge or not isinstance(network, ipaddress.IPv4Network):
                continue
            if network.subnet_of(SANDBOX_POOL):
                yield (int(network.network_address) >> 8) & 0xFF
        yield from range(256)

    def _strangers(self, lease: Lease, in_use: list[Taken] | None = None) -> list[Taken]:
        """What overlaps the lease and isn't one of the sandbox's own bridges."""
        in_use = self.in_use() if in_use is None else in_use
        return [
            taken
            for taken in in_use
            if lease.overlaps(taken.network) and taken.sandbox != lease.sandbox
            if taken.docker_id or taken.interface not in lease.interfaces
        ]

    def _other_leases(self, lease: Lease) -> list[str]:
        return [
            f"the lease of sandbox {other.sandbox!r} (checkout {other.owner})"
            for other in self._all()
            if other.sandbox != lease.sandbox
            if other.number == lease.number or set(other.interfaces) & set(lease.interfaces)
        ]

    def _all(self) -> Iterator[Lease]:
        for path in host.documents(self.folder):
            document = host.read_document(path)
            if document is not None:  # freed in this moment
                yield _lease(path, document)

    def _refuse_namesake(self, sandbox: str) -> None:
        """A sandbox of the same name in a checkout that still exists isn't ours to take over."""
        lease = self.find(sandbox)
        if lease is None or lease.owner == self.owner or not Path(lease.owner).is_dir():
            return
        raise HostError(
            what=f"sandbox {sandbox!r} exists already on this host",
            why=f"the checkout at {lease.owner} has leased {lease.subnet} for it",
            remedy=f"give the stack another name, or destroy it there (if that checkout has "
            f"forgotten it, remove {self._path(sandbox)})",
        )

    def _refuse_taken(self, lease: Lease) -> None:
        takers = [taken.by for taken in self._strangers(lease)] + self._other_leases(lease)
        if takers:
            raise HostError(
                what=f"subnet {lease.subnet} can't be leased for sandbox {lease.sandbox!r}",
                why=f"{' and '.join(takers)} has addresses of {lease.subnet} or "
                f"{lease.egress_subnet}",
                remedy=f"set subnet to {AUTO!r} or to another /24 of {SANDBOX_POOL}, or remove "
                "what is in the way",
            )


def _lease(path: Path, document: dict[str, Any]) -> Lease:
    sandbox, number, owner = (document.get(key) for key in ("sandbox", "number", "owner"))
    if sandbox == path.stem and isinstance(number, int) and isinstance(owner, str):
        return Lease(path.stem, number, owner)
    raise HostError(
        what=f"{path} isn't a lease",
        why="its sandbox, number or owner is missing or wrong",
        remedy="remove the file; `pulumi up` of its stack writes it again",
    )


def on_this_host() -> Leases:
    """The real leases."""
    return Leases(
        host.state_dir() / "leases",
        host.checkout(),
        lambda: host.routes() + host.docker_networks() + host.libvirt_networks(),
    )


class SubnetLeaseResource(Resource):
    """Adapter of ``SubnetLease``."""

    type_name = "SubnetLease"
    fields = (
        Field(name="sandbox", kind=str, replaces=True),
        Field(name="subnet", kind=str, default=AUTO, replaces=True),
    )
    # One file a sandbox: the old lease has to go before the new one is written.
    delete_before_replace = True
    drift_fields: ClassVar = ("conflicts",)

    def __init__(
        self,
        leases: Callable[[], Leases],
        leftovers: Callable[[], Leftovers],
        records: Callable[[], Records],
    ) -> None:
        self._leases = leases
        self._leftovers = leftovers
        self._records = records

    def problems(self, inputs: Data, old: Data) -> Iterator[Failure]:
        """Bad names and subnets, and addresses that somebody else has."""
        if is_unknown(inputs):
            return
        if old.get("sandbox") == inputs["sandbox"] and old.get("subnet") == inputs["subnet"]:
            return  # leased already: what has changed on the host since is drift, which is repaired
        try:
            check_name(inputs["sandbox"])
            self._leases().check(inputs["sandbox"], inputs["subnet"])
        except AboxError as error:
            yield Failure("subnet" if isinstance(error, HostError) else "", str(error))

    def same(self, name: str, old: object, new: object) -> bool:
        """The stored subnet is the leased one, which "auto" agrees with."""
        return old == new or (name == "subnet" and new == AUTO and bool(old))

    def drift(self, state: Data, inputs: Data) -> dict[str, bool]:  # noqa: ARG002
        """Anybody else in the lease's addresses."""
        return {"conflicts": False} if state.get("conflicts") else {}

    def planned(self, inputs: Data, old: Data | None) -> Data:
        """Names always, addresses if they're fixed or were leased."""
        sandbox = inputs["sandbox"]
        fixed = parse_subnet(old["subnet"] if old else inputs["subnet"])
        known = {**_names(sandbox), **_state([], next_generation(old or {}, "unrecorded"))}
        if fixed is not None:
            return {**_addresses(Lease(sandbox, fixed, "")), **known}
        return {**dict.fromkeys(_addresses(Lease(sandbox, 0, "")), UNKNOWN), **known}

    def create(self, inputs: Data) -> tuple[str, Data]:
        """Lease, and take away what an earlier life of the sandbox left on the host."""
        leases = self._leases()
        lease = leases.take(inputs["sandbox"], inputs["subnet"])
        self._leftovers().remove(lease.sandbox)
        return lease.sandbox, _outputs(lease, _state(leases.conflicts(lease), FIRST_GENERATION))

    def read(self, resource_id: str, state: Data) -> Data:
        """The lease beside what else has its addresses."""
        leases = self._leases()
        lease = _stored(resource_id, state, leases)
        strays = self._strays(lease)
        told = [f"the network {each[:12]} is unfinished" for each in strays]
        live = _state(leases.conflicts(lease) + told, generation_of(state))
        # Either the stack holds it and it wasn't recorded, or nobody holds it. Both end well with
        # networks of another label: pulumi-docker removes what it holds, and the update the rest.
        unrecorded = strays if strays and self._lacks_network(lease) else []
        return _outputs(lease, {**live, "unrecorded": unrecorded})

    def update(self, resource_id: str, old: Data, new: Data) -> Data:  # noqa: ARG002
        """Write the lease again and take hand-made twins of its bridges away."""
        leases = self._leases()
        lease = _stored(resource_id, old, leases)
        self._leftovers().remove_twins(lease.sandbox, lease.interfaces)
        self._leftovers().remove_networks(self._strays(lease))
        leases.restore(lease)
        return _outputs(lease, _state(leases.conflicts(lease), next_generation(old, "unrecorded")))

    def delete(self, resource_id: str, state: Data) -> None:  # noqa: ARG002
        """Give the addresses back; the last of the sandbox to go takes everything left along."""
        self._leftovers().remove(resource_id)
        self._leases().free(resource_id)

    def _strays(self, lease: Lease) -> list[str]:
        return self._leftovers().stray_networks(lease.sandbox, self._recorded(lease))

    def _lacks_network(self, lease: Lease) -> bool:
        """Whether a bridge has no recorded network that stands."""
        return not self._leftovers().all_networks_stand(self._recorded(lease).values())

    def _recorded(self, lease: Lease) -> dict[str, str | None]:
        records = self._records()
        return {each: records.find_network(lease.sandbox, each) for each in lease.interfaces}


def _stored(sandbox: str, state: Data, leases: Leases) -> Lease:
    number = parse_subnet(state["subnet"])
    return Lease(sandbox, 0 if number is None else number, leases.owner)


def _names(sandbox: str) -> Data:
    return {
        "bridge": bridge_name(sandbox),
        "egress_bridge": egress_bridge_name(sandbox),
        "table": table_name(sandbox),
    }


def _state(conflicts: list[str], generation: str) -> Data:
    return {"conflicts": conflicts, "generation": generation, "unrecorded": []}


def _outputs(lease: Lease, state: Data) -> Data:
    return {**_names(lease.sandbox), **_addresses(lease), **state}


def _addresses(lease: Lease) -> Data:
    return {
        "subnet": str(lease.subnet),
        "gateway": str(lease.subnet[GATEWAY_NUMBER]),
        "agent": str(lease.subnet[AGENT_NUMBER]),
        "host": str(lease.subnet[HOST_NUMBER]),
        "egress_subnet": str(lease.egress_subnet),
        "egress_host": str(lease.egress_subnet[HOST_NUMBER]),
        "egress_gateway": str(lease.egress_subnet[GATEWAY_NUMBER]),
        "egress_subnet_v6": str(lease.egress_subnet_v6),
        "egress_host_v6": str(lease.egress_subnet_v6[HOST_NUMBER]),
        "egress_gateway_v6": str(lease.egress_subnet_v6[GATEWAY_NUMBER]),
    }
