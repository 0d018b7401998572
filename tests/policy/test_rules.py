"""Every rule of the pack against its examples, and the examples against the rules."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pulumi_policy import (
    EnforcementLevel,
    PolicyResourceOptions,
    ResourceValidationArgs,
    ResourceValidationPolicy,
)
from pulumi_policy.policy import PolicyCustomTimeouts
from pulumi_policy.proxy import UnknownValueError, unknown_checking_proxy

from policy.rules import collect_rules, rule_modules
from tests.policy.examples.declare import (
    UNKNOWN,
    Example,
    container,
    domain,
    gateway_policy,
    network,
    posture,
    table,
)

MODULES = rule_modules()
URN = "urn:pulumi:test::abox::x::name"


def rule_of(module: str) -> ResourceValidationPolicy:
    found = vars(importlib.import_module(f"policy.{module}")).values()
    (rule,) = [value for value in found if isinstance(value, ResourceValidationPolicy)]
    return rule


def examples_of(module: str) -> Any:
    return importlib.import_module(f"tests.policy.examples.{module}")


def violations(
    rule: ResourceValidationPolicy, example: Example, config: Mapping[str, Any] | None = None
) -> list[str]:
    """What the rule reports on a resource, handed over as the engine does."""
    kind, props = example
    timeouts = PolicyCustomTimeouts(0, 0, 0)
    options = PolicyResourceOptions(False, [], None, [], timeouts, [])
    reported: list[str] = []
    args = ResourceValidationArgs(
        kind, unknown_checking_proxy(props), URN, "name", options, None, config
    )

    def report(message: str, urn: str | None = None) -> None:
        reported.append(f"{message} {urn}")

    rule.validate(args, report)
    return reported


def rows(table_name: str) -> list[Any]:
    return [
        pytest.param(module, example, id=f"{module}: {name}")
        for module in MODULES
        for name, example in getattr(examples_of(module), table_name).items()
    ]


@pytest.mark.parametrize(("module", "example"), rows("PASSING"))
def test_a_rule_has_nothing_against(module: str, example: Example) -> None:
    assert violations(rule_of(module), example) == []


@pytest.mark.parametrize(("module", "example"), rows("FAILING"))
def test_a_rule_reports(module: str, example: Example) -> None:
    reported = violations(rule_of(module), example)
    assert reported
    assert all(message.endswith(URN) and ":" in message for message in reported)


CONFIGURED = [module for module in MODULES if hasattr(examples_of(module), "CONFIGURED")]


@pytest.mark.parametrize("module", CONFIGURED)
def test_a_rule_follows_its_configuration(module: str) -> None:
    examples = examples_of(module).CONFIGURED
    rule = rule_of(module)
    config, example = examples["passing"]
    assert violations(rule, example, config) == []
    config, example = examples["failing"]
    assert violations(rule, example, config)


@pytest.mark.parametrize("module", MODULES)
def test_every_rule_with_a_parameter_has_examples_for_it(module: str) -> None:
    assert (rule_of(module).config_schema is not None) is (module in CONFIGURED)


@pytest.mark.parametrize("module", MODULES)
def test_every_rule_has_passing_and_failing_examples(module: str) -> None:
    examples = examples_of(module)
    assert examples.PASSING
    assert len(examples.FAILING) >= 2
    kinds = {kind for kind, _ in [*examples.PASSING.values(), *examples.FAILING.values()]}
    assert len(kinds) == 1


ADVISORY = {"vm_template", "wildcard_secret"}
"""Rules that only warn; every other one stops a preview."""


@pytest.mark.parametrize("module", MODULES)
def test_every_rule_is_mandatory_and_says_why_it_exists(module: str) -> None:
    rule = rule_of(module)
    levels = {True: EnforcementLevel.ADVISORY, False: EnforcementLevel.MANDATORY}
    assert rule.enforcement_level is levels[module in ADVISORY]
    assert rule.description.endswith(".")
    assert len(rule.description) > 30


def test_no_examples_stand_without_a_rule() -> None:
    files = {path.stem for path in (Path(__file__).parent / "examples").glob("*.py")}
    assert files - {"__init__", "declare"} == set(MODULES)


def test_the_pack_holds_every_rule_under_a_name_of_its_own() -> None:
    names = [rule.name for rule in collect_rules()]
    assert len(names) == len(set(names)) == len(MODULES)
    assert {"image-pinned-by-digest", "no-published-ports"} <= set(names)


VALID = [
    container(),
    container(role="pause", networksAdvanced=[{"name": UNKNOWN}, {"name": UNKNOWN}]),
    container(role="dns", networkMode=f"container:{'0' * 64}", restart="unless-stopped"),
    network(),
    network(role="egress", internal=False),
    gateway_policy(),
    posture(pids_limit=256),
    domain(),
    table(examples_of("default_deny").PASSING["the project's"][1]["rules"]),
    ("pulumi:pulumi:Stack", {}),
    ("command:local:Command", {"create": "true"}),
]


@pytest.mark.parametrize("example", VALID, ids=lambda e: e[0])
@pytest.mark.parametrize("module", MODULES)
def test_no_rule_fires_on_a_harmless_program(module: str, example: Example) -> None:
    assert violations(rule_of(module), example) == []


@pytest.mark.parametrize("module", MODULES)
def test_no_rule_fires_on_a_resource_of_another_type(module: str) -> None:
    failing = next(iter(examples_of(module).FAILING.values()))
    assert violations(rule_of(module), ("other:index:Thing", failing[1])) == []


UNKNOWNS = [
    pytest.param(module, key, build, id=f"{module}: {key}")
    for module in MODULES
    for key, build in getattr(examples_of(module), "UNKNOWN_IN_PREVIEW", {}).items()
]


@pytest.mark.parametrize(("module", "key", "build"), UNKNOWNS)
def test_a_value_unknown_in_preview_is_not_judged_but_told(
    module: str, key: str, build: Any
) -> None:
    with pytest.raises(UnknownValueError) as caught:
        violations(rule_of(module), build(**{key: UNKNOWN}))
    assert key in caught.value.message
