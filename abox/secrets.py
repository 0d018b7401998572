"""The stack's secrets: values of `abox:secrets`, told to nobody but the gateway.

A value never stands in an error, a log, an output or a file that says what is asked; there a keyed
digest stands for it. The key is the authority's, which only the stack and the gateway's control
program have, so that a digest gives no value away, not even one that can be guessed.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from abox.errors import ErrorCollector, SettingsError
from abox.injection import is_secret_name, set_command

VALUE_MAX = 8192
"""Longest value in bytes: common servers take lines of a header up to that."""

_VALUE = re.compile(r"[!-~](?:[ -~\t]*[!-~])?")
"""A header's value: visible ASCII, blanks only inside (RFC 9110, 5.5)."""


@dataclass(frozen=True, repr=False)
class SecretValue:
    """A value that shows itself to nobody by accident."""

    _text: str

    def reveal(self) -> str:
        """The value; for the one document that carries it to the gateway, and its file there."""
        return self._text

    def digest(self, key: str, name: str) -> str:
        """Keyed digest of the value under its name, in hex.

        Args:
            key: the authority's private key, PEM.
            name: name of the secret: equal values of two names have different digests.
        """
        text = f"abox secret\0{name}\0{self._text}"
        return hmac.new(key.encode(), text.encode(), hashlib.sha256).hexdigest()

    def __repr__(self) -> str:
        return "SecretValue(…)"

    __str__ = __repr__


Secrets = Mapping[str, SecretValue]
"""Values by name."""


def parse_secrets(raw: object, where: str) -> dict[str, SecretValue]:
    """The secrets of a stack.

    Args:
        raw: names and values, decrypted.
        where: where they stand, for error texts.

    Raises: AboxErrors with everything that is refused; no text repeats a value.
    """
    if not isinstance(raw, Mapping):
        raise _refused(where, "secrets are a mapping of names to values", set_command("api_key"))
    errors = ErrorCollector()
    parsed = {
        name: errors.attempt(partial(_parse_value, name, value, where))
        for name, value in raw.items()
    }
    errors.raise_all()
    return {name: value for name, value in parsed.items() if value}


def digests(secrets: Secrets, key: str) -> dict[str, str]:
    """Keyed digest of every value, by name."""
    return {name: value.digest(key, name) for name, value in sorted(secrets.items())}


def combined_hash(policy_hash: str, found: Mapping[str, str]) -> str:
    """Hash of a policy together with the digests of the secrets that it injects."""
    if not found:
        return policy_hash
    text = json.dumps([policy_hash, dict(found)], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _parse_value(name: object, value: object, where: str) -> SecretValue:
    if not isinstance(name, str) or not is_secret_name(name):
        raise _refused(
            f"{where}.{name}",
            "a secret's name is a letter, then at most 62 letters, digits, '-' and '_'",
            "set it again under another name",
        )
    if not isinstance(value, str):
        raise _refused(f"{where}.{name}", "a secret is text", set_command(name))
    if value != value.strip():
        raise _refused(
            f"{where}.{name}",
            "its value begins or ends with a blank or a newline, which no header can hold",
            f"set it without, for example printf %s VALUE | {set_command(name)}",
        )
    if len(value) > VALUE_MAX or not _VALUE.fullmatch(value):
        raise _refused(
            f"{where}.{name}",
            f"a header's value is 1 to {VALUE_MAX} printable ASCII characters on one line",
            f"set another: {set_command(name)}",
        )
    return SecretValue(value)


def _refused(where: str, why: str, remedy: str) -> SettingsError:
    return SettingsError(what=f"{where}: the value is refused", why=why, remedy=remedy)
