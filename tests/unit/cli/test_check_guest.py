"""The watcher of `abox check`: a frame that passes is told, and nothing counts alone."""

from __future__ import annotations

import inspect
import socket

import pytest

from cli import probes
from cli.check import FrameWatcher
from cli.frames import ATTACKS, BROADCAST, HONEST, Maker, mark_of

MAKER = Maker("52:54:00:00:00:01", "10.10.0.10", "10.10.0.2", "10.10.0.1", BROADCAST)


def rows(*names):
    watcher = FrameWatcher("abx-dev", MAKER)
    made = {**HONEST, **ATTACKS}
    sender, receiver = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with sender, receiver:
        receiver.setblocking(False)
        for name in names:
            sender.send(made[name](MAKER, mark_of(name)))
        watcher._socket = receiver
        return {row.id: row.state for row in watcher.rows()}


def test_only_true_frames_pass():
    assert rows(*HONEST) == {"frames-control": "ok", "frames-dropped": "ok"}


@pytest.mark.parametrize("name", sorted(ATTACKS))
def test_every_false_frame_is_recognised(name):
    assert rows(*HONEST, name)["frames-dropped"] == "open"


def test_silence_proves_nothing():
    assert rows() == {"frames-control": "fails", "frames-dropped": "unproven"}


def test_every_frame_can_be_sent_by_the_script():
    (probe,) = FrameWatcher("abx-dev", MAKER).probes()
    assert len(probe.attempts) == len(HONEST) + len(ATTACKS)
    for kind, arguments in probe.attempts.values():
        inspect.signature(probes.KINDS[kind]).bind(**arguments)
        assert len(bytes.fromhex(arguments["data"])) >= 60


def test_marks_are_different():
    marks = [mark_of(name) for name in (*HONEST, *ATTACKS)]
    assert len(set(marks)) == len(marks)
