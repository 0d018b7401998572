"""A policy goes live: judged in full, written, loaded, and read back; or nothing changes."""

from __future__ import annotations

import fcntl
import functools
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from ipaddress import IPv4Address
from pathlib import Path

from abox.allowlist import Policy
from abox.errors import AboxError
from abox.gates import Gates
from abox.render.envoy_gate import render_gate
from abox.render.envoy_origins import render_clusters, value_name
from abox.render.paths import (
    AUTHORITIES_PREFIX,
    CA_DIR,
    CLUSTERS_FILE,
    GATE_FILE,
    POLICY_DIR,
    READY_FILE,
    RPZ_FILE,
    TRUST_DIR,
    unbound_file,
)
from abox.render.unbound import ZONE, UnboundRole, render_server, render_zone
from gateway.applied import Applied, begin_change, read_applied, read_plan, write_applied
from gateway.files import read_file, write_file
from gateway.host import run
from gateway.live import (
    ENVOY,
    RESOLVERS,
    VALUES,
    Finding,
    closing,
    cluster_findings,
    dns_findings,
    gate_findings,
    proxy_findings,
    route_findings,
)
from gateway.plan import Plan
from gateway.trust import public_roots, write_trust

LIVE_TIMEOUT_S = 30
"""Seconds until a policy must be live; the first one waits for dns and proxy to start."""
POLL_S = 0.05

CERTIFICATE_FILE = Path(CA_DIR) / "ca.pem"
KEY_FILE = Path(CA_DIR) / "ca.key"
LOCK_FILE = Path(CA_DIR) / "lock"


def apply(plan: Plan, gateway: IPv4Address) -> None:
    """Make a plan live in dns and proxy, and close what it doesn't allow any more.

    Raises: AboxError if it was refused; then the policy before it is in force again.
    """
    files = plan.files()
    with _lock():
        _check_resolvers(files, gateway)
        applied = read_applied()
        change = Change.plan(applied, plan, number=time.time_ns())
        before = {path: read_file(Path(path)) for path in files}
        in_force = applied.plan if applied else read_plan()
        begin_change()
        refused = _rejections()
        try:
            both = _offer_clusters(plan, in_force, refused)
            _put({GATE_FILE: render_gate(change.opened), **files, CLUSTERS_FILE: both})
            _load(files, before)
            write_file(Path(READY_FILE), f"{plan.policy_hash}\n")
            _wait_until(refused, lambda: _not_live(plan, change.opened, gateway))
            clusters = render_clusters(plan.clusters())
            _put({GATE_FILE: render_gate(change.closed), CLUSTERS_FILE: clusters})
            _wait_until(refused, lambda: _not_closed(plan, change.closed))
        except OSError as error:
            _restore(before, applied, change)
            VALUES.forget(keep=_values_of(in_force))
            _forget_authorities(in_force)
            raise AboxError(
                what="the policy did not go live",
                why=str(error),
                remedy="the policy before it is in force again; see the logs of dns and proxy",
            ) from error
        _remember(plan, change.closed)
        VALUES.forget(keep=plan.values())
        _forget_authorities(plan)


@dataclass(frozen=True, kw_only=True)
class Change:
    """The gates while a plan goes live.

    First the gate lets through whatever is allowed before or after, then the filters judge by the
    new policy, then the gate closes: so nothing that is allowed fails, and whatever passed by the
    old policy is closed.
    """

    opened: Gates
    closed: Gates
    old: Policy | None
    new: Policy | None
    number: int

    @classmethod
    def plan(cls, applied: Applied | None, plan: Plan, *, number: int) -> Change:
        """The gates of a change.

        Args:
            applied: what is in force; None if nobody knows: then everything is closed.
            plan: what comes.
            number: larger than that of every change before.
        """
        gates = applied.gates if applied else Gates()
        old = applied.plan.policy if applied else None
        closed = gates.after(old, plan.policy, number)
        opened = gates.opened(closed)
        return cls(opened=opened, closed=closed, old=old, new=plan.policy, number=number)

    def undone(self) -> Gates:
        """The gates in the end, if the plan is refused."""
        return self.opened.after(self.new, self.old, self.number + 1)


def write_first(plan: Plan) -> None:
    """Write the files of a plan without loading anything: before dns and proxy have started."""
    with _lock():
        if Path(READY_FILE).exists():  # an apply was faster than the daemon's start
            return
        gates = Gates().after(None, plan.policy, time.time_ns())
        _put({GATE_FILE: render_gate(gates), **plan.authorities(public_roots()), **plan.files()})
        write_applied(Applied(plan=plan, gates=gates))
        write_file(Path(READY_FILE), f"{plan.policy_hash}\n")


@contextmanager
def _lock() -> Iterator[None]:
    """One apply at a time."""
    with LOCK_FILE.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _offer_clusters(plan: Plan, in_force: Plan | None, refused: int) -> str:
    """Have the clusters of the new routes ready before a route leads there.

    Those of the routes in force stay meanwhile: no request finds its cluster missing.

    Args:
        plan: what comes.
        in_force: what was remembered last.
        refused: how many files Envoy had refused before.
    Returns: the clusters' file as it has to be until the new routes are live.
    """
    VALUES.keep(plan.values())
    for one in (in_force, plan):
        _put(one.authorities(public_roots()) if one else {})
    clusters = {one["name"]: one for one in (in_force.clusters() if in_force else [])}
    clusters |= {one["name"]: one for one in plan.clusters()}
    both = render_clusters(clusters.values())
    written = write_file(Path(CLUSTERS_FILE), both)
    if written and Path(READY_FILE).exists():
        digests = {**(in_force.digests if in_force else {}), **plan.digests}
        _wait_until(refused, lambda: cluster_findings([*clusters.values()], digests))
    return both


def _forget_authorities(plan: Plan | None) -> None:
    """Delete the files of authorities that no cluster of a plan reads."""
    kept = plan.authorities(public_roots()) if plan else {}
    for path in Path(POLICY_DIR).glob(f"{AUTHORITIES_PREFIX}*"):
        if str(path) not in kept:
            path.unlink()


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
        write_file(zone, render_zone(None))  # the names are ours; a long list has no room here
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


def _put(files: Mapping[str, str | bytes]) -> None:
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


def _not_live(plan: Plan, gates: Gates, gateway: IPv4Address) -> list[Finding]:
    """What dns and proxy don't have in force yet."""
    return [*route_findings(plan), *gate_findings(gates), *dns_findings(plan, gateway)]


def _not_closed(plan: Plan, gates: Gates) -> list[Finding]:
    """What the plan doesn't allow any more and is still open."""
    left = closing()
    open_ = (
        [Finding("proxy (gate)", f"connections of {left} scopes are still open")] if left else []
    )
    return [*proxy_findings(plan, gates), *open_]


def _wait_until(refused: int, look: Callable[[], list[Finding]]) -> None:
    """Look until nothing is found.

    Args:
        refused: how many files Envoy had refused before.
        look: what is missing.

    Raises: OSError with what is missing, as soon as Envoy refuses another or the time is over.
    """
    deadline = time.monotonic() + LIVE_TIMEOUT_S
    while found := _found(look):
        if _rejections() > refused:
            raise OSError("envoy refused the configuration")
        if time.monotonic() > deadline:
            raise OSError("; ".join(map(str, found)))
        time.sleep(POLL_S)


def _found(look: Callable[[], list[Finding]]) -> list[Finding]:
    try:
        return look()
    except OSError as error:
        return [Finding("proxy", str(error))]


def _rejections() -> int:
    """How often Envoy has refused a file so far; 0 while it doesn't answer."""
    try:
        return sum(ENVOY.counters(r"(rds\..*|lds|cds)\.update_rejected$").values())
    except OSError:
        return 0


def _restore(before: dict[str, bytes | None], applied: Applied | None, change: Change) -> None:
    """Put the files before back and load them; what fails here is in the next status."""
    _put({path: data for path, data in before.items() if data is not None})
    gates = change.undone()
    _put({GATE_FILE: render_gate(gates)})
    if applied:
        write_applied(replace(applied, gates=gates))
    for control in RESOLVERS.values():
        try:
            control.command("reload")
        except OSError:
            continue


def _remember(plan: Plan, gates: Gates) -> None:
    """The authority and the trust store follow the policy; control's daemon sees the new files."""
    write_file(KEY_FILE, plan.key, mode=0o600)
    write_file(CERTIFICATE_FILE, plan.certificate, mode=0o600)
    write_applied(Applied(plan=plan, gates=gates))
    write_trust(Path(TRUST_DIR), plan.certificate, plan.trusted_cas)
