"""Java's own form of a trust store, which no JVM lets a PEM file stand in for.

The older of its two forms (JKS), since every Java from 1.2 on reads it without a password. Equal
certificates give equal bytes.
"""

from __future__ import annotations

import hashlib
import struct

from abox.pem import der_certificates

PASSWORD = "changeit"  # noqa: S105  # what every Java's own trust store has: it guards nothing
"""Of the digest at the end of the file: programs that give one give this one."""

_MAGIC = 0xFEEDFEED
_VERSION = 2
_TRUSTED_CERTIFICATE = 2
_ENTERED_MS = 1_577_836_800_000
"""When every certificate was entered, in milliseconds since 1970: 2020-01-01, as all else here."""
_SALT = b"Mighty Aphrodite"


def render_java_keystore(bundle: str) -> bytes:
    """A JKS file with the certificates of a bundle as trusted ones.

    Args:
        bundle: certificates as PEM; what stands between them is ignored.
    Returns: the file's bytes. Each alias is the certificate's SHA-256, so none stands there twice.
    Raises: ValueError if a certificate isn't base64.
    """
    certificates = {hashlib.sha256(der).hexdigest(): der for der in der_certificates(bundle)}
    entries = (_entry(alias, certificates[alias]) for alias in sorted(certificates))
    body = struct.pack(">III", _MAGIC, _VERSION, len(certificates)) + b"".join(entries)
    seed = PASSWORD.encode("utf-16-be") + _SALT
    return body + hashlib.sha1(seed + body, usedforsecurity=False).digest()


def _entry(alias: str, der: bytes) -> bytes:
    return b"".join(
        (
            struct.pack(">I", _TRUSTED_CERTIFICATE),
            _text(alias),
            struct.pack(">Q", _ENTERED_MS),
            _text("X.509"),
            struct.pack(">I", len(der)),
            der,
        )
    )


def _text(value: str) -> bytes:
    data = value.encode("ascii")
    return struct.pack(">H", len(data)) + data
