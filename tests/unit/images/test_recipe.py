"""The recipe's hash: any input changes it, nothing else does."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from images.build import RECIPES
from images.recipe import Overlay, Recipe


def plain_recipe(folder: Path) -> Recipe:
    """A recipe whose inputs lie in `folder`."""
    (folder / "module.py").write_text("one")
    (folder / "lock.txt").write_text("two")
    (folder / "copied.py").write_text("three")
    return Recipe(
        name="x",
        variant="essential",
        packages=("b", "a"),
        inputs=(folder / "module.py", folder / "lock.txt"),
        furnish=lambda _root: None,
        config={"Env": ["A=b"]},
        overlay=Overlay(
            files=lambda: {"/opt/copied.py": folder / "copied.py"},
            write=lambda _root, _files: None,
        ),
    )


def test_same_recipe_has_the_same_hash(tmp_path: Path) -> None:
    """Two looks at unchanged inputs agree, whatever the order of the packages."""
    recipe = plain_recipe(tmp_path)
    reordered = dataclasses.replace(recipe, packages=("a", "b"))
    assert recipe.hash() == plain_recipe(tmp_path).hash() == reordered.hash()


@pytest.mark.parametrize(
    "changes",
    [
        {"name": "y"},
        {"variant": "minbase"},
        {"packages": ("a", "b", "c")},
        {"config": {"Env": ["A=c"]}},
        {"overlay": None},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_each_field_changes_the_hash(tmp_path: Path, changes: dict[str, Any]) -> None:
    """A changed field asks for a new build."""
    recipe = plain_recipe(tmp_path)
    assert dataclasses.replace(recipe, **changes).hash() != recipe.hash()


@pytest.mark.parametrize("name", ["module.py", "lock.txt", "copied.py"])
def test_each_file_changes_the_hash(tmp_path: Path, name: str) -> None:
    """A changed module, requirement lock or copied source asks for a new build."""
    recipe = plain_recipe(tmp_path)
    before = recipe.hash()
    (tmp_path / name).write_text("changed")
    assert recipe.hash() != before


def test_parent_changes_the_hash(tmp_path: Path) -> None:
    """A changed parent asks for a new build of what stands on it."""
    parent = plain_recipe(tmp_path)
    child = dataclasses.replace(parent, name="child", parent=parent)
    other = dataclasses.replace(child, parent=dataclasses.replace(parent, packages=("z",)))
    assert child.hash() != other.hash()


def test_copied_sources_leave_the_debian_layer_alone(tmp_path: Path) -> None:
    """Editing the project's own modules doesn't install Debian packages again."""
    recipe = plain_recipe(tmp_path)
    before = recipe.packages_hash()
    (tmp_path / "copied.py").write_text("changed")
    assert recipe.packages_hash() == before


def test_parents_come_first() -> None:
    """The builder meets every parent before its children."""
    names = [recipe.name for recipe in RECIPES]
    for recipe in RECIPES:
        if recipe.parent:
            assert names.index(recipe.parent.name) < names.index(recipe.name)


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.name)
def test_children_hold_their_parents_packages(recipe: Recipe) -> None:
    """An image on top of another one asks for the same packages and more."""
    if recipe.parent:
        assert set(recipe.parent.packages) <= set(recipe.packages)
    assert all(path.is_file() for path in recipe.inputs)


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.name)
def test_no_image_runs_as_root_by_default(recipe: Recipe) -> None:
    """A container that says nothing about its user is not root."""
    assert int(recipe.config["User"].split(":")[0]) != 0
