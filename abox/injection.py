"""Secrets that the gateway puts on requests: which header, from which of the stack's secrets.

The agent sends the request without the secret, the gateway adds the header on its way to the
origin. So the origin must be the one that was meant (TLS, verified), and nothing that the agent
sends may stand in the header's place.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from abox.refusals import UNSHOWN, Refusals, RefusedError, nearest, shown

SECRETS_KEY = "abox:secrets"
"""Key of the stack's configuration that holds the values."""

INJECTION_KEYS = ("header", "secret")
"""Keys of an injection."""

DEFAULT_INJECTION_PORTS = (443,)
"""Ports of an entry with an injection that names none."""

HEADERS_MAX = 8
"""Headers that one entry may inject."""

ECHOING_METHODS = "(?i)trac[ek]"
"""Methods that ask an origin to repeat the request to the agent (RFC 9110, 9.3.8), as a regular
expression: they get no secret."""

FORBIDDEN_HEADERS = frozenset(
    {
        "connection",
        "content-length",
        "expect",
        "forwarded",
        "host",
        "http2-settings",
        "keep-alive",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "via",
        "x-forwarded-proto",
    }
)
"""What frames or routes the message, ends at the next hop, or is taken off by the gateway."""

FORBIDDEN_PREFIXES = ("proxy-", "sec-", "x-abox-", "x-envoy-")
"""Families of headers with a meaning for the proxy itself or for the handshake of a WebSocket."""

_HEADER = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
_SECRET_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,62}")


def _key_of(header: str) -> str:
    """A name without what servers don't tell apart: CGI reads '-' as '_'."""
    return header.lower().replace("_", "-")


@dataclass(frozen=True, kw_only=True)
class Injection:
    """One header and the secret that is its value."""

    header: str
    """As written; the letter case has no meaning."""
    secret: str
    """Name of a value below `abox:secrets`."""

    @property
    def key(self) -> str:
        """What servers may take for the same header."""
        return _key_of(self.header)

    @property
    def spellings(self) -> str:
        """All of that as a regular expression on a name in lower case; some read '.' as '_' too."""
        return "[^a-z0-9]".join(map(re.escape, self.key.split("-")))

    def to_document(self) -> dict[str, str]:
        """The injection as a JSON object."""
        return {"header": self.header, "secret": self.secret}

    def __str__(self) -> str:
        return f"{self.header} from secret {self.secret}"


def parse_injections(raw: object, secret_names: Collection[str] | None) -> tuple[Injection, ...]:
    """The injections of an entry: one, or a list of them; sorted.

    Args:
        raw: the key `inject` as written.
        secret_names: names below `abox:secrets`; None where they aren't known.

    Raises: RefusedError or RefusedErrors with everything that is refused.
    """
    refusals = Refusals()
    if isinstance(raw, (list, tuple)):
        found = [
            refusals.attempt(partial(_parse_one, member, f".inject[{position}]", secret_names))
            for position, member in enumerate(raw)
        ]
    else:
        found = [refusals.attempt(partial(_parse_one, raw, ".inject", secret_names))]
    refusals.attempt(partial(_check_count, len(found)))
    parsed = [injection for injection in found if injection]
    for position, injection in enumerate(parsed):
        if injection.key in (before.key for before in parsed[:position]):
            why = f"{injection.header} is injected twice: servers read '-' and '_' alike"
            refusals.add(_refused(".inject", why, "keep one of them"))
    refusals.raise_all()
    return tuple(sorted(parsed, key=lambda injection: injection.key))


_EXAMPLE = "write inject: {header: Authorization, secret: api_key}"


def _check_count(count: int) -> None:
    if not 1 <= count <= HEADERS_MAX:
        raise _refused(".inject", f"an entry injects 1 to {HEADERS_MAX} headers", _EXAMPLE)


def _parse_one(raw: object, key: str, secret_names: Collection[str] | None) -> Injection:
    if not isinstance(raw, Mapping):
        raise _refused(key, "an injection is a mapping of header and secret", _EXAMPLE)
    refusals = Refusals()
    for name in raw:
        if name not in INJECTION_KEYS:
            why = f"the key {shown(name)} is unknown"
            refusals.add(_refused(key, why, nearest(str(name), INJECTION_KEYS)))
    header = refusals.attempt(lambda: _parse_header(_take(raw, "header", key), f"{key}.header"))
    secret = refusals.attempt(
        lambda: _parse_secret(_take(raw, "secret", key), f"{key}.secret", secret_names)
    )
    refusals.raise_all()
    return Injection(header=header or "", secret=secret or "")


def _take(raw: Mapping[Any, object], name: str, key: str) -> object:
    if name not in raw:
        raise _refused(key, f"the key {name!r} is missing", _EXAMPLE)
    return raw[name]


def _parse_header(raw: object, key: str) -> str:
    if not isinstance(raw, str) or not _HEADER.fullmatch(raw):
        raise _refused(
            key,
            "a header's name is a letter, then at most 63 letters, digits, '-' and '_'",
            "write for example header: Authorization",
        )
    if (plain := _key_of(raw)) in FORBIDDEN_HEADERS or plain.startswith(FORBIDDEN_PREFIXES):
        raise RefusedError(
            "the header frames or routes the message, or ends at the proxy",
            "name a header that the origin reads, for example Authorization",
            key=key,
            value=raw,
        )
    return raw


def _parse_secret(raw: object, key: str, known: Collection[str] | None) -> str:
    if not isinstance(raw, str) or not is_secret_name(raw):
        raise _refused(
            key,
            "a secret is named, not written here: a letter, then at most 62 letters, digits, "
            "'-' and '_'",
            "write for example secret: api_key",
        )
    if known is not None and raw not in known:
        has = f"has no such name, but {', '.join(sorted(known))}" if known else "is empty"
        raise RefusedError(f"{SECRETS_KEY} {has}", set_command(raw), key=key, value=raw)
    return raw


def _refused(key: str, why: str, remedy: str) -> RefusedError:
    """A refusal that doesn't repeat the value: it may be the secret itself."""
    return RefusedError(why, remedy, key=key, value=UNSHOWN)


def is_secret_name(text: str) -> bool:
    """Whether a text can name a secret."""
    return _SECRET_NAME.fullmatch(text) is not None


def set_command(name: str) -> str:
    """What a person types to give a secret its value."""
    return f"pulumi config set --secret --path {SECRETS_KEY}.{name}"
