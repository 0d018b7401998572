"""Which backend a case runs on: its own if it names one, else the run's."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cases.model import Case
from tests.cases.outcome import NotRunError
from tests.cases.runner import CASE_S, VM_CASE_S, Runner


def case(backend: str) -> Case:
    return Case(id="a--b", layer="dns", backend=backend, given={}, do={}, expect={})


def runner(backend: str) -> Runner:
    return Runner(Path(), backend=backend, spare_host=True)


@pytest.mark.parametrize(
    ("run", "named", "expected"),
    [
        ("", "any", "container"),
        ("", "container", "container"),
        ("", "vm", "vm"),
        ("vm", "any", "vm"),
        ("vm", "vm", "vm"),
        ("container", "any", "container"),
    ],
)
def test_a_case_runs_where_it_says_or_where_the_run_says(run, named, expected):
    assert runner(run).backend_of(case(named)) == expected
    assert runner(run).limit_s(case(named)) == (VM_CASE_S if expected == "vm" else CASE_S)


@pytest.mark.parametrize(("run", "named"), [("container", "vm"), ("vm", "container")])
def test_a_case_about_another_backend_is_not_run(run, named):
    with pytest.raises(NotRunError, match=f"about the {named} backend"):
        runner(run).backend_of(case(named))
