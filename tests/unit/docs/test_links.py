"""Every relative link in the documentation leads to something in the repository."""

from __future__ import annotations

import re

import pytest

from tests import host
from tests.host import ROOT

DOCUMENTS = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
LINK = re.compile(r"\[[^\]]*\]\(([^)\s#]+)(#[^)\s]*)?\)")


def relative_links(text: str) -> list[str]:
    """Targets of links that stay in the repository."""
    return [target for target, _ in LINK.findall(text) if "://" not in target]


def test_links_are_found_with_and_without_an_anchor():
    text = "[a](docs/b.md) and [c](../d.py#e), not [f](https://g.test/h) and [i](#j)"
    assert relative_links(text) == ["docs/b.md", "../d.py"]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_relative_link_leads_to_a_file_of_the_repository(document):
    listed = host.run(["git", "-C", str(ROOT), "ls-files"]).stdout
    files = {ROOT / name for name in listed.splitlines()}
    folders = {parent for file in files for parent in file.parents}
    for target in relative_links(document.read_text()):
        assert (document.parent / target).resolve() in files | folders, target
