"""`abox ls`: the sandboxes of this host and the stacks of this checkout."""

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from abox.addresses import SANDBOX_POOL
from abox.errors import AboxError
from abox.host_state import state_dir
from abox.naming import Role
from abox.settings import Settings
from cli.checkout import Checkout, current_checkout
from cli.containers import Container, list_containers
from cli.output import note, say, say_json, say_table
from cli.parameters import AsJson
from cli.pulumi_engine import preview
from cli.stack_file import read_settings

UNKNOWN = "-"


@dataclass(frozen=True)
class Sandbox:
    """One line of the list."""

    name: str
    backend: str
    mode: str
    state: str
    """up, partly up (with what is missing), down; refused if its settings are."""
    subnet: str
    checkout: str
    """Folder of the checkout that made it; - if it isn't up."""
    drift: str | None = None
    """yes, no; None if it wasn't asked for."""


def ls(
    *,
    as_json: AsJson = False,
    drift: Annotated[
        bool, typer.Option("--drift", help="Also compare each with the host (takes seconds each).")
    ] = False,
) -> None:
    """List sandboxes: those of this checkout's stacks, and all others on this host."""
    checkout = current_checkout()
    found = list_sandboxes(checkout, list_containers(), read_leases(lease_folder()))
    if drift:
        found = [_with_drift(checkout, one) for one in found]
    if as_json:
        say_json([to_document(one) for one in found])
    elif not found:
        say("no sandboxes: write stacks/Pulumi.NAME.yaml, then run `pulumi up -s NAME`")
    else:
        columns = ["sandbox", "backend", "mode", "state", "subnet"]
        rows = [[one.name, one.backend, one.mode, one.state, one.subnet] for one in found]
        if drift:
            columns.append("drift")
            rows = [[*row, one.drift or UNKNOWN] for row, one in zip(rows, found, strict=True)]
        say_table(columns, rows)


def to_document(one: Sandbox) -> dict[str, Any]:
    """A sandbox for programs."""
    return {
        "name": one.name,
        "backend": one.backend,
        "mode": one.mode,
        "state": one.state,
        "subnet": None if one.subnet == UNKNOWN else one.subnet,
        "checkout": None if one.checkout == UNKNOWN else one.checkout,
        "drift": None if one.drift is None else one.drift == "yes",
    }


@dataclass(frozen=True)
class Lease:
    """A subnet that a sandbox holds."""

    subnet: str
    owner: str


def lease_folder() -> Path:
    """Where leases stand on this host."""
    return Path(state_dir(os.environ)) / "leases"


def read_leases(folder: Path) -> dict[str, Lease]:
    """Leases of this host by sandbox; a file that isn't one is left out."""
    found = {}
    for file in sorted(folder.glob("*.json")):
        try:
            document = json.loads(file.read_text(encoding="utf-8"))
            subnet = list(SANDBOX_POOL.subnets(new_prefix=24))[document["number"]]
            found[str(document["sandbox"])] = Lease(str(subnet), str(document["owner"]))
        except (OSError, ValueError, KeyError, TypeError, IndexError):
            continue
    return found


def list_sandboxes(
    checkout: Checkout, containers: Iterable[Container], leases: dict[str, Lease]
) -> list[Sandbox]:
    """Every stack of the checkout and every sandbox of the host, by name."""
    by_name: dict[str, list[Container]] = {}
    for one in containers:
        by_name.setdefault(one.sandbox, []).append(one)
    names = sorted({*checkout.stacks(), *by_name, *leases})
    return [_sandbox(checkout, name, by_name.get(name, []), leases.get(name)) for name in names]


def _sandbox(
    checkout: Checkout, name: str, containers: list[Container], lease: Lease | None
) -> Sandbox:
    """One line from what is known."""
    settings, refused = _settings(checkout, name, lease)
    state = state_of(containers)
    if refused and state == "down":
        state = "settings refused"
    return Sandbox(
        name=name,
        backend=settings.backend if settings else "container" if containers else UNKNOWN,
        mode=settings.policy.mode.value if settings else UNKNOWN,
        state=state,
        subnet=lease.subnet if lease else UNKNOWN,
        checkout=lease.owner if lease else UNKNOWN,
    )


def _settings(checkout: Checkout, name: str, lease: Lease | None) -> tuple[Settings | None, bool]:
    """Settings of a stack of this checkout; whether they are refused."""
    if lease is not None and lease.owner != str(checkout.root):
        return None, False
    if name not in checkout.stacks():
        return None, False
    try:
        return read_settings(checkout, name), False
    except AboxError:
        return None, True


def state_of(containers: Iterable[Container]) -> str:
    """How much of a sandbox runs."""
    found = list(containers)
    if not found:
        return "down"
    running = {one.role for one in found if one.running}
    missing = [role.value for role in Role if role.value not in running]
    return f"partly up: {', '.join(missing)} not running" if missing else "up"


def _with_drift(checkout: Checkout, one: Sandbox) -> Sandbox:
    """A line with its drift, where this checkout's state knows the sandbox."""
    drift: str | None = None
    if one.checkout == str(checkout.root):
        try:
            drift = "yes" if preview(checkout, one.name).planned() else "no"
        except AboxError as error:
            note(f"{one.name}: {error.what}: {error.why}")
    return Sandbox(**{**one.__dict__, "drift": drift})
