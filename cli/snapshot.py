"""`abox snapshot`: keep the disks of a VM as they are, and go back to that."""

from __future__ import annotations

import sys
import time
from datetime import UTC, datetime
from typing import Annotated

import typer

from abox.errors import HostError, SettingsError
from abox.snapshots import Snapshot, check_snapshot_name, default_name
from cli import host
from cli.checkout import current_checkout
from cli.containers import check_known, list_containers
from cli.guests import Guest, guest_of
from cli.machines import Machine, alone, find_machine
from cli.output import note, say, say_json, say_line, say_table
from cli.parameters import AsJson, Stack

SYNC_TIMEOUT_S = 30.0
"""Seconds that a guest gets to write out what it holds in memory."""

LOGIN_TIMEOUT_S = 900.0
"""Seconds that a guest gets to boot until it can be logged in to."""

app = typer.Typer(
    help="Snapshots of a VM's disks: root and workspace, not memory. They outlive a machine that "
    "is made anew and go with `pulumi destroy`.",
    rich_markup_mode=None,
)

Name = Annotated[str, typer.Argument(help="Name of the snapshot.", metavar="NAME")]


@app.command(short_help="Keep both disks as they are at this moment.")
def create(
    stack: Stack,
    name: Annotated[
        str | None,
        typer.Argument(help="Its name; without one it says when it was taken.", metavar="[NAME]"),
    ] = None,
) -> None:
    """Keep root disk and workspace of the VM of STACK as they are at this moment.

    The machine goes on meanwhile. Memory isn't kept: to go back is to boot from the disks as they
    were, as after a power cut, with what the guest had written out (it is asked to, before).
    """
    chosen = check_snapshot_name(name or default_name(datetime.now(UTC)))
    guest, machine = _find(stack)
    with alone(stack):
        if any(one.name == chosen for one in machine.snapshots()):
            raise SettingsError(
                what=f"snapshot {chosen} of sandbox {stack} exists",
                why="a snapshot is never written over",
                remedy=f"choose another name, or run `abox snapshot remove {stack} {chosen}`",
            )
        if machine.is_on():
            _sync(guest)
        machine.take(chosen)
    say_line(f"{stack}: snapshot {chosen}")


@app.command("list", short_help="List them, oldest first.")
def list_all(stack: Stack, *, as_json: AsJson = False) -> None:
    """List the snapshots of the VM of STACK, oldest first."""
    machine = _find(stack)[1]
    found, disks = machine.snapshots(), len(machine.disks())
    if as_json:
        say_json([one.to_document() for one in found])
    elif not found:
        say(f"no snapshots: `abox snapshot create {stack}` takes one")
    else:
        rows = [[one.name, f"{one.made:%Y-%m-%dT%H:%M:%SZ}", _disks(one, disks)] for one in found]
        say_table(["snapshot", "taken", "disks"], rows)


def _disks(one: Snapshot, count: int) -> str:
    held = " ".join(one.disks)
    return held if len(one.disks) == count else f"incomplete: only {held}"


@app.command(short_help="Go back: what was written since is lost.")
def revert(
    stack: Stack,
    name: Name,
    *,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Don't ask.")] = False,
) -> None:
    """Put both disks of the VM of STACK back to snapshot NAME and boot from them.

    All that was written to them since is lost; other snapshots stay. The machine is switched off
    at once and boots anew: its clock is the host's, its address, filters and host key are as
    before, and what the stack says of the guest is told to it again if it has changed since. A
    machine that was off stays off. Don't run `pulumi up` of this stack meanwhile.
    """
    guest, machine = _find(stack)
    with alone(stack):
        held = _existing(machine, name)
        if len(held.disks) != len(machine.disks()):
            raise HostError(
                what=f"snapshot {name} of sandbox {stack} is incomplete",
                why=f"only {' '.join(held.disks)} holds it",
                remedy=f"choose another, and run `abox snapshot remove {stack} {name}`",
            )
        if not yes:
            _ask(stack, held)
        was_on = machine.is_on()
        if was_on:
            machine.switch_off()
        _put_back(machine, name)
        if was_on:
            machine.switch_on()
    if was_on:
        note("booting")
        _await_login(guest)
        say_line(f"{stack}: back at snapshot {name}, and up")
    else:
        say_line(f"{stack}: back at snapshot {name}; it was off: run `pulumi up -s {stack}`")


@app.command(short_help="Forget one; the disks stay as they are.")
def remove(stack: Stack, name: Name) -> None:
    """Forget snapshot NAME of the VM of STACK; what is on its disks stays as it is."""
    machine = _find(stack)[1]
    with alone(stack):
        _existing(machine, name)
        machine.drop(name)
    say_line(f"{stack}: snapshot {name} removed")


def _find(stack: str) -> tuple[Guest, Machine]:
    """The VM of a stack.

    Raises:
        SettingsError: there is no such stack.
        HostError: its agent is a container, or isn't up.
    """
    checkout = current_checkout()
    check_known(checkout, stack, list_containers())
    guest = guest_of(checkout, stack)
    if guest is None:
        raise HostError(
            what=f"the agent of {stack} has no snapshots",
            why="it is a container; only the disks of a VM can be put back",
            remedy="copy what matters out with `abox cp`, or write backend: vm",
        )
    return guest, find_machine(stack)


def _existing(machine: Machine, name: str) -> Snapshot:
    check_snapshot_name(name)
    found = machine.snapshots()
    for one in found:
        if one.name == name:
            return one
    raise SettingsError(
        what=f"sandbox {machine.sandbox} has no snapshot {name}",
        why=f"its snapshots: {', '.join(one.name for one in found) or 'none'}",
        remedy=f"see `abox snapshot list {machine.sandbox}`",
    )


def _ask(stack: str, snapshot: Snapshot) -> None:
    since = f"{snapshot.made:%Y-%m-%dT%H:%M:%SZ}"
    if not sys.stdin.isatty():
        raise SettingsError(
            what=f"sandbox {stack} was not put back",
            why=f"all that was written to its disks since {since} would be lost, and nobody is "
            "there to be asked",
            remedy="say --yes if that is wanted",
        )
    typer.confirm(
        f"All that {stack} wrote to its disks since {since} will be lost. Go on?", abort=True
    )


def _put_back(machine: Machine, name: str) -> None:
    try:
        machine.put_back(name)
    except HostError as error:
        raise HostError(
            what=f"sandbox {machine.sandbox} was put back in part, and is off",
            why=f"{error.what}: {error.why}",
            remedy=f"run `abox snapshot revert {machine.sandbox} {name}` again before `pulumi up`",
        ) from error


def _sync(guest: Guest) -> None:
    """Ask the guest to write out what it holds in memory; it may refuse."""
    try:
        done = host.run(_quietly(guest, "sync"), timeout_s=SYNC_TIMEOUT_S).code == 0
    except HostError:
        done = False
    if not done:
        note("the guest didn't write out what it holds in memory: the snapshot is without that")


def _await_login(guest: Guest) -> None:
    end = time.monotonic() + LOGIN_TIMEOUT_S
    while host.run(_quietly(guest, "true"), timeout_s=LOGIN_TIMEOUT_S).code != 0:
        if time.monotonic() > end:
            raise HostError(
                what=f"the VM of {guest.sandbox} can't be logged in to",
                why=f"it didn't boot within {LOGIN_TIMEOUT_S:g} s from the disks of the snapshot",
                remedy="look at its console with `virsh console`, or go back to another snapshot",
            )
        time.sleep(1)


def _quietly(guest: Guest, program: str) -> list[str]:
    """A command line for a program in the guest, of whose output nothing is kept."""
    return ["sh", "-c", 'exec "$@" >/dev/null 2>&1', "abox", *guest.ssh("-T"), program]
