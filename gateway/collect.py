"""The collector of the verdict log: a process of its own in ``control``.

It reads what Envoy and Unbound append to their spools, writes the log into a folder of the host,
and keeps the record of what was seen. No filter waits for it, and a line that it can't write
changes no verdict. It is started again when it ends, and goes on where the spools begin.
"""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from abox import seen_names
from abox.name_table import Judged, NameTable
from abox.render.paths import DNS_SPOOL, LOG_DIR, NAMES_FILE, PROXY_SPOOL
from abox.seen_names import SeenNames
from abox.verdict_budget import Tally
from abox.verdict_log import FILES, Cause, Source, Verdict
from abox.verdict_recorder import Recorder, Stream
from abox.verdict_sources import Judge, other_lines
from gateway.files import write_file
from gateway.log_files import RotatingFile
from gateway.spool import Spool
from gateway.watched_file import WatchedFile

TICK_S = 0.2
"""Seconds between two looks at the spools."""
OLD_POLICY_S = 2.0
"""Seconds for which the policy before the last change may have judged what is read."""
SEEN_S = 60.0
"""Seconds between two writings of the whole record."""
TOLD_A_MINUTE = 20
"""Lines of Unbound's own that are passed on to the container's log."""

_LOG = logging.getLogger(__name__)


@dataclass
class PolicyOverTime:
    """The names of the policy in force, and of the one before it for a moment."""

    names: WatchedFile[NameTable]
    _table: NameTable = field(default_factory=NameTable)
    _before: NameTable | None = None
    _changed: float = 0.0

    def look(self, now: float) -> None:
        """See whether the policy was replaced."""
        found = self.names.value()
        if found is not self._table:
            self._before, self._table, self._changed = self._table, found, now
        elif self._before is not None and now - self._changed > OLD_POLICY_S:
            self._before = None

    def judge(self, name: str) -> Sequence[Judged]:
        """The verdict on a name; two of them while either policy may have judged."""
        found = self._table.judge(name)
        return (found,) if self._before is None else (found, self._before.judge(name))


Take = Callable[[bytes, Judge, float], list[Verdict]]


class Collector:
    """What is kept between two ticks.

    Args:
        sandbox: name of the sandbox.
        own_address: the gateway's.
        folder: where the log is.
        spools: the filters' files.
        names: the names of the policy.
        now: seconds since the epoch.
    """

    def __init__(
        self,
        sandbox: str,
        own_address: str,
        folder: Path,
        spools: dict[Source, Spool],
        names: WatchedFile[NameTable],
        now: float,
    ) -> None:
        self._folder, self._spools = folder, spools
        self._policy = PolicyOverTime(names)
        self._recorder = Recorder(sandbox, own_address, now, _read_seen(folder))
        self._files = {stream: RotatingFile(folder / name) for stream, name in FILES.items()}
        self._lost: dict[Stream, Tally] = {}
        self._seen_file = RotatingFile(folder / seen_names.FILE, file_bytes=2**62)
        self._seen_written = now
        self._told = (0, 0)
        self._complained = False

    def tick(self, now: float) -> None:
        """Take what has come, write what is due."""
        self._policy.look(now)
        takes = {
            Source.DNS: self._recorder.take_names,
            Source.HTTP: self._recorder.take_requests,
        }
        for source, take in takes.items():
            self._take(source, take, now)
        self._write(self._recorder.close(now))
        self._write_seen(now)

    def end(self, now: float) -> None:
        """Write everything that is still only counted."""
        self.tick(now)
        self._write(self._recorder.close(now, force=True))
        self._write_seen(now, force=True)

    def _take(self, source: Source, take: Take, now: float) -> None:
        spool = self._spools[source]
        was_full = spool.is_full
        for data in spool.slices():
            before = self._recorder.unread[source]
            self._write(take(data, self._policy.judge, now))
            if source is Source.DNS and self._recorder.unread[source] > before:
                self._tell(other_lines(data, TOLD_A_MINUTE), now)
        spool.release()
        if was_full:
            self._recorder.lose(source)

    def _write(self, lines: Iterable[Verdict]) -> None:
        """Append lines to their files; those that can't be written are counted and told later."""
        by_stream: dict[Stream, list[Verdict]] = {}
        for line in lines:
            by_stream.setdefault((line.source, line.outcome), []).append(line)
        for stream, group in by_stream.items():
            lost = self._lost.get(stream)
            told = [self._recorder.omitted(stream, lost, Cause.VOLUME_FULL)] if lost else []
            text = "".join(line.to_line() for line in (*told, *group))
            try:
                self._files[stream].append(text.encode())
                self._lost.pop(stream, None)
            except OSError as error:
                self._complain(error)
                for line in group:
                    self._lose(stream, line)

    def _lose(self, stream: Stream, line: Verdict) -> None:
        last = line.time if line.until is None else line.until
        tally = Tally(first=line.time, last=last, count=line.count or 0, sent=line.sent)
        before = self._lost.get(stream)
        self._lost[stream] = before.plus(tally) if before else tally

    def _write_seen(self, now: float, *, force: bool = False) -> None:
        """Append new rows at once; write the counts of all rows now and then."""
        recorder = self._recorder
        due = force or not 0 <= now - self._seen_written < SEEN_S
        try:
            if due and recorder.seen.changed:
                self._seen_written = now
                write_file(self._folder / seen_names.FILE, recorder.seen.to_text(), mode=0o600)
                recorder.fresh.clear()
                recorder.seen.changed = False
            elif recorder.fresh:
                text = "".join(recorder.seen.lines(sorted(recorder.fresh, key=str)))
                self._seen_file.append(text.encode())
                recorder.fresh.clear()
        except OSError as error:
            self._complain(error)
        else:
            self._complained = bool(self._lost)

    def _complain(self, error: OSError) -> None:
        """Say once that the log can't be written, until it can."""
        if not self._complained:
            _LOG.error("the verdict log can't be written: %s", error)
        self._complained = True

    def _tell(self, lines: Iterable[str], now: float) -> None:
        minute, told = self._told
        told = told if minute == int(now // 60) else 0
        for line in lines:
            if told < TOLD_A_MINUTE:
                _LOG.warning("dns: %s", line)
                told += 1
        self._told = int(now // 60), told


def _read_seen(folder: Path) -> SeenNames:
    try:
        text = (folder / seen_names.FILE).read_text(encoding="ascii", errors="replace")
    except OSError:
        return SeenNames()
    return SeenNames.from_text(text)


def collect(sandbox: str, own_address: str) -> None:
    """Collect until told to stop."""
    stopped = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopped.set())
    spools = {Source.DNS: Spool(Path(DNS_SPOOL)), Source.HTTP: Spool(Path(PROXY_SPOOL))}
    names = WatchedFile(Path(NAMES_FILE), _read_names, NameTable())
    collector = Collector(sandbox, own_address, Path(LOG_DIR), spools, names, time.time())
    while not stopped.wait(TICK_S):
        collector.tick(time.time())
    collector.end(time.time())


def _read_names(path: Path) -> NameTable:
    return NameTable.from_json(path.read_text())
