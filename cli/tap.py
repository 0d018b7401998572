"""`abox tap`: packets of a sandbox's agent or of its origins, and the TLS keys to read them."""

import os
import re
import select
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from io import BufferedReader
from pathlib import Path
from typing import Annotated, BinaryIO

import typer

from abox.errors import HostError, SettingsError
from abox.host_state import key_log, state_dir
from abox.naming import Role, bridge_name, egress_bridge_name
from cli import host
from cli.agent_port import port_of_container, port_of_machine
from cli.checkout import current_checkout
from cli.containers import Container, check_known, list_containers, running_of_role
from cli.guests import guest_of
from cli.output import note, say, say_line
from cli.parameters import Stack

MAX_MB = 1024
"""Megabytes after which a capture ends, so that a forgotten one doesn't fill the disk."""
TICK_S = 0.2
"""Seconds between two looks at the clock and at the capture."""

_KEY_LINE = re.compile(rb"[A-Z0-9_]{1,64} [0-9a-f]{64} [0-9a-f]{1,128}\n")
"""A line of an NSS key log; nothing else is written to a file that other tools read."""


class Leg(StrEnum):
    """Where packets are seen."""

    AGENT = "agent"
    """At the agent's own port, in front of the packet filter: what it refuses is seen too."""
    EGRESS = "egress"
    """At the bridge between gateway and origins."""


def tap(
    stack: Stack,
    *,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Write a pcap file instead of a line a packet."),
    ] = None,
    leg: Annotated[
        Leg, typer.Option(help="All that the agent sends and gets, or the gateway and origins.")
    ] = Leg.AGENT,
    seconds: Annotated[
        float | None, typer.Option(help="End after so many seconds.", min=0.1)
    ] = None,
    max_mb: Annotated[int, typer.Option(help="End after so many megabytes.", min=1)] = MAX_MB,
    keys: Annotated[
        bool, typer.Option("--keys/--no-keys", help="Also keep the TLS keys of both legs.")
    ] = True,
) -> None:
    """Show or keep the packets of a sandbox until Ctrl-C, those that are refused among them.

    TLS keys of connections that begin meanwhile, both towards the agent and towards origins, go to
    logs/keys.log of the instance directory: with them tshark and Wireshark show what is inside.
    Example: abox tap project-a -o agent.pcap
    """
    containers = list_containers()
    check_known(current_checkout(), stack, containers)
    proxy = running_of_role(containers, stack, Role.PROXY)
    interface = _agents(stack, containers) if leg is Leg.AGENT else egress_bridge_name(stack)
    key_file = key_log(Path(state_dir(os.environ)), stack)
    with ExitStack() as opened:
        target = opened.enter_context(_open_new(output)) if output else None
        if keys:
            opened.enter_context(_keys_kept(proxy.id, key_file))
        note(f"watching {interface}; Ctrl-C ends it")
        capture = Capture(interface, max_bytes=max_mb * 1_000_000, seconds=seconds)
        said = capture.run(target.write if target else _Lines().write, raw=target is not None)
    note(said)
    if output and keys:
        say(f"tshark -r {output} -o tls.keylog_file:{key_file} -Y 'http or http2'")


def _agents(stack: str, containers: Sequence[Container]) -> str:
    """The interface that the agent's packets pass first, before the packet filter judges them."""
    if guest_of(current_checkout(), stack) is None:
        return port_of_container(stack, containers, bridge_name(stack))
    return port_of_machine(stack, bridge_name(stack))


@contextmanager
def _open_new(path: Path) -> Iterator[BinaryIO]:
    """A file for a capture, readable by its owner alone.

    Raises:
        SettingsError: it exists, or can't be made there.
    """
    try:
        file = _create(path)
    except FileExistsError as error:
        raise SettingsError(
            what=f"{path} exists",
            why="a capture never overwrites a file",
            remedy="choose another name, or remove the file",
        ) from error
    except OSError as error:
        raise SettingsError(
            what=f"{path} can't be written",
            why=str(error),
            remedy="choose a file in a folder that exists and that you may write to",
        ) from error
    with file:
        yield file


@contextmanager
def _keys_kept(proxy: str, path: Path) -> Iterator[None]:
    """Write the TLS keys of a proxy to a file, a new one, for as long as the block lasts.

    Raises:
        HostError: the proxy doesn't hand them out, or the file can't be written.
    """
    command = ["docker", "exec", "--interactive", proxy, "abox-gateway", "keys"]
    with host.piped(command) as process:
        stdin, stdout, stderr = host.pipes(process)
        lines = BufferedReader(stdout)
        if not lines.readline().startswith(b"#"):
            raise _no_keys(stderr.read().decode(errors="replace"))
        with _replaced(path) as file:
            reader = threading.Thread(target=_keep_lines, args=(lines, file), daemon=True)
            reader.start()
            try:
                yield
            finally:
                stdin.close()  # its end tells the proxy that nobody wants keys any more
                process.wait()
                reader.join()


@contextmanager
def _replaced(path: Path) -> Iterator[BinaryIO]:
    """A new file of root's in place of the one of an earlier capture.

    Raises:
        HostError: it can't be made.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        file = _create(path)
    except OSError as error:
        raise HostError(
            what=f"the TLS keys can't be kept in {path}",
            why=str(error),
            remedy="run it as root, or leave the keys out with --no-keys",
        ) from error
    with file:
        yield file


def _create(path: Path) -> BinaryIO:
    """A file that wasn't there, without a buffer, readable by its owner alone."""
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb", buffering=0)


def _no_keys(said: str) -> HostError:
    lines = [line for line in said.splitlines() if line.strip()]
    return HostError(
        what="the proxy does not hand out TLS keys",
        why=lines[0] if lines else "it ended without a word",
        remedy="end another `abox tap` of this sandbox, or leave the keys out with --no-keys",
    )


def _keep_lines(source: Iterable[bytes], file: BinaryIO) -> None:
    for line in source:
        if _KEY_LINE.fullmatch(line):
            file.write(line)


class _Lines:
    """Prints lines out of pieces of text."""

    def __init__(self) -> None:
        self._rest = b""

    def write(self, data: bytes) -> None:
        """Print the lines that are complete."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            say_line(line.decode(errors="replace"))


@dataclass(frozen=True)
class Capture:
    """One run of tcpdump."""

    interface: str
    max_bytes: int
    seconds: float | None

    def run(self, write: Callable[[bytes], object], *, raw: bool) -> str:
        """Hand on packets until an end is reached or the user has seen enough.

        Args:
            write: takes the pieces.
            raw: as a pcap file; otherwise as text, a line a packet.
        Returns: what tcpdump counted, in one line.
        Raises: HostError if tcpdump is missing, can't watch the interface, or lost it.
        """
        with host.piped(self._arguments(raw=raw)) as process:
            _, stdout, stderr = host.pipes(process)
            with suppress(KeyboardInterrupt):  # the usual end
                self._copy(stdout, write)
            host.interrupt(process)
            _drain(stdout, write)
            said = stderr.read().decode(errors="replace").splitlines()
            if process.wait() != 0:
                raise self._ended(said[-1] if said else "it ended without a word")
        return ", ".join(line for line in said if "packets" in line)

    def _ended(self, said: str) -> HostError:
        if "disappeared" in said:
            return HostError(
                what=f"{self.interface} is gone",
                why="the agent was stopped, started again or replaced; what came before is kept",
                remedy="run `abox tap` again once it is up",
            )
        return HostError(
            what=f"tcpdump could not watch {self.interface}",
            why=said,
            remedy="run it as root, and see with `abox ls` that the sandbox is up",
        )

    def _arguments(self, *, raw: bool) -> Sequence[str]:
        # The file is written here: packaged profiles confine what tcpdump itself may write.
        form = ["-w", "-"] if raw else ["-l"]
        return ["tcpdump", "-i", self.interface, "-n", "-U", *form]

    def _copy(self, stdout: BinaryIO, write: Callable[[bytes], object]) -> None:
        deadline = None if self.seconds is None else time.monotonic() + self.seconds
        room = self.max_bytes
        while deadline is None or time.monotonic() < deadline:
            if not select.select([stdout], [], [], TICK_S)[0]:
                continue
            data = os.read(stdout.fileno(), 1 << 16)
            write(data)
            room -= len(data)
            if not data:
                return
            if room <= 0:
                note(f"ended after {self.max_bytes // 1_000_000} MB")
                return


def _drain(stdout: BinaryIO, write: Callable[[bytes], object]) -> None:
    while data := os.read(stdout.fileno(), 1 << 16):
        write(data)
