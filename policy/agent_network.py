"""The agent is on exactly one network."""

from __future__ import annotations

from pulumi_policy import ResourceValidationPolicy

from abox.naming import Role
from policy.resources import (
    CONTAINER,
    MANDATORY,
    ReportViolation,
    ResourceValidationArgs,
    is_known,
    items,
    role_of,
)

OWN_MODES = (None, "", "bridge", "default")
"""Network modes that leave the container to the networks it names."""

ENGINE_NETWORKS = ("bridge", "default", "host", "none")
"""Networks that the engine makes by itself; none of them is the sandbox's."""


def validate(args: ResourceValidationArgs, report: ReportViolation) -> None:
    """Report an agent that is on no network, on several, or in another container's namespace."""
    if args.resource_type != CONTAINER or role_of(args.props) != Role.AGENT:
        return
    mode = args.props.get("networkMode")
    if mode not in OWN_MODES:
        report(f"networkMode is {mode!r}: leave it out", args.urn)
    networks = items(args.props, "networksAdvanced")
    if len(networks) != 1:
        report(f"the agent names {len(networks)} networks: name one, the host-only one", args.urn)
    for network in networks:
        # Unknown in a preview: then a resource will give it, and it is none of the engine's own.
        if is_known(network, "name") and network.get("name") in ENGINE_NETWORKS:
            report(f"the agent is on {network['name']!r}: name the host-only network", args.urn)


one_network_for_the_agent = ResourceValidationPolicy(
    name="one-network-for-the-agent",
    description="A second network is a way around every filter of the first.",
    validate=validate,
    enforcement_level=MANDATORY,
)
