"""The collector: spools in, files out; a volume that can't be written loses no count."""

from __future__ import annotations

import logging
import shutil
import tempfile
from pathlib import Path

import pytest

from abox.name_table import NameTable
from abox.reasons import Reason
from abox.seen_names import SeenNames
from abox.verdict_log import Cause, Kind, Source, parse_line
from gateway.collect import OLD_POLICY_S, SEEN_S, Collector, PolicyOverTime
from gateway.files import write_file
from gateway.spool import Spool
from gateway.watched_file import WatchedFile
from tests.unit.abox.raw_lines import DENIED, reply, request

ALLOWING = NameTable(allow=frozenset({"a.test"}))


class Bench:
    """A collector over files of the test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.spools = {source: folder / f"{source}-spool" for source in Source}
        self.logs = folder / "logs"
        self.logs.mkdir()
        self.names = folder / "names.json"
        write_file(self.names, ALLOWING.to_json())
        self.start(0.0)

    def start(self, now: float) -> None:
        spools = {source: Spool(path) for source, path in self.spools.items()}
        self.collector = Collector("dev", "10.10.3.2", self.logs, spools, self.watched(), now)

    def watched(self) -> WatchedFile[NameTable]:
        return WatchedFile(
            self.names, lambda path: NameTable.from_json(path.read_text()), NameTable()
        )

    def write(self, source: Source, data: bytes) -> None:
        with self.spools[source].open("ab") as file:
            file.write(data)

    def lines(self, name: str):
        text = (self.logs / name).read_text() if (self.logs / name).exists() else ""
        return [parse_line(line) for line in text.splitlines()]

    def seen(self) -> SeenNames:
        return SeenNames.from_text((self.logs / "seen.jsonl").read_text())


@pytest.fixture
def bench():
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="abxt-collect-") as folder:
        yield Bench(Path(folder))


def test_each_kind_of_verdict_goes_into_its_own_file(bench):
    bench.write(Source.DNS, reply() + reply("a.test", rcode="NOERROR"))
    bench.write(Source.HTTP, request() + request(**DENIED))
    bench.collector.tick(1.0)
    for name in ("dns-allow", "dns-deny", "http-allow", "http-deny"):
        (line,) = bench.lines(f"{name}.jsonl")
        assert f"{line.source}-{line.verdict}" == name
        assert (bench.logs / f"{name}.jsonl").stat().st_mode & 0o777 == 0o600
    bench.collector.tick(2.0)
    assert len(bench.lines("dns-deny.jsonl")) == 1


def test_new_rows_of_the_record_are_written_at_once_and_counts_later(bench):
    bench.write(Source.DNS, reply())
    bench.collector.tick(1.0)
    assert [row.count for row in bench.seen().rows.values()] == [1]
    bench.write(Source.DNS, reply() * 5)
    bench.collector.tick(2.0)
    assert [row.count for row in bench.seen().rows.values()] == [1]
    bench.collector.tick(SEEN_S + 1)
    assert [row.count for row in bench.seen().rows.values()] == [6]
    bench.write(Source.DNS, reply("other.test"))
    bench.collector.tick(SEEN_S + 2)
    assert len(bench.seen().rows) == 2


def test_after_a_restart_the_record_goes_on(bench):
    bench.write(Source.DNS, reply() * 3)
    bench.collector.end(1.0)
    bench.start(2.0)
    bench.write(Source.DNS, reply())
    bench.collector.end(3.0)
    assert [row.count for row in bench.seen().rows.values()] == [4]


def test_the_end_tells_what_was_only_counted(bench):
    bench.write(Source.DNS, reply() * 500)
    bench.collector.tick(1.0)
    assert {line.kind for line in bench.lines("dns-deny.jsonl")} == {Kind.SINGLE}
    bench.collector.end(2.0)
    assert sum(line.count for line in bench.lines("dns-deny.jsonl")) == 500


def test_what_could_not_be_written_is_counted_and_told_when_it_can(bench, caplog):
    shutil.rmtree(bench.logs)
    with caplog.at_level(logging.ERROR):
        for n in range(5):
            bench.write(Source.DNS, reply() * 3)
            bench.write(Source.HTTP, request())
            bench.collector.tick(float(n))
    assert len(caplog.records) == 1  # said once, not at every tick
    assert bench.spools[Source.DNS].stat().st_blocks * 512 <= 8192  # the spool is emptied
    bench.logs.mkdir()
    bench.write(Source.DNS, reply())
    bench.collector.tick(9.0)
    lost, line = bench.lines("dns-deny.jsonl")
    assert (lost.kind, lost.cause, lost.count) == (Kind.OMITTED, Cause.VOLUME_FULL, 15)
    assert line.count == 1
    assert bench.lines("http-allow.jsonl") == []
    bench.write(Source.HTTP, request())
    bench.collector.tick(10.0)
    assert bench.lines("http-allow.jsonl")[0].count == 5


def test_what_unbound_says_is_passed_on_but_not_without_end(bench, caplog):
    bench.write(Source.DNS, b"[1] unbound[9:0] error: \x1b bad\n" * 100)
    with caplog.at_level(logging.WARNING):
        bench.collector.tick(1.0)
        bench.write(Source.DNS, b"[1] unbound[9:0] error: more\n" * 100)
        bench.collector.tick(2.0)
    assert len(caplog.records) == 20
    assert "\\x1b" in caplog.text
    assert "\x1b" not in caplog.text


def test_for_a_moment_after_a_change_both_policies_may_have_judged(bench):
    policy = PolicyOverTime(bench.watched())

    def reasons(name):
        return [judged.reason for judged in policy.judge(name)]

    policy.look(0.0)
    policy.look(OLD_POLICY_S + 1)
    assert (reasons("a.test"), reasons("b.test")) == ([None], [Reason.NOT_ALLOWED])
    write_file(bench.names, NameTable(allow=frozenset({"b.test"})).to_json())
    policy.look(10.0)
    assert reasons("a.test") == [Reason.NOT_ALLOWED, None]
    assert reasons("b.test") == [None, Reason.NOT_ALLOWED]
    policy.look(10.0 + OLD_POLICY_S + 1)
    assert reasons("b.test") == [None]
