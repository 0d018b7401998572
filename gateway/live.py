"""What is in force in Envoy and in both resolvers, compared with what a plan asks for.

Files prove nothing: a process may have refused one, or have been told something else. So the
routes are read from Envoy's memory, and the resolvers are asked for their zones and probed.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

from abox.gates import Gates
from abox.render.envoy_gate import GATE, gate_listener
from abox.render.envoy_origins import value_name
from abox.render.envoy_routes import Side
from abox.render.envoy_types import Json
from abox.render.paths import (
    AUTHORITIES_PREFIX,
    ENVOY_ADMIN_SOCKET,
    POLICY_DIR,
    RPZ_FILE,
    VALUES_DIR,
    unbound_socket,
)
from abox.render.unbound import NO_UPSTREAM, ZONE, UnboundRole
from abox.secrets import SecretValue
from gateway.dns_probe import NXDOMAIN, ask
from gateway.envoy_admin import EnvoyAdmin
from gateway.files import read_file
from gateway.plan import Plan
from gateway.trust import public_roots
from gateway.unbound_control import UnboundControl
from gateway.values import Values

VALUES = Values(Path(VALUES_DIR))
ENVOY = EnvoyAdmin(Path(ENVOY_ADMIN_SOCKET))
RESOLVERS = {role: UnboundControl(Path(unbound_socket(role.value))) for role in UnboundRole}


@dataclass(frozen=True)
class Finding:
    """One thing that is not as the plan asks; ``what`` says where."""

    what: str
    why: str

    def __str__(self) -> str:
        return f"{self.what}: {self.why}"


def proxy_findings(plan: Plan, gates: Gates) -> list[Finding]:
    """What differs in Envoy; empty if nothing."""
    try:
        clusters = cluster_findings(plan.clusters(), plan.digests)
        return [*route_findings(plan), *clusters, *gate_findings(gates)]
    except OSError as error:
        return [Finding("proxy", str(error))]


def authority_findings(plan: Plan) -> list[Finding]:
    """Authorities that the proxy would trust after a restart and the plan doesn't, or not so."""
    wanted = plan.authorities(public_roots())
    paths = {*wanted, *map(str, Path(POLICY_DIR).glob(f"{AUTHORITIES_PREFIX}*"))}
    return [
        Finding(f"proxy ({Path(path).name})", "the file is not that of the policy")
        for path in sorted(paths)
        if (read_file(Path(path)) or b"").decode(errors="replace") != wanted.get(path, "")
    ]


def closing() -> int:
    """How many of the gate's chains and listeners are gone and still have connections to close."""
    return sum(ENVOY.counters(r"listener_manager\.total_.*_draining$").values())


def cluster_findings(clusters: Sequence[Json], digests: Mapping[str, str]) -> list[Finding]:
    """What differs in the clusters that Envoy has beside its own, and in the values that they use.

    Raises: OSError if Envoy doesn't answer.
    """
    live = ENVOY.clusters()
    found = []
    for name in sorted({*live, *(cluster["name"] for cluster in clusters)}):
        wanted = next((one for one in clusters if one["name"] == name), {})
        if not _same(wanted, live.get(name, {})):
            found.append(Finding(f"proxy ({name})", "the live cluster is not that of the policy"))
    for secret, digest in digests.items():
        if ENVOY.secret_version(value_name(secret, digest)) != digest:
            found.append(Finding(f"proxy (secret {secret})", "the value is not live"))
    return found


def secret_findings(plan: Plan, key: str) -> list[Finding]:
    """Values that aren't those that were applied; empty if all are."""
    return [
        Finding(f"secret {name}", "another value is live")
        for name, digest in plan.digests.items()
        if _digest_of(VALUES.read(value_name(name, digest)), name, key) != digest
    ]


def _digest_of(value: bytes | None, name: str, key: str) -> str:
    return SecretValue((value or b"").decode("latin-1")).digest(key, name)


def dns_findings(plan: Plan, gateway: IPv4Address) -> list[Finding]:
    """What differs in the resolvers; empty if nothing."""
    found: list[Finding] = []
    for role, control in RESOLVERS.items():
        try:
            found += _resolver_findings(plan, role, control)
            found += _probe_findings(plan, role, gateway)
        except OSError as error:
            found.append(Finding(f"dns ({role.value})", str(error)))
    return found


def route_findings(plan: Plan) -> Iterator[Finding]:
    """What differs in Envoy's routes.

    Raises: OSError if Envoy doesn't answer.
    """
    live = ENVOY.routes()
    for side in Side:
        response = json.loads(plan.routes[side])
        found = live.get(side.value, {})
        if found.get("version_info") != response["version_info"]:
            yield Finding(f"proxy ({side.value})", "another version of the routes is live")
        elif not _same(response["resources"][0], found["route_config"]):
            yield Finding(f"proxy ({side.value})", "the live routes are not those of the policy")


def gate_findings(gates: Gates) -> Iterator[Finding]:
    """Compares the listener itself: Envoy keeps the old version where it exchanges chains alone."""
    if not _same(gate_listener(gates), ENVOY.listener(GATE)):
        yield Finding("proxy (gate)", "the live gate is not that of the policy")


def _same(wanted: Any, found: Any) -> bool:
    """Whether two messages in JSON say the same; Envoy leaves out what is default."""
    return bool(_canonical(wanted) == _canonical(found))


_DEFAULTS: tuple[Any, ...] = (False, "", 0, [], {}, None, "ALLOW")
"""Values that Envoy leaves out of its dump; ALLOW is the first of the RBAC filter's actions."""


def _canonical(value: Any) -> Any:
    if isinstance(value, dict):
        parts = {key: _canonical(part) for key, part in value.items()}
        return {key: part for key, part in parts.items() if part not in _DEFAULTS}
    if isinstance(value, list):
        return [_canonical(part) for part in value]
    return value


def _resolver_findings(plan: Plan, role: UnboundRole, control: UnboundControl) -> Iterator[Finding]:
    where = f"dns ({role.value})"
    if control.zone_serial(ZONE) != serial_of(plan.zone):
        yield Finding(where, "another version of the names is live")
    if read_file(Path(RPZ_FILE)) != plan.zone.encode():
        yield Finding(where, "the file of the names was changed")
    for listing, wanted in _listings(plan).items():
        found = [line for line in control.lines(listing) if not line.startswith(_ROOT_HINTS)]
        if found != wanted:
            yield Finding(where, f"{listing} gives {found}, not {wanted}")


def serial_of(zone: str) -> int:
    """Serial number of a rendered zone."""
    return int(zone.partition(" SOA ")[2].split(maxsplit=3)[2])


_ROOT_HINTS = ". IN stub prime "
"""Unbound's built-in hints: never used while everything is forwarded."""


def _listings(plan: Plan) -> Mapping[str, list[str]]:
    """What the resolvers list when nobody added anything by hand."""
    upstream = " ".join(plan.upstream_dns) or NO_UPSTREAM
    return {
        "list_forwards": [f". IN forward {upstream}"],
        "list_stubs": [],
        "list_local_zones": [],
        "list_local_data": [],
    }


def _probe_findings(plan: Plan, role: UnboundRole, gateway: IPv4Address) -> Iterator[Finding]:
    """A name that nobody can have listed must be denied here, without a look upstream."""
    if plan.policy and plan.policy.mode.value == "passive":
        return
    server = gateway if role is UnboundRole.AGENT else IPv4Address("127.0.0.1")
    name = f"{secrets.token_hex(8)}.abox-probe.invalid"
    answer = ask(server, name)
    if answer.rcode != NXDOMAIN or not answer.authoritative:
        yield Finding(f"dns ({role.value})", f"a name off the list is not denied: {answer}")
