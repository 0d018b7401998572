"""What holds for every component, found by walking the package so that a new one can't forget."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import pkgutil

import pulumi
import pytest

import components

MODULES = sorted(
    importlib.import_module(f"components.{found.name}").__name__
    for found in pkgutil.iter_modules(components.__path__)
)
COMPONENTS = [
    cls
    for module in MODULES
    for _, cls in inspect.getmembers(importlib.import_module(module), inspect.isclass)
    if cls.__module__ == module and issubclass(cls, pulumi.ComponentResource)
]


def type_token(cls: type) -> str:
    """The token that a component hands to its base class, read from its source."""
    for node in ast.walk(ast.parse(inspect.getsource(cls).strip())):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        if node.func.attr == "__init__" and isinstance(node.args[0], ast.Constant):
            return str(node.args[0].value)
    raise AssertionError(f"{cls.__name__} hands no literal type token to its base class")


def test_every_component_is_found():
    names = {cls.__name__ for cls in COMPONENTS}
    assert names >= {"Sandbox", "Network", "Firewall", "Gateway", "Proxy", "Agent"}


def test_type_tokens_are_unique_and_stable():
    tokens = {cls.__name__: type_token(cls) for cls in COMPONENTS}
    assert len(set(tokens.values())) == len(tokens)
    # A changed token replaces every resource below it: this list is edited on purpose only.
    assert tokens == {
        "Agent": "abox:agent:Agent",
        "Firewall": "abox:firewall:Firewall",
        "Gateway": "abox:gateway:Gateway",
        "HardenedContainer": "abox:container:HardenedContainer",
        "Network": "abox:network:Network",
        "Proxy": "abox:proxy:Proxy",
        "Readiness": "abox:readiness:Readiness",
        "Sandbox": "abox:sandbox:Sandbox",
        "Vm": "abox:vm:Vm",
    }


@pytest.mark.parametrize("cls", COMPONENTS, ids=lambda cls: cls.__name__)
def test_opts_is_the_last_parameter_and_optional(cls):
    last = list(inspect.signature(cls.__init__).parameters.values())[-1]
    assert last.name == "opts"
    assert last.default is None


@pytest.mark.parametrize("cls", COMPONENTS, ids=lambda cls: cls.__name__)
def test_a_component_says_what_stands_on_the_host(cls):
    assert inspect.getdoc(cls)
    assert inspect.getdoc(inspect.getmodule(cls))


@pytest.mark.parametrize("module", MODULES)
def test_args_are_frozen_and_keyword_only(module):
    for name, cls in inspect.getmembers(importlib.import_module(module), inspect.isclass):
        if name.endswith("Args") and cls.__module__ == module:
            assert dataclasses.is_dataclass(cls), name
            assert cls.__dataclass_params__.frozen, name  # type: ignore[attr-defined]
            assert all(field.kw_only for field in dataclasses.fields(cls)), name
