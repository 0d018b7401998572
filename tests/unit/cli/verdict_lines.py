"""A sandbox's verdict log in a folder of the test's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from abox.verdict_log import FILES, NameVerdict, Outcome, RequestVerdict, Source, Verdict

NOON = 1796040000.0
ALLOW, DENY = Outcome.ALLOW, Outcome.DENY


def name(second: float, outcome: Outcome = ALLOW, **more) -> NameVerdict:
    fields = {"name": "a.test", "type": "A", "rcode": "NOERROR", **more}
    return NameVerdict(time=NOON + second, sandbox="dev", verdict=outcome, **fields)


def request(second: float, outcome: Outcome = ALLOW, **more) -> RequestVerdict:
    status = 200 if outcome is ALLOW else 403
    fields = {"name": "a.test", "port": 443, "method": "GET", "path": "/", "status": status, **more}
    return RequestVerdict(time=NOON + second, sandbox="dev", verdict=outcome, **fields)


class LogFolder:
    """The folder, and lines for it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def add(self, *lines: Verdict, suffix: str = "") -> None:
        for line in lines:
            file = self.file(line.source, line.outcome, suffix)
            with file.open("a") as handle:
                handle.write(line.to_line())

    def file(self, source: Source, outcome: Outcome, suffix: str = "") -> Path:
        return self.path / (FILES[source, outcome] + suffix)

    def rotate(self, source: Source, outcome: Outcome) -> None:
        self.file(source, outcome).rename(self.file(source, outcome, ".1"))


@pytest.fixture
def logs(checkout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LogFolder:
    """The log of the stack dev."""
    monkeypatch.setenv("ABOX_STATE_DIR", str(tmp_path / "state"))
    folder = tmp_path / "state" / "sandboxes" / "dev" / "logs" / "verdicts"
    folder.mkdir(parents=True)
    return LogFolder(folder)
