"""The browsers' policy names the authorities, in the one spelling that browsers read."""

from __future__ import annotations

import base64
import json
import ssl

from abox.render.browser_policy import render_browser_policy


def test_the_policy_holds_the_authorities_in_order() -> None:
    """Base64 of DER without lines or armour."""
    ders = [b"one" * 40, b"two" * 40]
    text = render_browser_policy("".join(ssl.DER_cert_to_PEM_cert(der) for der in ders))
    assert json.loads(text) == {"CACertificates": [base64.b64encode(d).decode() for d in ders]}
