"""The direction of imports: the library knows nothing of the folders that use it."""

import ast
import sys
from pathlib import Path

import pytest

LIBRARY = Path(__file__).parents[3] / "abox"
MODULES = sorted(LIBRARY.rglob("*.py"))
ALLOWED = {
    "abox",
    "cryptography",
    "idna",
    "publicsuffixlist",
    "pycdlib",
    "pydantic",
    "pydantic_core",
    "yaml",
}
"""Besides the standard library: parsers and data, nothing that reaches the host."""
BARRED = {"asyncio", "http", "multiprocessing", "os", "shutil", "socket", "subprocess", "urllib"}
"""Of the standard library: what would reach the host."""


def imported(module: Path) -> set[str]:
    """First parts of the names of everything that a module imports."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add((node.module or "").split(".")[0])
    return found


@pytest.mark.parametrize("module", MODULES, ids=lambda p: str(p.relative_to(LIBRARY)))
def test_a_module_imports_nothing_that_reaches_the_host(module: Path) -> None:
    foreign = imported(module) - sys.stdlib_module_names - ALLOWED
    assert foreign == set()
    assert not imported(module) & BARRED


def test_the_library_was_found() -> None:
    assert len(MODULES) > 10
