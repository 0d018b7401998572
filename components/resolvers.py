"""The resolvers of this host, for stacks that name none."""

from __future__ import annotations

from ipaddress import IPv4Address
from pathlib import Path

from abox.errors import HostError
from abox.resolv_conf import parse_resolvers

FILES = (Path("/etc/resolv.conf"), Path("/run/systemd/resolve/resolv.conf"))
"""The second is where systemd-resolved keeps the real ones behind its stub on loopback."""


def host_resolvers(files: tuple[Path, ...] = FILES) -> tuple[IPv4Address, ...]:
    """IPv4 resolvers of the host that a gateway pod can ask.

    Args:
        files: resolv.conf(5) files, the first that names a usable one counts.
    Raises: HostError if none does.
    """
    for path in files:
        if path.is_file() and (found := parse_resolvers(path.read_text(errors="replace"))):
            return found
    raise HostError(
        what="abox:sandbox.upstream_dns is empty, and the host's own resolvers can't be used",
        why="no file of " + ", ".join(map(str, files)) + " names an IPv4 resolver off loopback",
        remedy="name a resolver, for example upstream_dns: [192.0.2.53]",
    )
