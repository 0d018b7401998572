"""Configuration of the pod's two Unbound resolvers."""

from __future__ import annotations

from enum import StrEnum
from ipaddress import IPv4Address


class UnboundRole(StrEnum):
    """Who asks a resolver."""

    AGENT = "agent"
    PROXY = "proxy"


def render_server(role: UnboundRole, gateway: IPv4Address) -> str:
    """The part of the configuration that a policy change never touches."""
    return f"# {role.value} {gateway}\n"
