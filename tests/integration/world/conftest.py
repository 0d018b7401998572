"""A client of the test world: a namespace behind a bridge, as a gateway pod's egress leg is."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests import host
from tests.world import World

SUBNET = "10.11.250"


@dataclass(frozen=True)
class Client:
    """Runs programs where a gateway pod would run."""

    netns: str

    def run(self, *args: str, timeout_s: float = 20) -> host.Completed:
        """Run a program there."""
        command = ["ip", "netns", "exec", self.netns, *args]
        return host.run(command, check=False, timeout_s=timeout_s)

    def curl(self, *args: str) -> host.Completed:
        """Run curl, silent, at most five seconds."""
        return self.run("curl", "-sS", "-m", "5", *args)


@contextlib.contextmanager
def client_of(world: World) -> Iterator[Client]:
    """A namespace whose packets come from a bridge that the world has joined."""
    number = world.run.number
    name, bridge, table = f"abxt-{number}c", f"abx-abxt-{number}ze", f"abxt-{number}n"
    host.run(["ip", "netns", "add", name])
    try:
        on_host = [
            f"link add {bridge} type bridge",
            f"address add {SUBNET}.1/24 dev {bridge}",
            f"link set {bridge} up",
            f"link add abxt-{number}v type veth peer name eth0 netns {name}",
            f"link set abxt-{number}v master {bridge} up",
        ]
        inside = [
            "link set lo up",
            f"address add {SUBNET}.2/24 dev eth0",
            "link set eth0 up",
            f"route add default via {SUBNET}.1",
        ]
        host.run(["ip", "-batch", "-"], text="\n".join(on_host) + "\n")
        host.run(["ip", "-netns", name, "-batch", "-"], text="\n".join(inside) + "\n")
        nat = f"type nat hook postrouting priority 100; ip saddr {SUBNET}.0/24 masquerade"
        host.run(["nft", "-f", "-"], text=f"table inet {table} {{\nchain p {{ {nat}\n}}\n}}\n")
        for side in ("-i", "-o"):  # Docker's chains refuse what they don't know
            host.run(["iptables", "-I", "FORWARD", side, bridge, "-j", "ACCEPT"])
        world.join(bridge)
        yield Client(name)
    finally:
        for side in ("-i", "-o"):
            host.run(["iptables", "-D", "FORWARD", side, bridge, "-j", "ACCEPT"], check=False)
        host.run(["nft", "delete", "table", "inet", table], check=False)
        for device in (f"abxt-{number}v", bridge):  # a namespace takes its time to let go
            host.run(["ip", "link", "del", device], check=False)
        host.run(["ip", "netns", "del", name], check=False)


@pytest.fixture
def client(world: World) -> Iterator[Client]:
    """A client of the session's world."""
    with client_of(world) as made:
        yield made
