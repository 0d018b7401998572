"""Passive mode only where the stack says that it is wanted."""

from __future__ import annotations

from collections.abc import Mapping

from pulumi_policy import ResourceValidationPolicy

from abox.allowlist import Mode
from policy.resources import GATEWAY_POLICY, MANDATORY, ReportViolation, ResourceValidationArgs


def validate(args: ResourceValidationArgs, report: ReportViolation) -> None:
    """Report a policy that lets every name through without saying so twice."""
    if args.resource_type != GATEWAY_POLICY:
        return
    policy = args.props.get("policy")
    mode = policy.get("mode") if isinstance(policy, Mapping) else None
    acknowledged = isinstance(policy, Mapping) and policy.get("passive_acknowledged") is True
    if mode != Mode.ACTIVE and not (mode == Mode.PASSIVE and acknowledged):
        report(f"mode is {mode!r}: write active, or passive_acknowledged: true beside it", args.urn)


passive_mode_acknowledged = ResourceValidationPolicy(
    name="passive-mode-acknowledged",
    description="Passive mode lets every name through: for discovery, not for untrusted work.",
    validate=validate,
    enforcement_level=MANDATORY,
)
