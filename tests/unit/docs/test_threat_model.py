"""The threat model and the tests name each other: no claim without a proof, no proof unnamed."""

from __future__ import annotations

import ast
import re

import pytest

from tests.host import ROOT

DOCUMENT = ROOT / "docs" / "threat-model.md"
ROW = re.compile(
    r"^\| (?P<id>[A-Z]+-\d+) \| (?P<claim>[^|]+) \| (?P<by>[^|]+) \| (?P<proof>[^|]+) \|$"
)
PROOF = re.compile(r"`(?P<file>tests/[\w/]+\.py)::(?P<test>\w+)`")
CLAIM_TEST = re.compile(r"^test_(?P<kind>[a-z]+)_(?P<number>\d+)_")
SECURITY_FOLDERS = ("tests/e2e", "tests/integration/gateway")


def rows():
    found = [ROW.match(line) for line in DOCUMENT.read_text().splitlines()]
    return [match for match in found if match]


def functions_in(path):
    tree = ast.parse(path.read_text())
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_every_table_row_is_read():
    lines = [x for x in DOCUMENT.read_text().splitlines() if re.match(r"^\| [A-Z]+-\d+ ", x)]
    assert len(lines) == len(rows()) > 20


def test_ids_are_unique():
    ids = [row["id"] for row in rows()]
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize("row", rows(), ids=lambda row: row["id"])
def test_every_claim_names_tests_that_exist(row):
    proofs = list(PROOF.finditer(row["proof"]))
    assert proofs, row["proof"]
    for proof in proofs:
        path = ROOT / proof["file"]
        assert path.is_file(), proof["file"]
        assert proof["test"] in functions_in(path), proof["test"]


def test_every_security_test_is_named():
    """A test that carries a claim's id stands in the table under that id."""
    named = {(row["id"], proof["test"]) for row in rows() for proof in PROOF.finditer(row["proof"])}
    missing = []
    for folder in SECURITY_FOLDERS:
        for path in sorted((ROOT / folder).glob("test_*.py")):
            for test in sorted(functions_in(path)):
                match = CLAIM_TEST.match(test)
                if match and (f"{match['kind'].upper()}-{match['number']}", test) not in named:
                    missing.append(f"{path.name}::{test}")
    assert missing == []
