"""A case, and its keys: what the format's description allows, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

LAYERS = (
    "dns",
    "proxy",
    "nwfilter",
    "forward",
    "substrate",
    "config",
    "policy",
    "drift",
)
BACKENDS = ("container", "vm", "any", "none")

SETTINGS = frozenset(
    [
        "allow",
        "mode",
        "mitm",
        "allow_private_cidrs",
        "mounts",
        "dns_upstreams",
        "dns_queries_per_minute",
    ]
)
"""Keys of `given` that are settings of the stack."""

GIVEN = SETTINGS | {
    "allow_before",
    "established",
    "reload_every_ms",
    "started_twice",
    "dns",
    "records",
    "dns_fail",
    "dns_sequence",
    "origins",
    "host",
    "log_volume",
    "each",
}

_HTTP = frozenset(
    [
        "method",
        "url",
        "headers",
        "body",
        "via",
        "sni",
        "inner_host",
        "http_version",
        "times",
        "over_s",
        "reuse",
        "hello_segment",
        "hello_with_connect",
    ]
)
_DNS = frozenset(["name", "labels", "wire", "type", "edns", "times", "over_s"])
_SOCKET = frozenset(
    [
        "proto",
        "to",
        "port",
        "from",
        "src_ip",
        "src_mac",
        "src_port",
        "next_hop",
        "payload_bytes",
    ]
)
_TAMPER = frozenset(["what", "run", "files", "before_up"])

ACTIONS: Mapping[str, frozenset[str] | None] = {
    "http": _HTTP,
    "raw": None,
    "dns": _DNS,
    "socket": _SOCKET,
    "exec": None,
    "exec_host": None,
    "config": None,
    "tamper": _TAMPER,
}
"""Each action with the keys inside it; None where the value isn't a mapping of fixed keys."""

RAW = frozenset(["after_connect", "inside_tls", "connections", "hold_s"])
"""Keys beside `raw`."""

ORIGIN = frozenset(["at", "speaks", "cert", "answer"])

EXPECT = frozenset(
    [
        "status",
        "status_in",
        "statuses",
        "echo",
        "closes",
        "body_bytes",
        "body_lacks",
        "leaf",
        "reached_origin",
        "never_reached",
        "origin_saw",
        "origin_never_saw",
        "origin_bytes",
        "origin_saw_sni",
        "origin_plaintext",
        "rcode",
        "rcode_in",
        "answers",
        "answers_none_of",
        "truncated",
        "upstream_queries",
        "upstream_queries_max",
        "upstream_queries_lack",
        "host_queries",
        "refused",
        "connected",
        "packets_seen",
        "filter_accepts",
        "filter_refuses",
        "ok",
        "error_contains",
        "or_config_error",
        "violation",
        "xml_has",
        "xml_round_trip",
        "cloud_init",
        "agrees",
        "drift",
        "repaired",
        "stays_closed",
        "recovers_or_drift",
        "or_tamper_fails",
        "agent_running",
        "leftovers",
        "log_lacks",
        "log_lines_are_json",
        "gateway_files_lack",
        "stdout_contains",
        "stdout_lacks",
        "exit_code",
        "exit_nonzero",
        "alive",
        "within_s",
    ]
)

TOP = frozenset(["id", "layer", "backend", "given", "do", "expect", "why", "source"])
REQUIRED = frozenset(["id", "layer", "backend", "given", "do", "expect"])


@dataclass(frozen=True, kw_only=True)
class Case:
    """One case with one member of its `each` filled in."""

    id: str
    layer: str
    backend: str
    given: dict[str, Any]
    do: dict[str, Any]
    expect: dict[str, Any]
    file: str = ""
    member: str = ""
    """The member of `each`, as text; empty without one."""
    why: str = field(default="", compare=False)

    @property
    def kind(self) -> str:
        """The kind of fault: the id before ``--``."""
        return self.id.partition("--")[0]

    @property
    def title(self) -> str:
        """The id with the member of `each`."""
        return f"{self.id}[{self.member}]" if self.member else self.id

    @property
    def action(self) -> str:
        """The name of the one action."""
        return next(name for name in self.do if name in ACTIONS)
