"""Configuration of Envoy, the pod's forward proxy."""

from __future__ import annotations

import json
from ipaddress import IPv4Address


def render_bootstrap(*, gateway: IPv4Address, proxy_port: int, sandbox: str) -> str:
    """The part of the configuration that a policy change never touches."""
    return json.dumps({"node": {"id": sandbox, "cluster": f"{gateway}:{proxy_port}"}})
