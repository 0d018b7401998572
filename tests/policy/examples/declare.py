"""Resources as a program declares them: valid ones, to be changed in one place by an example."""

from __future__ import annotations

from typing import Any

from abox.render.domain import DomainSpec, render_stylesheet
from policy.resources import (
    CONTAINER,
    CONTAINER_POSTURE,
    DOMAIN,
    FIREWALL_TABLE,
    GATEWAY_POLICY,
    NETWORK,
)

Example = tuple[str, dict[str, Any]]
"""Type token and inputs of a resource."""

DIGEST = "sha256:" + "0123456789abcdef" * 4

HARDENED = render_stylesheet(DomainSpec(sandbox="dev", filter="abox-dev"))
"""Stylesheet of the project's own domain."""

UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
"""How the engine writes a text that another resource will tell."""

ABSENT: Any = object()
"""Takes a property away."""


def container(role: str | None = "agent", **changed: Any) -> Example:
    """A container that no rule has anything against."""
    props: dict[str, Any] = {
        "image": DIGEST,
        "user": "1000:1000",
        "labels": [{"label": "abox.generation", "value": UNKNOWN}],
        "networkMode": "bridge",
        "networksAdvanced": [{"name": UNKNOWN, "ipv4Address": "10.10.3.10"}],
        "volumes": [{"volumeName": UNKNOWN, "containerPath": "/workspace", "readOnly": False}],
        "capabilities": {"drops": ["ALL"]},
        "securityOpts": ["no-new-privileges:true"],
        "readOnly": True,
        "privileged": False,
        "memory": 512,
        "memorySwap": 512,
        "restart": "no",
    }
    if role is not None:
        props["labels"].append({"label": "abox.role", "value": role})
    return CONTAINER, _changed(props, changed)


def network(role: str | None = "internal", **changed: Any) -> Example:
    """An internal network."""
    props: dict[str, Any] = {"driver": "bridge", "internal": True, "ipv6": False}
    if role is not None:
        props["labels"] = [{"label": "abox.role", "value": role}]
    return NETWORK, _changed(props, changed)


def gateway_policy(**changed: Any) -> Example:
    """A strict policy, with keyword arguments for its document."""
    document: dict[str, Any] = {
        "mode": "active",
        "passive_acknowledged": False,
        "tls_interception": True,
        "allow_private_cidrs": [],
        "allow": [{"host": "allowed.test", "ports": [80, 443]}],
        "deny": [],
    }
    props = {"policy": _changed(document, changed), "ca_certificate": "-----BEGIN CERTIFICATE-----"}
    return GATEWAY_POLICY, props


def allowing(*hosts: str, **changed: Any) -> Example:
    """A strict policy that allows these hosts."""
    return gateway_policy(allow=[{"host": host, "ports": [443]} for host in hosts], **changed)


def posture(**expected: Any) -> Example:
    """What a container is compared with."""
    return CONTAINER_POSTURE, {"expected": expected}


def domain(xslt: str | None = HARDENED, **changed: Any) -> Example:
    """A hardened VM; `xslt` is its stylesheet."""
    props: dict[str, Any] = {
        "description": UNKNOWN,
        "disks": [{"volumeId": UNKNOWN}],
        "networkInterfaces": [{"bridge": "abx-dev", "mac": "52:54:00:12:34:56"}],
        "xml": {"xslt": xslt},
    }
    return DOMAIN, _changed(props, changed)


def sheet(content: str) -> str:
    """A stylesheet around its templates."""
    start = "<xsl:stylesheet version='1.0' xmlns:xsl='http://www.w3.org/1999/XSL/Transform'>"
    return f"{start}{content}</xsl:stylesheet>"


def table(rules: Any) -> Example:
    """A firewall table with these rules."""
    return FIREWALL_TABLE, {"table": "abox-dev", "rules": rules}


def without(example: Example, key: str) -> Example:
    """The same resource without one property."""
    kind, props = example
    return kind, {name: value for name, value in props.items() if name != key}


def _changed(props: dict[str, Any], changed: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in {**props, **changed}.items() if value is not ABSENT}
