"""`abox snapshot`: nothing is overwritten, nothing is lost unasked, and the order of a way back."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import typer

from abox.errors import HostError
from abox.host_state import instance_dir
from abox.snapshots import Disk, gather
from cli import host, snapshot
from cli.guests import Guest
from cli.machines import alone
from cli.main import run

NOON = datetime(2026, 1, 2, 12, 0, 0, tzinfo=UTC)


class FakeMachine:
    """A machine in memory that notes what is done to it."""

    sandbox = "dev"

    def __init__(self) -> None:
        self.by_disk: dict[str, dict[str, datetime]] = {"vda": {}, "vdb": {}}
        self.on = True
        self.calls: list[Any] = []
        self.failure: HostError | None = None

    def is_on(self) -> bool:
        return self.on

    def disks(self) -> list[Disk]:
        return [Disk(target, f"/d/{target}") for target in self.by_disk]

    def snapshots(self):
        return gather(self.by_disk)

    def take(self, name: str) -> None:
        self.calls.append(("take", name))
        for found in self.by_disk.values():
            found[name] = NOON

    def drop(self, name: str) -> None:
        self.calls.append(("drop", name))

    def put_back(self, name: str) -> None:
        self.calls.append(("put_back", name))
        if self.failure:
            raise self.failure

    def switch_off(self) -> None:
        self.calls.append("off")

    def switch_on(self) -> None:
        self.calls.append("on")


@pytest.fixture
def machine(checkout, monkeypatch, tmp_path) -> FakeMachine:
    """The machine of the stack, whose guest answers every command."""
    made = FakeMachine()
    monkeypatch.setenv("ABOX_STATE_DIR", str(tmp_path / "state"))
    instance_dir(tmp_path / "state", "dev").mkdir(parents=True)
    monkeypatch.setattr(snapshot, "list_containers", list)
    monkeypatch.setattr(snapshot, "guest_of", lambda _c, name: Guest(name, Path("/config")))
    monkeypatch.setattr(snapshot, "find_machine", lambda _: made)

    def ran(arguments, **_: Any) -> host.Finished:
        made.calls.append(arguments[-1])
        return host.Finished(0, "", "")

    monkeypatch.setattr(host, "run", ran)
    return made


def test_the_guest_writes_out_what_it_holds_before(machine, capsys):
    assert run(["snapshot", "create", "dev", "one"]) == 0
    assert machine.calls == ["sync", ("take", "one")]
    assert capsys.readouterr().out == "dev: snapshot one\n"


def test_a_machine_that_is_off_is_not_asked(machine):
    machine.on = False
    assert run(["snapshot", "create", "dev", "one"]) == 0
    assert machine.calls == [("take", "one")]


def test_a_guest_that_does_not_answer_is_no_hindrance(machine, monkeypatch, capsys):
    def hangs(_arguments, *, timeout_s: float) -> host.Finished:
        raise HostError(what="it did not end", why=f"{timeout_s}", remedy="none")

    monkeypatch.setattr(host, "run", hangs)
    assert run(["snapshot", "create", "dev", "one"]) == 0
    assert machine.calls == [("take", "one")]
    assert "didn't write out" in capsys.readouterr().err


def test_without_a_name_it_says_when(machine, capsys):
    assert run(["snapshot", "create", "dev"]) == 0
    assert capsys.readouterr().out.startswith("dev: snapshot at-2")


@pytest.mark.parametrize("targets", [["vda", "vdb"], ["vda"], ["vdb"]])
def test_what_exists_in_any_disk_is_never_written_over(machine, capsys, targets):
    for target in targets:
        machine.by_disk[target]["one"] = NOON
    assert run(["snapshot", "create", "dev", "one"]) == 2
    assert machine.calls == []
    assert "exists" in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["create", "revert", "remove"])
def test_a_name_that_is_none_touches_nothing(machine, verb, capsys):
    assert run(["snapshot", verb, "dev", "1"]) == 2
    assert machine.calls == []
    assert len(capsys.readouterr().err.splitlines()) == 3


def test_going_back_switches_off_before_and_on_after(machine, capsys):
    machine.take("one")
    machine.calls.clear()
    assert run(["snapshot", "revert", "dev", "one", "--yes"]) == 0
    assert machine.calls == ["off", ("put_back", "one"), "on", "true"]
    assert capsys.readouterr().out == "dev: back at snapshot one, and up\n"


def test_a_machine_that_was_off_stays_off(machine, capsys):
    """After a restart of the host its firewall isn't there, which `pulumi up` puts up first."""
    machine.take("one")
    machine.on = False
    machine.calls.clear()
    assert run(["snapshot", "revert", "dev", "one", "--yes"]) == 0
    assert machine.calls == [("put_back", "one")]
    assert "run `pulumi up -s dev`" in capsys.readouterr().out


def test_nothing_is_lost_unasked(machine, capsys, monkeypatch):
    machine.take("one")
    machine.calls.clear()
    monkeypatch.setattr("sys.stdin", io.StringIO())
    assert run(["snapshot", "revert", "dev", "one"]) == 2
    assert machine.calls == []
    assert "would be lost" in capsys.readouterr().err


@pytest.mark.parametrize(("answer", "code"), [("n\n", 130), ("y\n", 0)])
def test_whoever_sits_there_is_asked(machine, monkeypatch, answer, code):
    machine.take("one")
    machine.calls.clear()
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr(typer, "confirm", confirm(answer))
    assert run(["snapshot", "revert", "dev", "one"]) == code
    assert bool(machine.calls) is (code == 0)


def confirm(answer: str):
    def ask(text: str, *, abort: bool) -> None:
        assert "will be lost" in text
        assert abort
        if answer != "y\n":
            raise typer.Abort

    return ask


def test_a_way_back_that_broke_leaves_the_machine_off(machine, capsys):
    machine.take("one")
    machine.calls.clear()
    machine.failure = HostError(what="qemu-img failed", why="no space", remedy="make room")
    assert run(["snapshot", "revert", "dev", "one", "--yes"]) == 2
    assert machine.calls == ["off", ("put_back", "one")]
    shown = capsys.readouterr().err
    assert "in part, and is off" in shown
    assert "no space" in shown


def test_an_incomplete_one_is_listed_removed_and_never_gone_back_to(machine, capsys):
    machine.by_disk["vda"]["half"] = NOON
    assert run(["snapshot", "list", "dev"]) == 0
    assert "incomplete: only vda" in capsys.readouterr().out
    assert run(["snapshot", "revert", "dev", "half", "--yes"]) == 2
    assert machine.calls == []
    assert run(["snapshot", "remove", "dev", "half"]) == 0
    assert machine.calls == [("drop", "half")]


@pytest.mark.parametrize("verb", ["revert", "remove"])
def test_one_that_does_not_exist_is_told_with_those_that_do(machine, verb, capsys):
    machine.take("one")
    assert run(["snapshot", verb, "dev", "two"]) == 2
    shown = capsys.readouterr().err
    assert "has no snapshot two" in shown
    assert "its snapshots: one" in shown


def test_the_list_is_for_people_and_programs(machine, capsys):
    assert run(["snapshot", "list", "dev"]) == 0
    assert "no snapshots" in capsys.readouterr().out
    machine.take("one")
    assert run(["snapshot", "list", "dev"]) == 0
    assert "2026-01-02T12:00:00Z   vda vdb" in capsys.readouterr().out
    assert run(["snapshot", "list", "dev", "--json"]) == 0
    (only,) = json.loads(capsys.readouterr().out)
    assert only["name"] == "one"


@pytest.mark.parametrize("words", [["create"], ["list"], ["revert", "one"], ["remove", "one"]])
def test_a_container_has_no_snapshots(checkout, monkeypatch, tmp_path, words, capsys):
    monkeypatch.setenv("ABOX_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setattr(snapshot, "list_containers", list)
    assert run(["snapshot", words[0], "dev", *words[1:]]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3
    assert lines[1] == "why: it is a container; only the disks of a VM can be put back"


def test_two_at_once_are_kept_apart(machine, capsys):
    with alone("dev"):
        assert run(["snapshot", "create", "dev", "one"]) == 2
    assert machine.calls == []
    assert "another `abox snapshot` runs" in capsys.readouterr().err
