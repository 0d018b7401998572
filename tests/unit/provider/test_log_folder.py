"""The folder of the verdict log: control's own, below one that is root's alone."""

from __future__ import annotations

import os

import pytest

from abox.errors import HostError
from provider import host
from provider.log_folder import WANTED, LogFolder
from tests.unit.provider.samples import FakeEngine, container_inspection


@pytest.fixture
def engine():
    return FakeEngine(containers_by_id={"c1": {**container_inspection("c1"), "Id": "c1"}})


@pytest.fixture
def folder(tmp_path, engine):
    return LogFolder(tmp_path / "sandboxes" / "p" / "logs" / "verdicts", "p", engine)


def restarts(engine):
    return [call[1] for call in engine.calls if call[0] == "restart"]


def test_it_belongs_to_control_and_lies_below_roots_own(folder):
    folder.apply()
    assert folder.findings() == []
    assert host.read_folder(folder.path) == WANTED
    assert folder.path.parent.stat().st_mode & 0o777 == 0o700
    assert folder.path.parent.stat().st_uid == os.geteuid()


@pytest.mark.parametrize("spoil", [lambda p: p.chmod(0o755), lambda p: os.chown(p, 5, 5)])
def test_a_changed_owner_or_mode_is_seen_and_mended_without_a_restart(folder, engine, spoil):
    folder.apply()
    engine.calls.clear()
    (folder.path / "dns-deny.jsonl").write_text("kept")
    spoil(folder.path)
    assert len(folder.findings()) == 1
    folder.apply()
    assert folder.findings() == []
    assert (folder.path / "dns-deny.jsonl").read_text() == "kept"
    assert restarts(engine) == []


def test_a_folder_that_is_gone_is_made_again_and_control_told(folder, engine):
    folder.apply()
    engine.calls.clear()
    folder.path.rmdir()
    assert folder.findings() == [f"{folder.path} is gone"]
    folder.apply()
    assert folder.findings() == []
    assert restarts(engine) == [("c1",)]
    chosen = next(call[1] for call in engine.calls if call[0] == "containers")
    assert chosen["filters"]["label"] == ["abox.sandbox=p", "abox.role=control"]


def test_a_link_in_its_place_is_not_followed(folder, tmp_path):
    folder.path.parent.mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir(mode=0o755)
    folder.path.symlink_to(tmp_path / "elsewhere")
    assert folder.findings() == [f"{folder.path} is gone"]
    with pytest.raises(HostError, match="can't be made"):
        folder.apply()
    assert (tmp_path / "elsewhere").stat().st_uid != WANTED.owner


def test_it_goes_with_its_sandbox_whatever_is_in_it(folder):
    folder.apply()
    (folder.path / "dns-deny.jsonl.1").write_text("x")
    folder.remove()
    assert not folder.path.parent.parent.exists()
    folder.remove()


def test_what_else_is_kept_of_the_sandbox_stays(folder):
    folder.apply()
    (folder.path.parent / "keys.log").write_text("x")
    folder.remove()
    assert (folder.path.parent / "keys.log").exists()
