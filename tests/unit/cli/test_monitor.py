"""`abox monitor`: one reader at a time, and nothing that a guest writes hurts it."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import stat
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from abox.errors import HostError
from abox.heartbeat import Lines
from abox.host_state import last_heartbeat, monitor_socket
from cli import monitor
from cli.main import run
from cli.monitor_port import PIECE, Sign, keep_last, listening, read_last, read_port
from tests import host
from tests.unit.abox.test_heartbeat import BEAT, BOOT, line

GROUP = 5


@pytest.fixture
def port(tmp_path):
    folder = tmp_path / "monitor"
    folder.mkdir(mode=0o710)
    os.chown(folder, 0, GROUP)
    return folder / "port"


@contextlib.contextmanager
def guest(port, act: Callable[[socket.socket], object]) -> Iterator[None]:
    """Connects as QEMU does, again until there is a socket, and does something with it."""

    def work() -> None:
        with socket.socket(socket.AF_UNIX) as own:
            host.wait_until(lambda: connects(own, port), timeout_s=20, describe=lambda: "no reader")
            with contextlib.suppress(OSError):
                act(own)

    thread = threading.Thread(target=work)
    thread.start()
    yield
    thread.join()


def connects(own: socket.socket, port) -> bool:
    try:
        own.connect(str(port))
    except OSError:
        return False
    return True


def test_only_root_and_the_folders_group_may_connect(port):
    with listening(port):
        found = port.stat()
        assert stat.S_IMODE(found.st_mode) == 0o660
        assert (found.st_uid, found.st_gid) == (0, GROUP)
    assert not port.exists()


def test_there_is_one_reader_at_a_time_and_then_another(port):
    with listening(port):
        with pytest.raises(HostError, match="another reader"), listening(port):
            pass
        assert port.exists()
    with listening(port):
        pass


def test_the_socket_of_a_killed_reader_is_no_hindrance(port):
    with socket.socket(socket.AF_UNIX) as old:
        old.bind(str(port))
    with listening(port), socket.socket(socket.AF_UNIX) as own:
        assert connects(own, port)


def test_connections_come_and_go(port):
    with listening(port) as listener:
        signs = read_port(listener, until=time.monotonic() + 20, pause_s=0)
        for _ in range(2):
            with guest(port, lambda own: own.sendall(line() + b"\n")):
                assert [next(signs), next(signs)] == [Sign.CONNECTED, BEAT]


def flood(own: socket.socket) -> None:
    while True:
        own.sendall(b"\x1b]0;x\x07" * 500)


def test_a_guest_that_floods_waits_and_the_reader_ends_in_time(port, monkeypatch):
    """The guest's side fills up; here nothing does."""
    pieces: list[int] = []
    feed = Lines.feed

    def counted(self, data):
        pieces.append(len(data))
        return feed(self, data)

    monkeypatch.setattr(Lines, "feed", counted)
    with listening(port) as listener, guest(port, flood):
        begun = time.monotonic()
        signs = list(read_port(listener, until=begun + 1, pause_s=0.05))
        listener.close()
    assert signs == [Sign.CONNECTED]
    assert 0 < sum(pieces) <= PIECE * 21
    assert time.monotonic() - begun < 60


@pytest.fixture
def enabled(checkout, monkeypatch, tmp_path):
    """A stack with a port, and the folder of the host's state."""
    state = tmp_path / "state"
    monkeypatch.setenv("ABOX_STATE_DIR", str(state))
    monkeypatch.setattr(monitor, "list_containers", list)
    monitor_socket(state, "dev").parent.mkdir(parents=True)
    return state


@pytest.fixture
def in_vain(monkeypatch):
    """No heartbeat will come: the wait is long enough for a thread to connect."""
    monkeypatch.setattr(monitor, "WINDOW_S", 1.5)


@pytest.fixture
def alone(monkeypatch):
    """Nobody will connect at all."""
    monkeypatch.setattr(monitor, "WINDOW_S", 0.2)


def test_a_heartbeat_is_alive_and_remembered(enabled, capsys):
    with guest(monitor_socket(enabled, "dev"), lambda own: own.sendall(line() + b"\n")):
        assert run(["monitor", "status", "dev", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["state"] == "alive"
    assert shown["last"]["heartbeat"] == {"sequence": 7, "boot": BOOT}
    seen = read_last(last_heartbeat(enabled, "dev"))
    assert seen is not None
    assert seen.heartbeat == BEAT
    assert last_heartbeat(enabled, "dev").stat().st_mode & 0o777 == 0o600


def test_mon_2_what_is_no_heartbeat_is_counted_and_never_shown(enabled, capsys):
    """MON-2: control characters, half lines and false fields reach no terminal."""
    bad = b"\x1b[2Jowned\n{\n" + line(boot="\x1b[2J") + b"\n" + b"x" * 5000 + b"\n"
    with guest(monitor_socket(enabled, "dev"), lambda own: own.sendall(bad + line() + b"\n")):
        assert run(["monitor", "status", "dev"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"dev: alive: heartbeat 7 of boot {BOOT} at ")
    assert shown.endswith("; 4 lines were no heartbeats\n")
    assert "\x1b" not in shown
    assert "owned" not in shown


def test_a_machine_that_says_nothing_is_silent_since_the_last_heartbeat(enabled, in_vain, capsys):
    keep_last(last_heartbeat(enabled, "dev"), BEAT)
    with guest(monitor_socket(enabled, "dev"), lambda own: own.recv(1)):
        assert run(["monitor", "status", "dev"]) == 1
    assert capsys.readouterr().out.startswith("dev: silent since 20")


def test_a_machine_that_never_said_anything_is_silent(enabled, in_vain, capsys):
    with guest(monitor_socket(enabled, "dev"), lambda own: own.recv(1)):
        assert run(["monitor", "status", "dev"]) == 1
    assert capsys.readouterr().out == "dev: silent: no heartbeat was ever seen\n"


def test_without_a_machine_the_port_is_closed(enabled, alone, capsys):
    last_heartbeat(enabled, "dev").write_text("damaged")
    assert run(["monitor", "status", "dev"]) == 1
    shown = capsys.readouterr().out
    assert shown == "dev: port closed: no machine connected; no heartbeat was ever seen\n"


def test_beside_another_reader_it_goes_by_what_that_one_hears(enabled, capsys):
    last, ended = last_heartbeat(enabled, "dev"), threading.Event()

    def hear() -> None:
        while not ended.wait(0.05):
            keep_last(last, BEAT)

    other = threading.Thread(target=hear)
    with listening(monitor_socket(enabled, "dev")):
        other.start()
        assert run(["monitor", "status", "dev"]) == 0
        ended.set()
        other.join()
        assert run(["monitor", "logs", "dev"]) == 2
    shown = capsys.readouterr()
    assert shown.out.startswith("dev: alive: heartbeat 7")
    assert "another reader" in shown.err


def test_another_reader_that_hears_nothing_is_silence(enabled, alone, capsys):
    keep_last(last_heartbeat(enabled, "dev"), BEAT)
    with listening(monitor_socket(enabled, "dev")):
        assert run(["monitor", "status", "dev"]) == 1
    assert capsys.readouterr().out.startswith("dev: silent since 2")


def test_logs_are_heartbeats_as_they_come(enabled, capsys):
    with guest(monitor_socket(enabled, "dev"), lambda own: own.sendall(b"x\n" + line() + b"\n")):
        assert run(["monitor", "logs", "dev", "--json", "--seconds", "1.5"]) == 0
    (only,) = capsys.readouterr().out.splitlines()
    assert json.loads(only)["heartbeat"]["sequence"] == 7


@pytest.mark.parametrize("verb", ["status", "logs"])
def test_a_sandbox_without_a_port_is_told(checkout, monkeypatch, tmp_path, verb, capsys):
    monkeypatch.setenv("ABOX_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setattr(monitor, "list_containers", list)
    assert run(["monitor", verb, "dev"]) == 2
    assert "no monitor port" in capsys.readouterr().err


def test_the_help_tells_the_seconds_that_it_listens():
    assert f"for {monitor.WINDOW_S} seconds at most" in str(monitor.status.__doc__)
