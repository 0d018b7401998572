"""Where the data plane is measured: a gateway pod, an origin and a resolver behind it, no sniffers.

The pod is the product's own, made of ``abox.pod``; peers run in its network namespace. The world's
cables lead its bridges into a namespace, and whatever would leave the machine is dropped.
"""

from __future__ import annotations

import contextlib
import secrets
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

from bench import load, peers
from tests import host
from tests.integration.gateway.pod import GatewayPod
from tests.world import cables, sweep
from tests.world.certificates import Authority

NAME = "allowed.test"
DENIED = "denied.test"
ORIGIN = "198.51.100.10"
RESOLVER = cables.RESOLVER
CIDRS = ["198.51.100.0/24"]


@dataclass(frozen=True)
class Lab:
    """Everything that a measurement needs."""

    pod: GatewayPod
    place: peers.Place
    folder: Path

    @property
    def origin_ca(self) -> Path:
        """File with the authority that the origin's certificate is of."""
        return self.folder / "origin-ca.pem"

    @property
    def minting_ca(self) -> Path:
        """File with the authority that intercepting proxies sign with."""
        return self.folder / "ca.pem"

    def log(self, name: str) -> Path:
        """A file for somebody's complaints."""
        return self.folder / f"{name}.log"

    def apply(self, allow: list[Any], **settings: Any) -> None:
        """Make a policy live.

        Raises: RuntimeError if the pod refuses it.
        """
        answer = self.pod.apply(
            allow, allow_private_cidrs=CIDRS, trusted_cas=[self.place.origin_ca], **settings
        )
        if not answer.get("ok"):
            raise RuntimeError(f"the pod refused a policy: {answer}")


@contextlib.contextmanager
def lab() -> Iterator[Lab]:
    """The lab, for the block; nothing of it stays."""
    sweep.sweep()
    run = cables.register()
    number = 200 + secrets.randbelow(50)
    pod = GatewayPod(
        run.stack("b"), IPv4Network(f"10.10.{number}.0/24"), IPv4Network(f"10.11.{number}.0/24")
    )
    with tempfile.TemporaryDirectory(prefix="abxb-") as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        stack.callback(cables.unregister, run)
        stack.callback(cables.remove, run)
        cables.lay(run)
        cables.route_bridges(run, list(pod.bridges))
        cables.add_address(run, ORIGIN)
        stack.callback(pod.stop)
        pod.start()
        _serve(stack, run, folder)
        (folder / "ca.pem").write_text(pod.authority[0])
        place = peers.Place(
            pid=pod.pid,
            gateway=pod.gateway,
            origin_ca=(folder / "origin-ca.pem").read_text(),
            ca_pair=pod.authority,
            resolver=RESOLVER,
        )
        made = Lab(pod, place, folder)
        made.apply([NAME])
        pod.wait_until_ready()
        yield made
        if cables.escaped(run):
            raise RuntimeError("packets of the benchmark would have left the machine")


def _serve(stack: contextlib.ExitStack, run: cables.Run, folder: Path) -> None:
    """Origin and resolver in the world's namespace."""
    authority = Authority()
    pair = authority.leaf([NAME])
    for file, text in (
        ("origin-ca.pem", authority.pem), ("leaf.pem", pair.certificate), ("leaf.key", pair.key),
    ):  # fmt: skip
        (folder / file).write_text(text)
    enter = ["ip", "netns", "exec", run.world]
    files = folder / "leaf.pem", folder / "leaf.key"
    stack.callback(host.end, load.serve_origin(enter, ORIGIN, files, folder / "origin.log"))
    names = peers.upstream(RESOLVER, {NAME: ORIGIN})
    command = [*enter, "chroot", str(peers.ROOT), *names]
    resolver = host.spawn(command, stderr_path=folder / "resolver.log")
    stack.callback(host.end, resolver)
    stack.callback(resolver.terminate)
