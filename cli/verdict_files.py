"""The files of a sandbox's verdict log, read in the order of time, and on as they grow."""

import heapq
import os
import time
from collections import deque
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from abox.errors import HostError
from abox.host_state import state_dir, verdict_log
from abox.verdict_log import FILES, Outcome, Source, Verdict, parse_line

POLL_S = 0.2
"""Seconds between two looks at files that may have grown."""
WINDOW = 4096
"""Lines that may have to wait for an earlier one: a long request is logged at its end."""

Stream = tuple[Source, Outcome]


def folder_of(stack: str) -> Path:
    """Where the log of a sandbox is.

    Raises:
        HostError: there is none, or it may not be read.
    """
    folder = verdict_log(Path(state_dir(os.environ)), stack)
    try:
        list(folder.iterdir())
    except FileNotFoundError as error:
        raise HostError(
            what=f"sandbox {stack} has no verdict log on this host",
            why=f"there is no folder {folder}: it is not up, or was destroyed",
            remedy=f"run `pulumi up -s {stack}`",
        ) from error
    except OSError as error:
        raise HostError(
            what=f"the verdict log of sandbox {stack} can't be read",
            why=f"{folder}: {error.strerror}",
            remedy="run as root",
        ) from error
    return folder


@dataclass
class Tail:
    """The newest file of one stream, read to its end again and again, across rotations."""

    path: Path
    _handle: BinaryIO | None = None
    _rest: bytes = b""

    def lines(self) -> Iterator[Verdict]:
        """Lines that came since the last call."""
        yield from self._read()
        if self._was_replaced():
            yield from self._read()  # what came between the two looks
            self.close()
            yield from self._read()

    def close(self) -> None:
        """Let the file go."""
        if self._handle is not None:
            self._handle.close()
        self._handle, self._rest = None, b""

    @property
    def inode(self) -> int:
        """Number of the file that is open; 0 if none is."""
        return os.fstat(self._handle.fileno()).st_ino if self._handle else 0

    def _read(self) -> Iterator[Verdict]:
        if self._handle is None:
            try:
                self._handle = self.path.open("rb")
            except FileNotFoundError:
                return
        for line in self._handle:
            self._rest += line
            if not self._rest.endswith(b"\n"):
                return  # not yet written to its end
            whole, self._rest = self._rest, b""
            yield from _parsed(whole)

    def _was_replaced(self) -> bool:
        try:
            return self._handle is not None and self.path.stat().st_ino != self.inode
        except FileNotFoundError:
            return False


@dataclass
class VerdictFiles:
    """Some streams of one log."""

    folder: Path
    streams: Collection[Stream]
    _tails: dict[Stream, Tail] = field(init=False)

    def __post_init__(self) -> None:
        self._tails = {stream: Tail(self.folder / FILES[stream]) for stream in self.streams}

    def history(self) -> Iterator[Verdict]:
        """Everything so far, by time."""
        return heapq.merge(*(ordered(self._past(s)) for s in self.streams), key=_when)

    def later(self) -> Iterator[Verdict]:
        """What comes after ``history``, until the folder is gone."""
        while self.folder.exists():
            found = [line for tail in self._tails.values() for line in tail.lines()]
            yield from sorted(found, key=_when)
            time.sleep(POLL_S)

    def close(self) -> None:
        """Let all files go."""
        for tail in self._tails.values():
            tail.close()

    def _past(self, stream: Stream) -> Iterator[Verdict]:
        """Lines of a stream's rotated files, the oldest first, then those of its newest."""
        tail = self._tails[stream]
        newest = deque(tail.lines())  # opened first: a rotation meanwhile hides nothing
        number = _highest(tail.path)
        while number:
            yield from _lines_of(tail.path.with_name(f"{tail.path.name}.{number}"), tail.inode)
            number -= 1
        yield from newest


def ordered(lines: Iterable[Verdict]) -> Iterator[Verdict]:
    """Lines by time, as far as an earlier one comes within the window."""
    waiting: list[tuple[float, int, Verdict]] = []
    for number, line in enumerate(lines):
        heapq.heappush(waiting, (line.time, number, line))
        if len(waiting) > WINDOW:
            yield heapq.heappop(waiting)[2]
    while waiting:
        yield heapq.heappop(waiting)[2]


def _when(line: Verdict) -> float:
    return line.time


def _highest(path: Path) -> int:
    """Number of the oldest rotated file."""
    suffixes = (one.name.rpartition(".")[2] for one in path.parent.glob(f"{path.name}.*"))
    return max((int(one) for one in suffixes if one.isdecimal()), default=0)


def _lines_of(path: Path, seen: int) -> Iterator[Verdict]:
    """Lines of a rotated file, unless it is the one that was read under its old name."""
    try:
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_ino != seen:
                for line in file:
                    yield from _parsed(line)
    except FileNotFoundError:
        return


def _parsed(line: bytes) -> Iterator[Verdict]:
    """The verdict of a line, if it holds one."""
    found = parse_line(line.decode("ascii", "replace"))
    if found is not None:
        yield found
