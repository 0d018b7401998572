"""Certificates of the test world's origins, made while the tests run."""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass, field

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

DAY = datetime.timedelta(days=1)


@dataclass(frozen=True)
class KeyPair:
    """A certificate chain and the private key of its first certificate, both PEM."""

    certificate: str
    key: str = field(repr=False)


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _key_pem(key: ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    ).decode()


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def _alternative_names(names: Sequence[str]) -> x509.SubjectAlternativeName:
    def general(name: str) -> x509.GeneralName:
        try:
            return x509.IPAddress(ipaddress.ip_address(name))
        except ValueError:
            return x509.DNSName(name)

    return x509.SubjectAlternativeName([general(name) for name in names])


class Authority:
    """A certificate authority that exists in this process only."""

    def __init__(self, common_name: str = "abxt test authority") -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._subject = _name(common_name)
        now = datetime.datetime.now(datetime.UTC)
        self.certificate = (
            x509.CertificateBuilder()
            .subject_name(self._subject)
            .issuer_name(self._subject)
            .public_key(self._key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - DAY)
            .not_valid_after(now + 30 * DAY)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(
                x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False
            )
            .add_extension(
                x509.KeyUsage(
                    digital_signature=False,
                    content_commitment=False,
                    key_encipherment=False,
                    data_encipherment=False,
                    key_agreement=False,
                    key_cert_sign=True,
                    crl_sign=True,
                    encipher_only=False,
                    decipher_only=False,
                ),
                critical=True,
            )
            .sign(self._key, hashes.SHA256())
        )

    @property
    def pem(self) -> str:
        """The authority's certificate."""
        return _pem(self.certificate)

    @property
    def key_pair(self) -> KeyPair:
        """The authority's certificate with its private key."""
        return KeyPair(self.pem, _key_pem(self._key))

    def leaf(
        self, names: Sequence[str], *, expired: bool = False, self_signed: bool = False
    ) -> KeyPair:
        """A server certificate for `names` (DNS names, wildcards or addresses).

        Args:
            names: subject alternative names, the first is the common name too.
            expired: its time ended a day ago.
            self_signed: signed by its own key instead of the authority's.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        subject = _name(names[0][:64])
        now = datetime.datetime.now(datetime.UTC)
        end = now - DAY if expired else now + 20 * DAY
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(subject if self_signed else self._subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - 2 * DAY)
            .not_valid_after(end)
            .add_extension(_alternative_names(names), critical=False)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()),
                critical=False,
            )
        )
        certificate = builder.sign(key if self_signed else self._key, hashes.SHA256())
        chain = _pem(certificate) if self_signed else _pem(certificate) + self.pem
        return KeyPair(chain, _key_pem(key))
