"""The host's end of a VM's monitor port: a socket that exists while somebody listens.

QEMU connects to it, tries again every second while there is none, and is never written to. So the
VM needs no reader, a reader needs no VM, and nothing runs between two looks. What comes is the
guest's: it is read slowly, split into lines of bounded length and taken only if it is a heartbeat.
"""

from __future__ import annotations

import fcntl
import os
import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path

from abox.errors import HostError
from abox.heartbeat import Heartbeat, Lines, Seen, parse_heartbeat, parse_seen, render_seen

PIECE = 1024
"""Bytes that are read at once."""

PAUSE_S = 0.1
"""Seconds between two pieces: a guest that floods waits, and the reader doesn't."""

SOCKET_MODE = 0o660
"""Root's, and the group's that QEMU runs as."""


class Sign(StrEnum):
    """What may come besides a heartbeat."""

    CONNECTED = "connected"
    """QEMU has found the socket."""
    REFUSED = "refused"
    """A line that is no heartbeat."""


@contextmanager
def listening(path: Path) -> Iterator[socket.socket]:
    """A socket that a VM's port connects to, for as long as the block lasts.

    Raises:
        PortTakenError: somebody else listens.
        HostError: it can't be made.
    """
    try:
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError as error:
        raise _refused(path, error) from error
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            try:
                fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.unlink(missing_ok=True)  # of a reader that was killed
                listener.bind(str(path))
                # Nobody can connect before it listens.
                os.chown(path, -1, os.fstat(folder).st_gid)
                path.chmod(SOCKET_MODE)
                listener.listen(1)
            except BlockingIOError as error:
                raise _taken(path) from error
            except OSError as error:
                raise _refused(path, error) from error
            try:
                yield listener
            finally:
                path.unlink(missing_ok=True)
    finally:
        os.close(folder)


def _refused(path: Path, error: OSError) -> HostError:
    return HostError(
        what=f"nobody can listen at {path}",
        why=error.strerror or str(error),
        remedy="run it as root, and see with `abox drift` that the folder is as it should be",
    )


class PortTakenError(HostError):
    """Somebody else listens already."""


def _taken(path: Path) -> PortTakenError:
    return PortTakenError(
        what=f"another reader listens at {path}",
        why="a port has one reader at a time",
        remedy="end the other `abox monitor`, then run again",
    )


def read_port(
    listener: socket.socket, *, until: float | None = None, pause_s: float = PAUSE_S
) -> Iterator[Heartbeat | Sign]:
    """What comes from the port, over any number of connections, one at a time.

    Args:
        listener: the listening socket.
        until: moment of the monotonic clock at which it ends; None: never.
        pause_s: seconds between two pieces.
    """
    while (left := _left(until)) is None or left > 0:
        listener.settimeout(left)
        try:
            connection, _ = listener.accept()
        except TimeoutError:
            return
        with connection:
            yield Sign.CONNECTED
            yield from _read(connection, until, pause_s)


def _read(
    connection: socket.socket, until: float | None, pause_s: float
) -> Iterator[Heartbeat | Sign]:
    lines = Lines()
    while (left := _left(until)) is None or left > 0:
        connection.settimeout(left)
        try:
            data = connection.recv(PIECE)
        except (TimeoutError, ConnectionError):
            return
        if not data:
            return
        for line in lines.feed(data):
            yield _judged(line)
        time.sleep(pause_s)


def _judged(line: bytes) -> Heartbeat | Sign:
    try:
        return parse_heartbeat(line)
    except ValueError:
        return Sign.REFUSED


def _left(until: float | None) -> float | None:
    return None if until is None else until - time.monotonic()


def read_last(path: Path) -> Seen | None:
    """The last heartbeat that a reader saw; None if there was none."""
    try:
        return parse_seen(path.read_text())
    except (OSError, ValueError):
        return None


def keep_last(path: Path, heartbeat: Heartbeat) -> Seen:
    """Remember a heartbeat that came just now.

    Raises: HostError if it can't be written.
    """
    now = datetime.now(UTC)
    text = render_seen(heartbeat, now)
    try:
        # A temporary file is its owner's alone; a reader sees the old one or the new one.
        with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as handle:
            handle.write(text)
        Path(handle.name).replace(path)
    except OSError as error:
        raise HostError(
            what=f"{path} can't be written",
            why=error.strerror or str(error),
            remedy="run it as root, and make room on the disk",
        ) from error
    return Seen(heartbeat=heartbeat, at=now)
