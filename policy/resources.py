"""How rules read resources: types, roles, and plain data out of what the engine hands over."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from xml.etree import ElementTree

from pulumi_policy import (
    EnforcementLevel,
    PolicyConfigSchema,
    ReportViolation,
    ResourceValidationArgs,
)
from pulumi_policy.proxy import UnknownValueError

from abox.naming import LABEL_ROLE

CONTAINER = "docker:index/container:Container"
NETWORK = "docker:index/network:Network"
CONTAINER_POSTURE = "abox:index:ContainerPosture"
DOMAIN = "libvirt:index/domain:Domain"
DOMAIN_POSTURE = "abox:index:DomainPosture"
FIREWALL_TABLE = "abox:index:FirewallTable"
GATEWAY_POLICY = "abox:index:GatewayPolicy"

ROLE_EGRESS = "egress"
"""Role of the one network that has a way out; only the gateway pod is on it."""

MANDATORY = EnforcementLevel.MANDATORY
ADVISORY = EnforcementLevel.ADVISORY

__all__ = [
    "ADVISORY",
    "CONTAINER",
    "CONTAINER_POSTURE",
    "DOMAIN",
    "DOMAIN_POSTURE",
    "FIREWALL_TABLE",
    "GATEWAY_POLICY",
    "MANDATORY",
    "NETWORK",
    "ROLE_EGRESS",
    "ReportViolation",
    "ResourceValidationArgs",
    "allowed_hosts",
    "domain_sheet",
    "is_known",
    "items",
    "list_of_texts",
    "role_of",
]


def list_of_texts(key: str, description: str) -> PolicyConfigSchema:
    """What a rule can be told: a list of texts under one key, empty if nobody tells it."""
    return PolicyConfigSchema(
        properties={
            key: {
                "type": "array",
                "items": {"type": "string"},
                "default": [],
                "description": description,
            }
        }
    )


def items(props: Mapping[str, Any], key: str) -> Sequence[Any]:
    """Members of a list property; none if it is missing or null.

    What is no list is handed back as its only member, so that a rule sees it instead of nothing.
    """
    value = props.get(key)
    if value is None:
        return ()
    return value if isinstance(value, Sequence) and not isinstance(value, str) else (value,)


def is_known(props: Mapping[str, Any], key: str) -> bool:
    """Whether a property can be read; in a preview what another resource will tell can't."""
    try:
        props.get(key)
    except UnknownValueError:
        return False
    return True


def role_of(props: Mapping[str, Any]) -> str | None:
    """What a container or network is in its sandbox, by its label; None without one."""
    for label in items(props, "labels"):
        if label.get("label") == LABEL_ROLE:
            value = label.get("value")
            return value if isinstance(value, str) else None
    return None


def domain_sheet(props: Mapping[str, Any]) -> ElementTree.Element | None:
    """The stylesheet that makes a VM's domain of the plugin's own; None if there is none.

    Raises: ValueError if it is no XML.
    """
    xml = props.get("xml")
    text = xml.get("xslt") if isinstance(xml, Mapping) else None
    if not text:
        return None
    try:
        # The program's own: the parser meets no hostile document.
        return ElementTree.fromstring(str(text))  # noqa: S314
    except ElementTree.ParseError as error:
        raise ValueError(f"xml.xslt is no XML: {error}") from error


def allowed_hosts(policy: Mapping[str, Any]) -> Iterator[str]:
    """Hosts of the allowlist in a policy document, judged or not, as they stand."""
    for entry in items(policy, "allow"):
        yield str(entry.get("host")) if isinstance(entry, Mapping) else str(entry)
