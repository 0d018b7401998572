"""Containers drop all capabilities and add none beyond a short list."""

from __future__ import annotations

from collections.abc import Mapping

from pulumi_policy import ResourceValidationPolicy

from policy.resources import (
    CONTAINER,
    MANDATORY,
    ReportViolation,
    ResourceValidationArgs,
    items,
    list_of_texts,
)

PREFIX = "CAP_"


def validate(args: ResourceValidationArgs, report: ReportViolation) -> None:
    """Report a container that keeps or adds capabilities."""
    if args.resource_type != CONTAINER:
        return
    capabilities = args.props.get("capabilities")
    if not isinstance(capabilities, Mapping):
        capabilities = {}
    if "ALL" not in {_name(drop) for drop in items(capabilities, "drops")}:
        report('capabilities are kept: write capabilities {drops: ["ALL"]}', args.urn)
    allowed = {_name(name) for name in args.get_config().get("allowed", ())}
    for added in items(capabilities, "adds"):
        if _name(added) not in allowed:
            report(f"capability {added} is added: remove it", args.urn)


def _name(capability: object) -> str:
    return str(capability).upper().removeprefix(PREFIX)


no_added_capabilities = ResourceValidationPolicy(
    name="no-added-capabilities",
    description="What a process needs root's rights for can also undo the sandbox.",
    validate=validate,
    enforcement_level=MANDATORY,
    config_schema=list_of_texts("allowed", "Capabilities that a container may add."),
)
