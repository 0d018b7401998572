"""The sandbox's authority: what it may sign, and when it is replaced."""

from __future__ import annotations

import datetime as dt

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec

from provider.certificate_authority import (
    MAX_VALID_DAYS,
    RENEW_BEFORE_DAYS,
    Authority,
    CertificateAuthorityResource,
    faults,
    fingerprint,
    make_authority,
)
from tests.unit.provider.samples import NOW


def loaded(authority):
    return x509.load_pem_x509_certificate(authority.certificate.encode())


def test_authority_may_sign_leaf_certificates_only():
    certificate = loaded(make_authority("project-a", 365, NOW))
    assert isinstance(certificate.public_key(), ec.EllipticCurvePublicKey)
    constraints = certificate.extensions.get_extension_for_class(x509.BasicConstraints)
    assert constraints.critical
    assert constraints.value == x509.BasicConstraints(ca=True, path_length=0)
    usage = certificate.extensions.get_extension_for_class(x509.KeyUsage)
    assert usage.critical
    assert usage.value.key_cert_sign
    assert not usage.value.digital_signature
    assert certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier)
    certificate.verify_directly_issued_by(certificate)
    assert certificate.not_valid_after_utc == NOW + dt.timedelta(days=365)
    assert "project-a" in certificate.subject.rfc4514_string()


def test_longest_sandbox_name_fits():
    assert loaded(make_authority("x" * 63, 365, NOW))


def test_two_authorities_share_nothing():
    one, two = make_authority("p", 365, NOW), make_authority("p", 365, NOW)
    assert one.key != two.key
    assert loaded(one).serial_number != loaded(two).serial_number
    assert fingerprint(one.certificate) != fingerprint(two.certificate)


@pytest.mark.parametrize(
    ("days_later", "found"),
    [(0, False), (365 - RENEW_BEFORE_DAYS - 1, False), (365 - RENEW_BEFORE_DAYS + 1, True)],
)
def test_authority_near_its_end_is_replaced(days_later, found):
    authority = make_authority("p", 365, NOW)
    assert bool(faults(authority, NOW + dt.timedelta(days=days_later))) is found


@pytest.mark.parametrize("part", ["certificate", "key"])
def test_foreign_or_broken_part_is_a_fault(part):
    authority, other = make_authority("p", 365, NOW), make_authority("p", 365, NOW)
    assert faults(authority, NOW) == []
    assert faults(Authority(**{**vars(authority), part: getattr(other, part)}), NOW) == [
        "the stored key doesn't belong to the certificate"
    ]
    assert faults(Authority(**{**vars(authority), part: "rubbish"}), NOW)


def test_fault_replaces():
    resource = CertificateAuthorityResource(lambda: NOW)
    _, state = resource.create({"sandbox": "p", "valid_days": 365})
    assert resource.drift(state, {}) == {}
    late = CertificateAuthorityResource(lambda: NOW + dt.timedelta(days=360))
    assert late.drift({**state, **late.read("id", state)}, {}) == {"findings": True}


@pytest.mark.parametrize("days", [-1, 0, RENEW_BEFORE_DAYS, MAX_VALID_DAYS + 1])
def test_validity_out_of_range_is_refused(days):
    resource = CertificateAuthorityResource(lambda: NOW)
    (failure,) = resource.problems({"sandbox": "p", "valid_days": days}, {})
    assert failure.name == "valid_days"
    assert list(resource.problems({"sandbox": "p", "valid_days": 365}, {})) == []
