"""What an apply document asks for, judged in full before anything is touched."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from ipaddress import IPv4Address
from typing import Any

from cryptography import x509

from abox.allowlist import Policy
from abox.errors import AboxError
from abox.name_table import NameTable
from abox.render.envoy_origins import origin_clusters, render_clusters, value_name
from abox.render.envoy_routes import Origins, Side, render_routes
from abox.render.envoy_types import Json
from abox.render.paths import (
    CLUSTERS_FILE,
    NAMES_FILE,
    ROUTES_FILES,
    RPZ_FILE,
    authorities_file,
    unbound_file,
)
from abox.render.unbound import UnboundRole, name_table, render_dynamic, render_zone
from abox.secrets import Secrets, combined_hash, digests, parse_secrets
from gateway.authority import Authority

KEYS = frozenset({"sandbox", "policy", "network", "ca", "trusted_cas", "secrets"})
NETWORK_KEYS = frozenset({"gateway", "proxy_port", "upstream_dns"})


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A policy with everything that belongs to it."""

    policy: Policy | None
    """None before the first policy."""
    upstream_dns: tuple[str, ...] = ()
    certificate: str = ""
    key: str = ""
    trusted_cas: tuple[str, ...] = ()
    secrets: Secrets = field(default_factory=dict)
    """Values that the policy injects; none in a plan that was read from a record."""
    digests: Mapping[str, str] = field(default_factory=dict)
    """Keyed digest of each of these values."""

    @property
    def policy_hash(self) -> str:
        """Hash of the policy with the values that it injects; "none" before the first."""
        return combined_hash(self.policy.hash, self.digests) if self.policy else "none"

    @cached_property
    def routes(self) -> Mapping[Side, str]:
        """What each of Envoy's route files holds; seconds of work for a list of 100,000 names."""
        return render_routes(self.policy, self.origins)

    @cached_property
    def zone(self) -> str:
        """The resolvers' policy zone."""
        return render_zone(self.policy)

    def to_record(self) -> dict[str, Any]:
        """What control remembers of the plan: all but keys and values."""
        return {
            "digests": dict(self.digests),
            "policy": self.policy.to_document() if self.policy else None,
            "upstream_dns": list(self.upstream_dns),
            "trusted_cas": list(self.trusted_cas),
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Plan:
        """The plan that ``to_record`` wrote, without certificate, key and values."""
        policy = record["policy"]
        return cls(
            policy=Policy.from_document(policy) if policy is not None else None,
            upstream_dns=tuple(record["upstream_dns"]),
            trusted_cas=tuple(record["trusted_cas"]),
            digests=dict(record["digests"]),
        )

    @cached_property
    def origins(self) -> Origins:
        """What the ways to origins depend on beside the policy."""
        text = "".join(self.trusted_cas)
        digest = hashlib.sha256(text.encode()).hexdigest()[:16] if text else ""
        return Origins(digests=self.digests, authorities=digest)

    def authorities(self, public_roots: str) -> dict[str, str]:
        """The file that origins are verified against, by path; none for the public roots alone.

        Args:
            public_roots: the image's public roots, PEM.
        """
        if not self.trusted_cas:
            return {}
        text = "".join(f"{pem.strip()}\n" for pem in (public_roots, *self.trusted_cas))
        return {authorities_file(self.origins.authorities): text}

    def files(self) -> dict[str, str]:
        """Content of every other file of the policy volume, by path, in the order of writing."""
        cidrs = self.policy.allow_private_cidrs if self.policy else ()
        table = name_table(self.policy) if self.policy else NameTable()
        resolvers = {
            unbound_file(role.value): render_dynamic(role, cidrs, self.upstream_dns)
            for role in UnboundRole
        }
        return {
            NAMES_FILE: table.to_json(),
            RPZ_FILE: self.zone,
            **resolvers,
            CLUSTERS_FILE: render_clusters(self.clusters()),
            **{ROUTES_FILES[side.value]: text for side, text in self.routes.items()},
        }

    def clusters(self) -> list[Json]:
        """Clusters of origins beside the proxy's own."""
        return origin_clusters(self.policy, self.origins)

    def values(self) -> dict[str, str]:
        """The values by the names that the proxy asks for."""
        return {
            value_name(name, self.digests[name]): value.reveal()
            for name, value in self.secrets.items()
        }


def parse_plan(text: str) -> Plan:
    """The plan of an apply document.

    Raises: AboxError if anything in it is refused.
    """
    try:
        document = json.loads(text)
    except ValueError as error:
        raise _refused("the document is not JSON", str(error)) from error
    _check_keys("the document", document, KEYS)
    network = document["network"]
    _check_keys("network", network, NETWORK_KEYS)
    policy = Policy.from_document(document.pop("policy"))  # a long one takes much memory
    authority = document["ca"]
    _check_keys("ca", authority, frozenset({"certificate", "key"}))
    certificate, key = str(authority["certificate"]), str(authority["key"])
    try:
        Authority.from_pem(certificate.encode(), key.encode())
    except ValueError as error:
        raise _refused("the certificate authority is refused", str(error)) from error
    secrets = parse_secrets(document["secrets"], "secrets")
    if set(secrets) != set(policy.secret_names):
        raise _refused(
            "secrets are refused",
            f"the policy injects {list(policy.secret_names)}, there are {sorted(secrets)}",
        )
    return Plan(
        policy=policy,
        secrets=secrets,
        digests=digests(secrets, key),
        upstream_dns=tuple(_read_resolver(value) for value in network["upstream_dns"]),
        certificate=certificate,
        key=key,
        trusted_cas=tuple(
            pem for text in document["trusted_cas"] for pem in _read_certificates(text)
        ),
    )


def _check_keys(what: str, value: object, keys: frozenset[str]) -> None:
    if not isinstance(value, dict) or set(value) != keys:
        found = sorted(value) if isinstance(value, dict) else type(value).__name__
        raise _refused(f"{what} is refused", f"it must hold {sorted(keys)} and holds {found}")


def _read_resolver(value: object) -> str:
    try:
        return str(IPv4Address(str(value)))
    except ValueError as error:
        raise _refused(f"upstream_dns: {value!r} is refused", "it is no IPv4 address") from error


def _read_certificates(text: object) -> list[str]:
    try:
        found = x509.load_pem_x509_certificates(str(text).encode())
    except ValueError as error:
        raise _refused("trusted_cas: a member is refused", f"no certificate: {error}") from error
    from cryptography.hazmat.primitives.serialization import Encoding

    return [certificate.public_bytes(Encoding.PEM).decode() for certificate in found]


def _refused(what: str, why: str) -> AboxError:
    return AboxError(what=what, why=why, remedy="correct it in the stack's configuration")
