"""The sandbox's certificate authority: leaf certificates for the names that are intercepted."""

from __future__ import annotations

import datetime
import ipaddress
from dataclasses import dataclass, field

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from gateway.messages import Certificate

LEAF_DAYS = 30
"""Validity of a leaf certificate in days; strict clients refuse more than 398."""
BACKDATE = datetime.timedelta(days=1)
"""A client's clock may be late."""
RENEW_BEFORE = datetime.timedelta(days=10)
"""A leaf with less than this left is made again."""
CACHED_LEAVES = 4096
"""Leaf certificates kept; the one that was made first goes first."""


@dataclass(frozen=True, kw_only=True)
class Leaf:
    """A leaf certificate and when it has to be made again."""

    certificate: Certificate
    renew_at: datetime.datetime
    version: str


@dataclass
class Authority:
    """Signs leaf certificates, and keeps them while they are good."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey
    _leaves: dict[str, Leaf] = field(default_factory=dict)

    @classmethod
    def from_pem(cls, certificate: bytes, key: bytes) -> Authority:
        """The authority of a certificate and its key.

        Raises: ValueError if they can't be read, don't belong together, or can't sign.
        """
        cert = x509.load_pem_x509_certificate(certificate)
        private = serialization.load_pem_private_key(key, password=None)
        if not isinstance(private, ec.EllipticCurvePrivateKey):
            raise ValueError("the authority's key is not an elliptic-curve key")
        if _spki(private.public_key()) != _spki(cert.public_key()):
            raise ValueError("the authority's key does not belong to its certificate")
        basic = cert.extensions.get_extension_for_class(x509.BasicConstraints).value
        if not basic.ca:
            raise ValueError("the certificate may not sign others")
        return cls(cert, private)

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the certificate, in hex."""
        return self.certificate.fingerprint(hashes.SHA256()).hex()

    def leaf(self, name: str) -> Leaf:
        """A leaf certificate for a host name or an address, from the cache if it is good."""
        found = self._leaves.get(name)
        if found and found.renew_at > _now():
            return found
        while len(self._leaves) >= CACHED_LEAVES:
            del self._leaves[next(iter(self._leaves))]
        made = self._issue(name)
        self._leaves[name] = made
        return made

    def _issue(self, name: str) -> Leaf:
        key = ec.generate_private_key(ec.SECP256R1())
        now = _now()
        lifetime = datetime.timedelta(days=LEAF_DAYS)
        not_after = min(now + lifetime, self.certificate.not_valid_after_utc)
        serial = x509.random_serial_number()
        cert = (
            x509.CertificateBuilder()
            .subject_name(_subject(name))
            .issuer_name(self.certificate.subject)
            .public_key(key.public_key())
            .serial_number(serial)
            .not_valid_before(max(now - BACKDATE, self.certificate.not_valid_before_utc))
            .not_valid_after(not_after)
            .add_extension(x509.SubjectAlternativeName([_general_name(name)]), critical=False)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_LEAF_USAGE, critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
            .add_extension(self._key_identifier(), critical=False)
            .add_extension(
                x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False
            )
            .sign(self.key, hashes.SHA256())
        )
        chain = _pem(cert) + _pem(self.certificate)
        certificate = Certificate(chain=chain, key=_key_pem(key))
        return Leaf(
            certificate=certificate, renew_at=not_after - RENEW_BEFORE, version=f"{serial:x}"
        )

    def _key_identifier(self) -> x509.AuthorityKeyIdentifier:
        extensions = self.certificate.extensions
        try:
            own = extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
        except x509.ExtensionNotFound:
            return x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key())
        return x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(own)


_LEAF_USAGE = x509.KeyUsage(
    digital_signature=True,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    key_cert_sign=False,
    crl_sign=False,
    encipher_only=False,
    decipher_only=False,
)

_COMMON_NAME_MAX = 64
"""Characters of a common name (X.520)."""


def _subject(name: str) -> x509.Name:
    if len(name) > _COMMON_NAME_MAX:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "abox sandbox")])
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def _spki(key: object) -> bytes:
    if not isinstance(key, ec.EllipticCurvePublicKey):
        raise ValueError("the authority's certificate holds no elliptic-curve key")
    return key.public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
