"""`abox monitor`: whether a VM gives signs of life, by the port that its sensors write to."""

from __future__ import annotations

import os
import socket
import time
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from abox.errors import ExitCode, HostError
from abox.heartbeat import PERIOD_S, Heartbeat, Seen
from abox.host_state import last_heartbeat, monitor_socket, state_dir
from cli.checkout import current_checkout
from cli.containers import check_known, list_containers
from cli.monitor_port import PortTakenError, Sign, keep_last, listening, read_last, read_port
from cli.output import note, say_json, say_json_line, say_line
from cli.parameters import AsJson, Stack

WINDOW_S = 2 * PERIOD_S + 2
"""Seconds that `status` listens: two heartbeats, and a second for QEMU to find the socket."""

WATCHED_EVERY_S = 0.1
"""Seconds between two looks at what another reader saw."""

KEPT_EVERY_S = 1.0
"""Seconds between two heartbeats that are remembered, however many a guest writes."""

app = typer.Typer(
    help="Signs of life from inside a VM (monitor: {enabled: true} in its stack).",
    rich_markup_mode=None,
)


class State(StrEnum):
    """What the port says of a VM."""

    ALIVE = "alive"
    SILENT = "silent"
    """The machine is connected, and nothing came that is a heartbeat."""
    CLOSED = "port closed"
    """No machine connected."""


@dataclass(frozen=True)
class Found:
    """What a look at the port found."""

    state: State
    last: Seen | None
    """The last heartbeat that any reader saw."""
    refused: int
    """Lines that were no heartbeats."""

    def in_words(self) -> str:
        """One line for people."""
        seen = "no heartbeat was ever seen"
        if self.last is not None:
            beat, at = self.last.heartbeat, self.last.at
            seen = f"heartbeat {beat.sequence} of boot {beat.boot} at {at:%Y-%m-%dT%H:%M:%SZ}"
        words = {
            State.ALIVE: f"alive: {seen}",
            State.SILENT: f"silent: {seen}",
            State.CLOSED: f"port closed: no machine connected; {seen}",
        }[self.state]
        if self.state is State.SILENT and self.last is not None:
            words = f"silent since {self.last.at:%Y-%m-%dT%H:%M:%SZ}: {seen} was the last"
        return f"{words}; {self.refused} lines were no heartbeats" if self.refused else words

    def to_document(self) -> dict[str, Any]:
        """The same for programs."""
        last = None if self.last is None else self.last.model_dump(mode="json")
        return {"state": self.state.value, "last": last, "refused_lines": self.refused}


@app.command(short_help="Say whether it is alive, silent, or its port closed.")
def status(stack: Stack, *, as_json: AsJson = False) -> None:
    """Say whether the VM of STACK is alive, silent since when, or its port closed.

    It listens until the first heartbeat, for 12 seconds at most; nothing runs in between, so
    "silent since" is when a reader last heard one. While `abox monitor logs` has the port, it
    goes by what that one hears. Whoever is root in the guest can write
    heartbeats: they are a sign of life, and nothing else. Exit 1 unless it is alive.
    """
    path, last = find_port(stack)
    until = time.monotonic() + WINDOW_S
    try:
        with listening(path) as listener:
            found = look(listener, last, until=until)
    except PortTakenError:
        found = watch(last, until=until)
    if as_json:
        say_json(found.to_document())
    else:
        say_line(f"{stack}: {found.in_words()}")
    if found.state is not State.ALIVE:
        raise typer.Exit(int(ExitCode.CHECK_FAILED))


def look(listener: socket.socket, last: Path, *, until: float) -> Found:
    """Listen until the first heartbeat.

    Args:
        listener: the listening socket.
        last: file of the last heartbeat that was seen.
        until: moment of the monotonic clock at which it gives up.
    """
    state, refused = State.CLOSED, 0
    for sign in read_port(listener, until=until):
        if isinstance(sign, Heartbeat):
            return Found(State.ALIVE, keep_last(last, sign), refused)
        state = State.SILENT
        refused += sign is Sign.REFUSED
    return Found(state, read_last(last), refused)


def watch(last: Path, *, until: float) -> Found:
    """Wait for the next heartbeat that another reader sees, who has the port.

    Args:
        last: file of the last heartbeat that was seen.
        until: moment of the monotonic clock at which it gives up.
    """
    before = read_last(last)
    while time.monotonic() < until:
        seen = read_last(last)
        if seen is not None and (before is None or seen.at > before.at):
            return Found(State.ALIVE, seen, 0)
        time.sleep(WATCHED_EVERY_S)
    return Found(State.SILENT, before, 0)


@app.command(short_help="Show heartbeats as they come.")
def logs(
    stack: Stack,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object a line.")] = False,
    seconds: Annotated[
        float | None, typer.Option(help="End after so many seconds.", min=0.1)
    ] = None,
) -> None:
    """Show the heartbeats of the VM of STACK as they come, until Ctrl-C."""
    path, last = find_port(stack)
    until = None if seconds is None else time.monotonic() + seconds
    kept = 0.0
    with listening(path) as listener:
        note(f"listening at {path}; Ctrl-C ends it")
        for sign in read_port(listener, until=until):
            if isinstance(sign, Heartbeat) and time.monotonic() - kept >= KEPT_EVERY_S:
                kept = time.monotonic()
                _tell(keep_last(last, sign), as_json=as_json)


def _tell(seen: Seen, *, as_json: bool) -> None:
    if as_json:
        say_json_line(seen.model_dump(mode="json"))
    else:
        beat = seen.heartbeat
        say_line(f"{seen.at:%Y-%m-%dT%H:%M:%SZ} heartbeat {beat.sequence} of boot {beat.boot}")


def find_port(stack: str) -> tuple[Path, Path]:
    """Socket behind the monitor port of a stack's VM, and file of the last heartbeat.

    Raises:
        SettingsError: there is no such stack.
        HostError: it has no such port.
    """
    check_known(current_checkout(), stack, list_containers())
    state = Path(state_dir(os.environ))
    path = monitor_socket(state, stack)
    if not path.parent.is_dir():
        raise HostError(
            what=f"sandbox {stack} has no monitor port on this host",
            why="its agent is a container, monitor.enabled isn't set for it, or it is not up",
            remedy=f"write monitor: {{enabled: true}} for a VM, then run `pulumi up -s {stack}`",
        )
    return path, last_heartbeat(state, stack)
