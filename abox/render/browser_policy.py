"""The policy that makes browsers of Chromium's family trust a certificate authority."""

from __future__ import annotations

import base64
import json

from abox.pem import der_certificates


def render_browser_policy(authorities: str) -> str:
    """A policy file with authorities that are trusted besides the browser's own list.

    Args:
        authorities: certificates as PEM.
    Returns: the file's text, JSON.
    Raises: ValueError if a certificate isn't base64.
    """
    trusted = [base64.b64encode(der).decode() for der in der_certificates(authorities)]
    return json.dumps({"CACertificates": trusted}, indent=1) + "\n"
