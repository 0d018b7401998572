"""Case files are read as their format says, and nothing else is accepted."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests import host
from tests.cases.judge import ELSEWHERE, JUDGES
from tests.cases.model import EXPECT
from tests.cases.reader import CaseFileError, faults_of, fill, read_file, read_folder

OWN = host.ROOT / "tests" / "data" / "cases"
GIVEN = Path(os.environ.get("CASES", host.ROOT.parent / "shared" / "cases"))
FOLDERS = [folder for folder in (OWN, GIVEN) if folder.is_dir()]

CASE = {
    "id": "kind--member",
    "layer": "dns",
    "backend": "any",
    "given": {"allow": []},
    "do": {"dns": {"name": "a.test", "type": "A"}},
    "expect": {"rcode": "NXDOMAIN"},
}


@pytest.mark.parametrize("folder", FOLDERS, ids=str)
def test_every_case_file_parses(folder: Path) -> None:
    cases, faults = read_folder(folder)
    assert faults == []
    assert len(cases) >= len(list(folder.glob("*.yaml")))


@pytest.mark.parametrize("folder", FOLDERS, ids=str)
def test_every_case_has_a_unique_title(folder: Path) -> None:
    titles = [case.title for case in read_folder(folder)[0]]
    assert len(titles) == len(set(titles))


def test_a_case_as_written_has_no_fault() -> None:
    assert faults_of(CASE, "here") == []


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"typo": 1}, "unknown key 'typo'"),
        ({"layer": "magic"}, "unknown layer"),
        ({"backend": "zone"}, "unknown backend"),
        ({"id": "nokind"}, "no '--'"),
        ({"given": {"alow": []}}, "unknown key 'alow'"),
        ({"given": {"origins": [{"at": "1:1", "speak": "http"}]}}, "unknown key 'speak'"),
        ({"given": {"each": []}}, "each"),
        ({"do": {}}, "one action"),
        ({"do": {"dns": {}, "http": {}}}, "one action"),
        ({"do": {"dns": {"nam": "a"}}}, "unknown key 'nam'"),
        ({"do": {"dns": {"name": "a"}, "hold_s": 1}}, "unknown key 'hold_s'"),
        ({"expect": {"rcod": "NXDOMAIN"}}, "unknown key 'rcod'"),
    ],
)
def test_what_the_format_does_not_know_is_an_error(change, told: str) -> None:
    faults = faults_of({**CASE, **change}, "here")
    assert any(told in fault for fault in faults), faults


def test_all_faults_of_a_file_are_told_at_once(tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text("- {id: a--b, layer: x, backend: y, given: {}, do: {}, expect: {}}\n- 7\n")
    with pytest.raises(CaseFileError) as caught:
        read_file(path)
    assert len(str(caught.value).splitlines()) == 4


def test_each_keeps_the_type_where_it_stands_alone() -> None:
    assert fill({"port": "{each}", "at": "x:{each}"}, 80) == {"port": 80, "at": "x:80"}


def test_each_makes_one_case_a_member(tmp_path: Path) -> None:
    path = tmp_path / "each.yaml"
    path.write_text(
        "- {id: a--b, layer: dns, backend: any, given: {each: [A, AAAA]},"
        " do: {dns: {name: a.test, type: '{each}'}}, expect: {rcode: NXDOMAIN}}\n"
    )
    cases = read_file(path)
    assert [case.do["dns"]["type"] for case in cases] == ["A", "AAAA"]
    assert [case.title for case in cases] == ["a--b[A]", "a--b[AAAA]"]


def test_every_expectation_has_somebody_who_judges_it() -> None:
    """Expectations of layers that this version lacks stand here, and only they."""
    other_layers = {
        "filter_accepts",
        "filter_refuses",
        "xml_has",
        "xml_round_trip",
        "cloud_init",
        "ok",
        "error_contains",
        "violation",
        "drift",
        "repaired",
        "stays_closed",
        "recovers_or_drift",
        "or_tamper_fails",
        "agent_running",
        "leftovers",
    }
    assert set(JUDGES) | ELSEWHERE | other_layers == EXPECT
    assert not (set(JUDGES) | ELSEWHERE) & other_layers
