"""TLS interception only with an authority of the sandbox's own."""

from __future__ import annotations

from collections.abc import Mapping

from pulumi_policy import ResourceValidationPolicy

from policy.resources import (
    GATEWAY_POLICY,
    MANDATORY,
    ReportViolation,
    ResourceValidationArgs,
    is_known,
)


def validate(args: ResourceValidationArgs, report: ReportViolation) -> None:
    """Report interception without a certificate to sign with."""
    if args.resource_type != GATEWAY_POLICY:
        return
    policy = args.props.get("policy")
    if isinstance(policy, Mapping) and policy.get("tls_interception") is False:
        return
    # Unknown in a preview: then a resource will give it.
    if is_known(args.props, "ca_certificate") and not args.props.get("ca_certificate"):
        report("ca_certificate is empty: give the sandbox a CertificateAuthority", args.urn)


interception_has_an_authority = ResourceValidationPolicy(
    name="interception-has-an-authority",
    description="Without its own authority the proxy would have to trust one from elsewhere.",
    validate=validate,
    enforcement_level=MANDATORY,
)
