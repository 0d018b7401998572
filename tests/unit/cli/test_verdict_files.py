"""Files of the log are read in the order of time, across rotations, and on as they grow."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing

import pytest

from abox.verdict_log import FILES, Source
from cli import verdict_files
from cli.verdict_files import VerdictFiles, ordered
from tests.unit.cli.verdict_lines import ALLOW, DENY, NOON, LogFolder, logs, name, request

__all__ = ["logs"]


def seconds(lines):
    return [line.time - NOON for line in lines]


def history(logs: LogFolder, streams=FILES):
    with closing(VerdictFiles(logs.path, streams)) as files:
        return seconds(files.history())


def test_all_files_are_merged_by_time(logs: LogFolder):
    logs.add(request(1), request(7), name(2), name(5, DENY), request(3, DENY))
    logs.add(request(0), suffix=".1")
    logs.add(request(-2), suffix=".10")
    logs.add(request(-1), suffix=".2")
    assert history(logs) == [-2, -1, 0, 1, 2, 3, 5, 7]


def test_only_the_streams_that_are_wanted_are_read(logs: LogFolder):
    logs.add(request(1), name(2), name(5, DENY), request(3, DENY))
    assert history(logs, [(Source.DNS, DENY), (Source.HTTP, DENY)]) == [3, 5]


def test_damaged_and_unfinished_lines_are_left_out(logs: LogFolder):
    logs.add(request(1))
    with logs.file(Source.HTTP, ALLOW).open("a") as file:
        file.write('{"time": 3}\n\x00\n' + request(2).to_line() + request(9).to_line()[:50])
    assert history(logs) == [1, 2]


def test_a_line_that_was_written_late_is_put_in_its_place():
    late = [request(5), request(1), request(3)]
    assert seconds(ordered(late)) == [1, 3, 5]


def test_the_order_needs_little_memory(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(verdict_files, "WINDOW", 2)
    taken = []

    def source():
        for second in range(100):
            taken.append(second)
            yield request(second)

    lines = ordered(source())
    assert next(lines).time == NOON
    assert len(taken) == 3


@pytest.fixture
def growing(logs: LogFolder, monkeypatch: pytest.MonkeyPatch):
    """Steps that happen while the reader waits; after the last one the folder is gone."""
    steps: list[Callable[[], object]] = []

    def sleep(_):
        if steps:
            steps.pop(0)()
        else:
            logs.path.rename(logs.path.with_name("gone"))

    monkeypatch.setattr(time, "sleep", sleep)
    return steps


def test_following_goes_on_after_the_history_across_a_rotation(logs: LogFolder, growing):
    logs.add(request(1))
    files = VerdictFiles(logs.path, FILES)
    assert seconds(files.history()) == [1]

    def rotated():
        logs.add(request(3))
        logs.rotate(Source.HTTP, ALLOW)
        logs.add(request(4))

    growing += [lambda: logs.add(request(2), name(2.5, DENY)), rotated, lambda: logs.add(name(5))]
    assert seconds(files.later()) == [2, 2.5, 3, 4, 5]
    files.close()


def test_a_line_in_two_writes_is_one_line(logs: LogFolder, growing):
    files = VerdictFiles(logs.path, FILES)
    assert list(files.history()) == []
    text, file = request(1).to_line(), logs.file(Source.HTTP, ALLOW)

    def second_half():
        with file.open("a") as handle:
            handle.write(text[40:])

    growing += [lambda: file.write_text(text[:40]), second_half]
    assert seconds(files.later()) == [1]
    files.close()
