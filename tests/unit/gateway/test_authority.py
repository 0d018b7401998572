"""Leaf certificates that strict clients accept, and an authority that is what it says."""

from __future__ import annotations

import datetime

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID

from gateway import authority as subject
from gateway.authority import LEAF_DAYS, Authority
from tests.integration.gateway.authority import make_authority


@pytest.fixture(scope="module")
def pems():
    return tuple(text.encode() for text in make_authority())


@pytest.fixture
def authority(pems):
    return Authority.from_pem(*pems)


def leaf_of(found) -> x509.Certificate:
    return x509.load_pem_x509_certificates(found.certificate.chain)[0]


@pytest.mark.parametrize("name", ["allowed.test", "a" * 60 + ".allowed.test", "198.51.100.10"])
def test_a_leaf_names_one_host_and_serves_tls_servers_only(authority, name):
    leaf, issuer = x509.load_pem_x509_certificates(authority.leaf(name).certificate.chain)
    leaf.verify_directly_issued_by(issuer)
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert [str(n.value) for n in names] == [name]
    usage = leaf.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usage) == [ExtendedKeyUsageOID.SERVER_AUTH]
    assert not leaf.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    own = issuer.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value.digest
    told = leaf.extensions.get_extension_for_class(x509.AuthorityKeyIdentifier).value
    assert told.key_identifier == own
    assert isinstance(leaf.public_key(), ec.EllipticCurvePublicKey)
    days = (leaf.not_valid_after_utc - leaf.not_valid_before_utc).days
    assert days <= LEAF_DAYS + 1 <= 90


def test_a_leaf_is_kept_while_it_is_good_and_made_again_before_it_ends(authority, monkeypatch):
    first = authority.leaf("allowed.test")
    assert authority.leaf("allowed.test") is first
    later = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=LEAF_DAYS - 5)
    monkeypatch.setattr(subject, "_now", lambda: later)
    assert authority.leaf("allowed.test") is not first


def test_the_cache_is_bounded(authority, monkeypatch):
    monkeypatch.setattr(subject, "CACHED_LEAVES", 3)
    first = authority.leaf("n0.test")
    for number in range(1, 5):
        authority.leaf(f"n{number}.test")
    assert authority.leaf("n0.test") is not first


def test_leaves_have_keys_and_serial_numbers_of_their_own(authority):
    one, other = leaf_of(authority.leaf("a.test")), leaf_of(authority.leaf("b.test"))
    assert one.serial_number != other.serial_number
    assert one.public_key() != other.public_key()


def test_a_key_that_does_not_fit_or_a_certificate_that_may_not_sign_is_refused(pems, authority):
    certificate, key = pems
    other = make_authority()[1].encode()
    with pytest.raises(ValueError, match="does not belong"):
        Authority.from_pem(certificate, other)
    leaf = authority.leaf("allowed.test").certificate
    with pytest.raises(ValueError, match="may not sign"):
        Authority.from_pem(leaf.chain.partition(b"-----END CERTIFICATE-----\n")[0]
                           + b"-----END CERTIFICATE-----\n", leaf.key)  # fmt: skip
    with pytest.raises(ValueError):  # noqa: PT011 - the library's words
        Authority.from_pem(b"", key)
