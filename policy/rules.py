"""All rules of the pack, found by walking the folder, so that none can be forgotten."""

from __future__ import annotations

import importlib
import pkgutil
from pathlib import Path

from pulumi_policy import ResourceValidationPolicy


def rule_modules() -> list[str]:
    """Names of the modules that hold a rule, sorted."""
    names = sorted(module.name for module in pkgutil.iter_modules([str(Path(__file__).parent)]))
    return [name for name in names if name != "__main__" and _rules_of(name)]


def collect_rules() -> list[ResourceValidationPolicy]:
    """Every rule, in the order of its module's name."""
    return [rule for name in rule_modules() for rule in _rules_of(name)]


def _rules_of(name: str) -> list[ResourceValidationPolicy]:
    module = importlib.import_module(f"policy.{name}")
    return [v for v in vars(module).values() if isinstance(v, ResourceValidationPolicy)]
