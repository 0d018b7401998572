"""The README's figures are those that were measured."""

from __future__ import annotations

import json

import pytest

from bench.readme import BEGIN, END, render_figures, replace_figures
from tests import host

README = (host.ROOT / "README.md").read_text()
RESULTS = json.loads((host.ROOT / "bench" / "results.json").read_text())


def test_the_tables_are_those_of_the_results() -> None:
    """A figure in the README that nobody measured, or an old one, is found here."""
    assert replace_figures(README, RESULTS) == README


def test_only_the_place_of_the_tables_is_touched() -> None:
    """What stands before and after stays, whatever stood there."""
    text = f"before {BEGIN}old\n{END} after\n"
    assert replace_figures(text, RESULTS) == f"before {BEGIN}{render_figures(RESULTS)}{END} after\n"


@pytest.mark.parametrize("text", ["no place", f"{BEGIN} no end", f"no begin {END}"])
def test_a_readme_without_a_place_is_refused(text: str) -> None:
    """Nothing is lost where the marks are not."""
    with pytest.raises(ValueError, match="the README lacks"):
        replace_figures(text, RESULTS)
