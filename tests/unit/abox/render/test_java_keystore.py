"""Java's trust store: read back here field by field, by the real keytool in the tool tests."""

from __future__ import annotations

import base64
import hashlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from abox.render.java_keystore import PASSWORD, render_java_keystore


def pem(der: bytes) -> str:
    """A certificate's armour around any bytes."""
    body = base64.encodebytes(der).decode()
    return f"-----BEGIN CERTIFICATE-----\n{body}-----END CERTIFICATE-----\n"


def read_back(store: bytes) -> dict[str, bytes]:
    """Aliases and certificates of a JKS file."""
    magic, version, count = struct.unpack_from(">III", store)
    assert (magic, version) == (0xFEEDFEED, 2)
    found, at = {}, 12

    def take(size: int) -> bytes:
        nonlocal at
        at += size
        return store[at - size : at]

    def sized(form: str) -> bytes:
        return take(struct.unpack(form, take(struct.calcsize(form)))[0])

    for _ in range(count):
        assert struct.unpack(">I", take(4)) == (2,)
        alias = sized(">H").decode()
        take(8)
        assert sized(">H") == b"X.509"
        found[alias] = sized(">I")
    body, digest = store[:at], store[at:]
    seed = PASSWORD.encode("utf-16-be") + b"Mighty Aphrodite"
    assert digest == hashlib.sha1(seed + body, usedforsecurity=False).digest()
    return found


@given(st.lists(st.binary(min_size=1, max_size=3000), max_size=5))
def test_every_certificate_stands_there_once_under_its_digest(ders: list[bytes]) -> None:
    """Text between certificates is ignored, order and repetition don't show."""
    bundle = "# a comment\n".join(pem(der) for der in [*ders, *ders])
    store = render_java_keystore(bundle)
    assert read_back(store) == {hashlib.sha256(der).hexdigest(): der for der in ders}
    assert store == render_java_keystore("".join(pem(der) for der in reversed(ders)))


def test_what_is_no_base64_is_refused() -> None:
    """A damaged bundle gives no store that lacks something."""
    with pytest.raises(ValueError, match="Only base64 data is allowed"):
        render_java_keystore(pem(b"x").replace("eA==", "e*A="))
