"""The certificate that an agent was shown, beside what a case wants of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.x509.oid import ExtendedKeyUsageOID

USAGES = {
    "serverAuth": ExtendedKeyUsageOID.SERVER_AUTH,
    "clientAuth": ExtendedKeyUsageOID.CLIENT_AUTH,
}


def _extension(leaf: x509.Certificate, kind: type[Any]) -> Any:
    try:
        return leaf.extensions.get_extension_for_class(kind).value
    except x509.ExtensionNotFound:
        return None


def _names(leaf: x509.Certificate) -> list[str]:
    names = _extension(leaf, x509.SubjectAlternativeName) or ()
    return sorted(str(name.value) for name in names)


def _usages(leaf: x509.Certificate) -> list[str]:
    usages = _extension(leaf, x509.ExtendedKeyUsage) or ()
    named = {oid: name for name, oid in USAGES.items()}
    return sorted(named.get(usage, usage.dotted_string) for usage in usages)


def _days(leaf: x509.Certificate) -> float:
    return (leaf.not_valid_after_utc - leaf.not_valid_before_utc).total_seconds() / 86400


def _signed_by(leaf: x509.Certificate, authority: str) -> bool:
    try:
        leaf.verify_directly_issued_by(x509.load_pem_x509_certificate(authority.encode()))
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def leaf_faults(
    chain: Sequence[str], wanted: Mapping[str, Any], sandbox_authority: str, world_authority: str
) -> Iterable[str]:
    """What is wrong with a certificate.

    Args:
        chain: DER in hex, the leaf first.
        wanted: the case's keys.
        sandbox_authority: PEM of the sandbox's own authority.
        world_authority: PEM of the authority of the test world's origins.
    """
    if not chain:
        yield "no certificate was shown"
        return
    leaf = x509.load_der_x509_certificate(bytes.fromhex(chain[0]))
    issuers = {
        "origin": world_authority,
        "gateway": sandbox_authority,
        "sandbox": sandbox_authority,
    }
    checks: Mapping[str, Callable[[Any], bool]] = {
        "san": lambda v: _names(leaf) == sorted(v),
        "eku": lambda v: _usages(leaf) == sorted(v),
        "max_validity_days": lambda v: _days(leaf) <= v,
        "has_authority_key_id": lambda v: bool(_extension(leaf, x509.AuthorityKeyIdentifier)) is v,
        "chain_min": lambda v: len(chain) >= v,
        "issuer": lambda v: _signed_by(leaf, issuers[v]),
    }
    for key, value in wanted.items():
        if key not in checks:
            yield f"{key}: nobody can compare this"
        elif not checks[key](value):
            yield (
                f"{key} is not {value}: {_names(leaf)}, {_usages(leaf)}, {_days(leaf):.0f} days, "
                f"chain of {len(chain)}, issuer {leaf.issuer.rfc4514_string()}"
            )
