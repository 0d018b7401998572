"""Names derived from a sandbox's name: interfaces, tables, labels."""

from __future__ import annotations

import hashlib
import re
from enum import StrEnum

from abox.errors import SettingsError

NAME_PATTERN = "^[a-zA-Z][a-zA-Z0-9_-]{0,62}$"
"""What a stack's name, which is the sandbox's name, looks like."""

BRIDGE_PREFIX = "abx-"
TABLE_PREFIX = "abox-"
LINK_FILTER_SUFFIX = ".link"
"""Ends the name of a sandbox's second nwfilter; no sandbox's name holds a dot."""

INTERFACE_NAME_MAX = 15
"""Longest name of a Linux interface in characters (IFNAMSIZ without its zero byte)."""

EGRESS_SUFFIX = "e"

LABEL_SANDBOX = "abox.sandbox"
"""Docker label: the sandbox that a container, network or volume belongs to."""

LABEL_ROLE = "abox.role"
"""Docker label: what a container is in its sandbox, one of `Role`."""

LABEL_GENERATION = "abox.generation"
"""Docker label: changes when a container or network must be replaced to be what was asked."""

FIRST_GENERATION = "1"


class Role(StrEnum):
    """What a container is in its sandbox."""

    AGENT = "agent"
    PAUSE = "pause"
    DNS = "dns"
    PROXY = "proxy"
    CONTROL = "control"


_NAME = re.compile(NAME_PATTERN[1:-1])
_DIGEST_LENGTH = 10
_LITERAL_MAX = INTERFACE_NAME_MAX - len(BRIDGE_PREFIX) - len(EGRESS_SUFFIX)


def is_name(name: str) -> bool:
    """Whether the text is a valid sandbox name, to its very end (a final newline is none)."""
    return _NAME.fullmatch(name) is not None


def check_name(name: str) -> str:
    """The name itself.

    Raises: SettingsError if it isn't a valid sandbox name.
    """
    if not is_name(name):
        raise SettingsError(
            what=f"stack name {name!r} is refused",
            why="the stack's name is the sandbox's name and becomes part of paths, interface names "
            "and firewall rules",
            remedy=f"choose a stack name that matches {NAME_PATTERN}, for example project-a",
        )
    return name


def bridge_name(name: str) -> str:
    """Host-only bridge of a sandbox: `abx-` and the name, or a short hash where that won't do.

    The hash stands in for a name that is too long, and for one that ends in `e`: the egress bridge
    of `dev` is `abx-deve`, which must not be the bridge of a sandbox called `deve`.
    """
    check_name(name)
    if len(name) <= _LITERAL_MAX and not name.endswith(EGRESS_SUFFIX):
        return BRIDGE_PREFIX + name
    return BRIDGE_PREFIX + hashlib.sha256(name.encode()).hexdigest()[:_DIGEST_LENGTH]


def egress_bridge_name(name: str) -> str:
    """Egress bridge of a sandbox: only the gateway pod has a leg there."""
    return bridge_name(name) + EGRESS_SUFFIX


def table_name(name: str) -> str:
    """The sandbox's nftables table, family inet."""
    return TABLE_PREFIX + bridge_name(name).removeprefix(BRIDGE_PREFIX)


def filter_name(name: str) -> str:
    """The nwfilter on the tap of a sandbox's VM: who may talk to whom."""
    return table_name(name)


def link_filter_name(name: str) -> str:
    """The nwfilter that the first one refers to: which frames pass the tap at all."""
    return filter_name(name) + LINK_FILTER_SUFFIX


def default_mac(name: str) -> str:
    """Hardware address of a sandbox's VM, in QEMU's own range; each sandbox has its own bridge."""
    digest = hashlib.sha256(check_name(name).encode()).digest()
    return "52:54:00:" + ":".join(f"{byte:02X}" for byte in digest[:3])
