"""Debian packages: only what is missing, and clear words where it can't be installed."""

from __future__ import annotations

import io
import os
import shutil
import time
from pathlib import Path

import pytest

from abox.errors import HostError, SettingsError
from toolchain import packages, shell
from toolchain.layout import this_checkout
from toolchain.packages import Package
from toolchain.progress import Step

LIST = "# comment\nnftables  nft   # why\n\npython3-venv module:ensurepip\n"


@pytest.fixture
def listing(tmp_path: Path) -> Path:
    """A list of two packages."""
    path = tmp_path / "packages.txt"
    path.write_text(LIST)
    return path


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[list[str]]:
    """Every apt-get call, none of which runs."""
    seen: list[list[str]] = []

    def record(arguments: list[str], *_: object, **__: object) -> shell.Finished:
        seen.append([str(argument) for argument in arguments])
        return shell.Finished(0, "", "")

    monkeypatch.setattr(shell, "stream", record)
    monkeypatch.setattr(packages, "HOST_RUN", tmp_path)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(shutil, "which", lambda *_, **__: "/usr/bin/apt-get")
    return seen


def test_list_is_parsed_without_comments() -> None:
    """A line is a package and what it provides."""
    assert packages.parse_packages(LIST, "p") == [
        Package("nftables", "nft"),
        Package("python3-venv", "module:ensurepip"),
    ]


@pytest.mark.parametrize("line", ["nftables", "nftables nft extra"])
def test_malformed_line_is_refused_with_its_number(line: str) -> None:
    """A line that isn't a pair is an error at its line."""
    with pytest.raises(SettingsError, match=r"p:2: "):
        packages.parse_packages(f"a b\n{line}\n", "p")


def test_the_projects_lists_are_well_formed() -> None:
    """Every list of the repository parses and names each package once."""
    for path in this_checkout().toolchain.glob("packages*.txt"):
        names = [each.name for each in packages.parse_packages(path.read_text(), path.name)]
        assert names
        assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("provides", "present"),
    [
        ("sh", True),
        ("abox-no-such-command", False),
        ("module:json", True),
        ("module:abox_no_such_module", False),
        ("file:/etc/passwd", True),
        ("file:/nonexistent", False),
    ],
)
def test_presence_is_what_a_package_provides(provides: str, present: bool) -> None:
    """A command or module that is there counts, whoever installed it."""
    assert packages.is_present(Package("any", provides)) is present


def test_nothing_missing_runs_nothing(listing: Path, calls: list[list[str]]) -> None:
    """Where all is present, apt-get isn't called."""
    output = io.StringIO()
    packages.install([listing], Step("p", output=output), present=lambda _: True)
    assert calls == []
    assert "all 2 present" in output.getvalue()


def test_only_missing_packages_are_installed(listing: Path, calls: list[list[str]]) -> None:
    """apt-get gets the missing names, waits for its lock and asks nothing."""
    installed: list[str] = []

    def present(package: Package) -> bool:
        known = package.name != "nftables" or bool(installed)
        if calls:
            installed.append(package.name)
            return True
        return known

    packages.install([listing], Step("p", output=io.StringIO()), present=present)
    assert [call[-1] for call in calls] == ["update", "nftables"]
    assert all("DPkg::Lock::Timeout=600" in call and "-y" in call for call in calls)


def test_services_of_a_package_are_started_only_if_wanted(
    listing: Path, calls: list[list[str]]
) -> None:
    """Packages of tests find commands that start nothing, and nothing stays of those."""
    for services in (True, False):
        calls.clear()
        packages.install(
            [listing],
            Step("p", output=io.StringIO()),
            services=services,
            present=lambda package: package.name != "nftables" or bool(calls),
        )
        paths = [word for word in calls[-1] if word.startswith("DPkg::Path=")]
        assert len(paths) == (0 if services else 1)
    first = Path(paths[0].partition("=")[2].split(os.pathsep)[0])
    assert paths[0].endswith(os.pathsep.join(shell.SYSTEM_FOLDERS))
    assert not first.exists()


def test_installed_but_still_missing_is_an_error(listing: Path, calls: list[list[str]]) -> None:
    """A package that doesn't bring its command is named."""
    with pytest.raises(HostError, match="nftables is installed, yet nft was not found"):
        packages.install(
            [listing], Step("p", output=io.StringIO()), present=lambda each: each.name != "nftables"
        )
    assert calls


def test_no_root_is_told_the_command(
    listing: Path, calls: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without root the message holds the command to run."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(HostError) as refused:
        packages.install([listing], Step("p", output=io.StringIO()), present=lambda _: False)
    assert refused.value.remedy == "run as root: apt-get install nftables python3-venv"
    assert calls == []


def test_other_systems_are_told_the_names(
    listing: Path, calls: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where there is no apt-get, the message says what is missing."""
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    with pytest.raises(HostError, match="missing: nftables python3-venv"):
        packages.install([listing], Step("p", output=io.StringIO()), present=lambda _: False)
    assert calls == []


def test_held_lock_is_waited_for(
    listing: Path, calls: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another apt-get that holds the lists' lock delays the installation, and no more."""
    answers = [shell.Finished(100, "E: Could not get lock /x. It is held", "")]
    waits: list[float] = []

    def busy_once(arguments: list[str], *_: object, **__: object) -> shell.Finished:
        calls.append([str(argument) for argument in arguments])
        return answers.pop() if answers else shell.Finished(0, "", "")

    monkeypatch.setattr(shell, "stream", busy_once)
    monkeypatch.setattr(time, "sleep", waits.append)
    packages.install([listing], Step("p", output=io.StringIO()), present=lambda _: len(calls) == 3)
    assert [call[5] for call in calls] == ["update", "update", "install"]
    assert waits == [packages.LOCK_RETRY_S]


def test_failed_installation_shows_the_last_lines(
    listing: Path, calls: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What apt-get said last is the reason."""
    failed = shell.Finished(100, "E: Unable to locate package nftables", "")
    monkeypatch.setattr(shell, "stream", lambda *_, **__: failed)
    with pytest.raises(HostError) as refused:
        packages.install([listing], Step("p", output=io.StringIO()), present=lambda _: False)
    assert refused.value.why == "E: Unable to locate package nftables"
    assert calls == []
