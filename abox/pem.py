"""Certificates out of PEM text."""

from __future__ import annotations

import base64

_BEGIN, _END = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"


def der_certificates(bundle: str) -> list[bytes]:
    """The certificates of a PEM text in its order, as DER; what stands between them is ignored.

    Raises: ValueError if one isn't base64.
    """
    parts = (part.rpartition(_BEGIN)[2] for part in bundle.split(_END)[:-1])
    return [base64.b64decode("".join(part.split()), validate=True) for part in parts]
