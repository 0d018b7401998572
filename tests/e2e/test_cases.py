"""The runner of the case files works on a sandbox of its own, and tells a broken claim."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests import host

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

OWN = host.ROOT / "tests" / "data" / "cases"


def run_cases(folder: Path, *args: str) -> host.Completed:
    """Run a folder as `make cases` does."""
    command = [sys.executable, "-m", "tests.cases", str(folder), *args]
    return host.run(command, cwd=host.ROOT, timeout_s=590, check=False)


def test_own_cases_hold() -> None:
    done = run_cases(OWN, "-v")
    assert done.code == 0, done.stdout + done.stderr
    assert done.stdout.rstrip().endswith(" passed, 0 failed")


def test_a_claim_that_does_not_hold_is_told_on_one_line(tmp_path: Path) -> None:
    """A case that expects the opposite of what is so must fail, or no pass means anything."""
    text = (OWN / "own.yaml").read_text()
    wrong = text.replace("expect: {ok: true}", "expect: {ok: false}")
    (tmp_path / "wrong.yaml").write_text(wrong)
    done = run_cases(tmp_path, "--layer", "config")
    assert done.code == 1
    lines = done.stdout.splitlines()
    assert lines[-1] == "0 passed, 1 failed"
    assert len([line for line in lines if line.startswith("FAILED own-setting--accepted")]) == 1


def test_a_file_that_does_not_parse_fails(tmp_path: Path) -> None:
    (tmp_path / "broken.yaml").write_text("- {id: a--b, layer: dns}\n")
    done = run_cases(tmp_path)
    assert done.code == 1
    assert "key 'do' is missing" in done.stdout


def test_a_choice_that_matches_nothing_fails() -> None:
    assert run_cases(OWN, "--only", "no-such-kind").code == 2
