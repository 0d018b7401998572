"""The certificate authority of one sandbox."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from provider.resource import UNKNOWN, Data, Failure, Field, Resource, is_unknown

MAX_VALID_DAYS = 3650
"""Longest validity of an authority in days."""

RENEW_BEFORE_DAYS = 30
"""An authority with fewer days left is replaced."""

_CLOCK_SKEW = dt.timedelta(hours=1)
"""How far behind a client's clock may be."""

_NAME_MAX = 64
"""Longest common name in characters (X.520 upper bound)."""


@dataclass(frozen=True)
class Authority:
    """An authority as PEM texts."""

    certificate: str
    key: str


def make_authority(sandbox: str, valid_days: int, now: dt.datetime) -> Authority:
    """A self-signed ECDSA P-256 authority that may sign leaf certificates only."""
    key = ec.generate_private_key(ec.SECP256R1())
    common_name = f"abox sandbox {sandbox}"[:_NAME_MAX]
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + dt.timedelta(days=valid_days))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    certificate = builder.sign(key, hashes.SHA256())
    return Authority(
        certificate.public_bytes(serialization.Encoding.PEM).decode(),
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ).decode(),
    )


def _key_usage() -> x509.KeyUsage:
    return x509.KeyUsage(
        key_cert_sign=True,
        crl_sign=True,
        digital_signature=False,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def fingerprint(certificate: str) -> str:
    """SHA-256 of a PEM certificate in lower-case hex."""
    loaded = x509.load_pem_x509_certificate(certificate.encode())
    return loaded.fingerprint(hashes.SHA256()).hex()


def not_after(certificate: str) -> str:
    """End of validity in ISO 8601, UTC."""
    loaded = x509.load_pem_x509_certificate(certificate.encode())
    return loaded.not_valid_after_utc.isoformat()


def faults(authority: Authority, now: dt.datetime) -> list[str]:
    """Why the authority has to be replaced; empty when all is well."""
    try:
        certificate = x509.load_pem_x509_certificate(authority.certificate.encode())
        key = serialization.load_pem_private_key(authority.key.encode(), password=None)
    except (ValueError, TypeError):
        return ["the stored certificate or key can't be read"]
    found = []
    if certificate.public_key() != key.public_key():
        found.append("the stored key doesn't belong to the certificate")
    left = certificate.not_valid_after_utc - now
    if left < dt.timedelta(days=RENEW_BEFORE_DAYS):
        found.append(f"the certificate ends at {certificate.not_valid_after_utc.isoformat()}")
    return found


class CertificateAuthorityResource(Resource):
    """Adapter: the authority lives in the stack's state alone, its key as a secret."""

    type_name = "CertificateAuthority"
    fields = (
        Field(name="sandbox", kind=str, replaces=True),
        Field(name="valid_days", kind=int, replaces=True),
    )
    secret_outputs = frozenset({"key"})
    drift_fields: ClassVar = ("findings",)

    def __init__(self, now: Callable[[], dt.datetime]) -> None:
        self._now = now

    def problems(self, inputs: Data, old: Data) -> Iterator[Failure]:  # noqa: ARG002
        """A validity that would be replaced at once, or is too long."""
        days = inputs["valid_days"]
        if not is_unknown(days) and not RENEW_BEFORE_DAYS < days <= MAX_VALID_DAYS:
            yield Failure(
                "valid_days",
                f"valid_days: {days} is refused: more than {RENEW_BEFORE_DAYS} and at most "
                f"{MAX_VALID_DAYS} days are possible",
            )

    def drift(self, state: Data, inputs: Data) -> dict[str, bool]:  # noqa: ARG002
        """A key that doesn't match, or an end that is near: only a new authority helps."""
        return {"findings": True} if state.get("findings") else {}

    def planned(self, inputs: Data, old: Data | None) -> Data:  # noqa: ARG002
        """Only known when made."""
        names = ("certificate", "key", "fingerprint", "not_after")
        return {**dict.fromkeys(names, UNKNOWN), "findings": []}

    def create(self, inputs: Data) -> tuple[str, Data]:
        """Make an authority; its fingerprint is its id."""
        made = make_authority(inputs["sandbox"], inputs["valid_days"], self._now())
        outputs = self._outputs(made)
        return outputs["fingerprint"], outputs

    def read(self, resource_id: str, state: Data) -> Data:  # noqa: ARG002
        """Check what is stored."""
        stored = Authority(state["certificate"], state["key"])
        kept = {name: state[name] for name in ("certificate", "key", "fingerprint", "not_after")}
        return {**kept, "findings": faults(stored, self._now())}

    def update(self, resource_id: str, old: Data, new: Data) -> Data:  # noqa: ARG002
        """Never called: every input and every drift replaces."""
        return {**old, **new}

    def delete(self, resource_id: str, state: Data) -> None:
        """Nothing: the state forgets it, and the pod's copy goes with the pod's volumes."""

    def _outputs(self, made: Authority) -> Data:
        return {
            "certificate": made.certificate,
            "key": made.key,
            "fingerprint": fingerprint(made.certificate),
            "not_after": not_after(made.certificate),
            "findings": faults(made, self._now()),
        }
