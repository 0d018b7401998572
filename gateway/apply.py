"""A policy goes live: judged in full, written, loaded, and read back; or nothing changes."""

from __future__ import annotations

import fcntl
import functools
import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from ipaddress import IPv4Address
from pathlib import Path

from abox.errors import AboxError
from abox.render.envoy_injection import render_clusters, value_name
from abox.render.paths import (
    CA_DIR,
    CLUSTERS_FILE,
    READY_FILE,
    RPZ_FILE,
    TRUST_DIR,
    unbound_file,
)
from abox.render.unbound import ZONE, UnboundRole, render_server
from gateway.files import read_file, read_json, write_file
from gateway.host import run
from gateway.live import (
    ENVOY,
    RESOLVERS,
    VALUES,
    Finding,
    cluster_findings,
    dns_findings,
    route_findings,
)
from gateway.plan import Plan
from gateway.trust import public_roots, write_trust

LIVE_TIMEOUT_S = 30
"""Seconds until a policy must be live; the first one waits for dns and proxy to start."""
POLL_S = 0.05

CERTIFICATE_FILE = Path(CA_DIR) / "ca.pem"
KEY_FILE = Path(CA_DIR) / "ca.key"
RECORD_FILE = Path(CA_DIR) / "applied.json"
"""The plan that is in force, without its key."""
LOCK_FILE = Path(CA_DIR) / "lock"


def apply(plan: Plan, gateway: IPv4Address) -> None:
    """Make a plan live in dns and proxy.

    Raises: AboxError if it was refused; then the policy before it is in force again.
    """
    files = plan.files(public_roots())
    with _lock():
        _check_resolvers(files, gateway)
        before = {path: read_file(Path(path)) for path in files}
        in_force = applied_plan()
        try:
            both = _offer_clusters(plan, in_force)
            _put(files | {CLUSTERS_FILE: both})
            _load(files, before)
            _wait_until_live(plan, gateway)
            _retire_clusters(plan)
        except OSError as error:
            _restore(before)
            VALUES.forget(keep=_values_of(in_force))
            raise AboxError(
                what="the policy did not go live",
                why=str(error),
                remedy="the policy before it is in force again; see the logs of dns and proxy",
            ) from error
        _remember(plan)
        VALUES.forget(keep=plan.values())


def write_first(plan: Plan) -> None:
    """Write the files of a plan without loading anything: before dns and proxy have started."""
    with _lock():
        if Path(READY_FILE).exists():  # an apply was faster than the daemon's start
            return
        _put(plan.files(public_roots()))
        write_file(RECORD_FILE, json.dumps(plan.to_record()), mode=0o600)
        write_file(Path(READY_FILE), f"{plan.policy_hash}\n")


@contextmanager
def _lock() -> Iterator[None]:
    """One apply at a time."""
    with LOCK_FILE.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def applied_plan() -> Plan | None:
    """The plan in force, as far as control remembers it; None before the first."""
    record = read_json(RECORD_FILE)
    try:
        return Plan.from_record(record) if record else None
    except (KeyError, TypeError, AboxError):
        return None


def _offer_clusters(plan: Plan, in_force: Plan | None) -> str:
    """Have the clusters of the new routes ready before a route leads there.

    Those of the routes in force stay meanwhile: no request finds its cluster missing.

    Returns: the clusters' file as it has to be until the new routes are live.
    """
    VALUES.keep(plan.values())
    clusters = {one["name"]: one for one in (in_force.clusters() if in_force else [])}
    clusters |= {one["name"]: one for one in plan.clusters()}
    both = render_clusters(clusters.values())
    written = write_file(Path(CLUSTERS_FILE), both)
    if written and Path(READY_FILE).exists():
        digests = {**(in_force.digests if in_force else {}), **plan.digests}
        _wait_for(lambda: cluster_findings([*clusters.values()], digests))
    return both


def _retire_clusters(plan: Plan) -> None:
    """Take away the clusters that no route leads to; what they carry is finished."""
    if write_file(Path(CLUSTERS_FILE), render_clusters(plan.clusters())):
        _wait_for(lambda: cluster_findings(plan.clusters(), plan.digests))


def _values_of(plan: Plan | None) -> list[str]:
    return [value_name(*pair) for pair in plan.digests.items()] if plan else []


def _check_resolvers(files: dict[str, str], gateway: IPv4Address) -> None:
    """Have Unbound's own parser read what would be loaded."""
    for role in UnboundRole:
        name = unbound_file(role.value)
        if read_file(Path(name)) == files[name].encode():
            continue
        dynamic = Path(f"/tmp/{role.value}-dynamic.conf")  # noqa: S108  # a private tmpfs
        static = Path(f"/tmp/{role.value}.conf")  # noqa: S108
        zone = Path(f"/tmp/{role.value}.zone")  # noqa: S108
        write_file(dynamic, files[name])
        write_file(zone, files[RPZ_FILE])
        server = render_server(role, gateway)
        # The checker doesn't know the Python module; what it checks is the dynamic part.
        for real, checked in ((name, str(dynamic)), (RPZ_FILE, str(zone)), (" python ", " ")):
            server = server.replace(real, checked)
        write_file(static, server)
        try:
            run("unbound-checkconf", str(static))
        except OSError as error:
            raise AboxError(
                what="the policy is refused by the DNS filter's parser",
                why=str(error),
                remedy="check allow_private_cidrs and upstream_dns",
            ) from error


def _put(files: dict[str, str]) -> None:
    for path, text in files.items():
        write_file(Path(path), text)


def _load(files: dict[str, str], before: dict[str, bytes | None]) -> None:
    """Tell both resolvers what is new; Envoy watches its files by itself."""
    if not Path(READY_FILE).exists():
        return
    for role, control in RESOLVERS.items():
        name = unbound_file(role.value)
        changed = before[name] != files[name].encode()
        command = "reload" if changed else f"auth_zone_reload {ZONE}"
        _retry(functools.partial(control.command, command))


def _retry(action: Callable[[], object]) -> None:
    """Try until it works: a resolver may be starting."""
    deadline = time.monotonic() + LIVE_TIMEOUT_S
    while True:
        try:
            action()
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(POLL_S)
        else:
            return


def _wait_until_live(plan: Plan, gateway: IPv4Address) -> None:
    """Wait until dns and proxy have the plan's names and routes in force.

    Raises: OSError with what is missing, as soon as Envoy refuses the routes or the time is over.
    """
    write_file(Path(READY_FILE), f"{plan.policy_hash}\n")
    _wait_for(lambda: [*route_findings(plan), *dns_findings(plan, gateway)])


def _wait_for(findings: Callable[[], Sequence[Finding]]) -> None:
    """Wait until there are none.

    Raises: OSError with what is missing, as soon as Envoy refuses a file or the time is over.
    """
    refused = _rejections()
    deadline = time.monotonic() + LIVE_TIMEOUT_S
    while found := _found(findings):
        if _rejections() > refused:
            raise OSError("envoy refused the configuration")
        if time.monotonic() > deadline:
            raise OSError("; ".join(map(str, found)))
        time.sleep(POLL_S)


def _found(findings: Callable[[], Sequence[Finding]]) -> Sequence[Finding]:
    try:
        return findings()
    except OSError as error:
        return [Finding("proxy", str(error))]


def _rejections() -> int:
    """How often Envoy has refused a file so far; 0 while it doesn't answer."""
    try:
        return sum(ENVOY.counters(r"(rds|cds)\..*update_rejected$").values())
    except OSError:
        return 0


def _restore(before: dict[str, bytes | None]) -> None:
    """Put the files before back and load them; what fails here is in the next status."""
    for path, data in before.items():
        if data is not None:
            write_file(Path(path), data)
    for control in RESOLVERS.values():
        try:
            control.command("reload")
        except OSError:
            continue


def _remember(plan: Plan) -> None:
    """The authority and the trust store follow the policy; control's daemon sees the new files."""
    write_file(KEY_FILE, plan.key, mode=0o600)
    write_file(CERTIFICATE_FILE, plan.certificate, mode=0o600)
    write_file(RECORD_FILE, json.dumps(plan.to_record()), mode=0o600)
    write_trust(Path(TRUST_DIR), plan.certificate, plan.trusted_cas)
