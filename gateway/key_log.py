"""TLS keys of Envoy's connections, on standard output for as long as somebody reads them.

Envoy always writes its key log to ``KEY_LOG_FILE``, which is a link to the null device. While keys
are wanted the link leads to a pipe, in the memory of the proxy's container alone: nothing of them
is ever on a disk of the pod, and they stop with the reader.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from abox.errors import HostError
from abox.pod import ENVOY_FLUSH_MS
from gateway.envoy_admin import EnvoyAdmin

NOWHERE = Path(os.devnull)
PIPE_BYTES = 1024 * 1024
"""Room in the pipe: Envoy's writer waits when it is full."""
FIRST_LINE = b"# keys follow\n"
"""A comment by the format's rules (NSS key log); printed once keys are wanted."""


@dataclass(frozen=True)
class KeyLog:
    """Envoy's key log, and where it leads."""

    path: Path
    admin: EnvoyAdmin

    def stream(self, source: int, output: int) -> None:
        """Copy keys to a descriptor until another one ends.

        Args:
            source: read until its end, whatever it says; the reader holds its other side.
            output: takes the lines of the key log.
        Raises: HostError if somebody else reads the keys, OSError if Envoy doesn't answer.
        """
        with self._alone(), self._pipe() as pipe:
            try:
                self._lead_to(self._fifo)
                os.write(output, FIRST_LINE)
                _copy(pipe, output, until_end_of=source)
            finally:
                self._lead_to(NOWHERE)

    @property
    def _fifo(self) -> Path:
        return self.path.with_name(self.path.name + ".pipe")

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        lock = os.open(self.path.with_name(self.path.name + ".lock"), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            raise HostError(
                what="the TLS keys of this sandbox are being read already",
                why="one reader at a time gets them",
                remedy="end the other `abox tap`, or leave the keys out with --no-keys",
            ) from None
        try:
            yield
        finally:
            os.close(lock)

    @contextlib.contextmanager
    def _pipe(self) -> Iterator[int]:
        self._fifo.unlink(missing_ok=True)
        os.mkfifo(self._fifo, 0o600)
        # Both ends: Envoy would wait for a reader when it opens the pipe, and for ever.
        pipe = os.open(self._fifo, os.O_RDWR | os.O_NONBLOCK)
        try:
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
            yield pipe
        finally:
            self._fifo.unlink()
            os.close(pipe)

    def _lead_to(self, target: Path) -> None:
        link = self.path.with_name(self.path.name + ".next")
        link.unlink(missing_ok=True)
        link.symlink_to(target)
        link.replace(self.path)
        self.admin.get("/reopen_logs", "POST")


def _copy(pipe: int, output: int, *, until_end_of: int) -> None:
    """Copy what comes; Envoy's last lines are still in its buffer when the source ends."""
    ends = None
    while ends is None or time.monotonic() < ends:
        sources = [pipe] if ends else [pipe, until_end_of]
        ready, _, _ = select.select(sources, [], [], 0.1)
        if pipe in ready:
            _write_all(output, os.read(pipe, PIPE_BYTES))
        if until_end_of in ready and not os.read(until_end_of, 4096):
            ends = time.monotonic() + 2 * ENVOY_FLUSH_MS / 1000


def _write_all(output: int, data: bytes) -> None:
    while data:
        data = data[os.write(output, data) :]
