"""The names of a policy as a small table, for processes that only need to match names.

``control`` asks it before it mints a certificate, and the DNS filter's script before anything is
forwarded. It is rendered from the policy and gives the same answers as
``abox.allowlist.judge_name`` (property-tested), without that module's imports.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

from abox.name_shape import (
    HEALTH_NAME,
    NAME_MAX,
    NAME_REGEX,
    RESERVED_SUFFIXES,
    WILDCARD_NAME_MAX,
)
from abox.query_budget import DEFAULT_QUERIES_PER_MINUTE
from abox.reasons import RULE_PASSIVE, Reason

_NAME = re.compile(NAME_REGEX)
_NUMBER = re.compile(r"(?:.*\.)?(?:\d+|0x[0-9a-f]*)")
"""Ends in a label that programs take for a part of an address."""


@dataclass(frozen=True)
class Judged:
    """The verdict on a name."""

    reason: Reason | None
    """Why it is denied; None if it is allowed."""
    rule: str | None
    """Host of the entry that decided, or what else did; None if nothing covers the name."""


@dataclass(frozen=True, kw_only=True)
class NameTable:
    """Which names may be resolved."""

    allow: frozenset[str] = frozenset()
    """Exact names, and wildcards with their ``*.``."""
    deny: frozenset[str] = frozenset()
    passive: bool = False
    queries_per_minute: int = DEFAULT_QUERIES_PER_MINUTE
    """Questions below one entry that may leave the sandbox in a minute."""

    @classmethod
    def from_json(cls, text: str) -> NameTable:
        """The table that ``to_json`` wrote.

        Raises: ValueError, KeyError or TypeError if the text is something else.
        """
        document = json.loads(text)
        return cls(
            allow=frozenset(document["allow"]),
            deny=frozenset(document["deny"]),
            passive=document["passive"] is True,
            queries_per_minute=int(document["queries_per_minute"]),
        )

    def to_json(self) -> str:
        """The table as JSON, equal tables as equal text."""
        document = {
            "allow": sorted(self.allow),
            "deny": sorted(self.deny),
            "passive": self.passive,
            "queries_per_minute": self.queries_per_minute,
        }
        return json.dumps(document, separators=(",", ":")) + "\n"

    def allows(self, name: str) -> bool:
        """Whether a name may be resolved by asking somebody; the gateway's own is not.

        Args:
            name: lower case, without its root dot.
        """
        return name != HEALTH_NAME and self.judge(name).reason is None

    def judge(self, name: str) -> Judged:
        """The verdict on a name with its reason and its rule, as the allowlist gives them.

        Args:
            name: lower case, without its root dot.
        """
        if name == HEALTH_NAME:
            return Judged(None, HEALTH_NAME)
        if len(name) > NAME_MAX or not _NAME.fullmatch(name):
            number = _NUMBER.fullmatch(name)
            return Judged(Reason.ADDRESS_LITERAL if number else Reason.MALFORMED_NAME, None)
        if _is_reserved(name):
            return Judged(Reason.RESERVED_NAME, None)
        hosts = list(covering(name))
        if denied := next((host for host in hosts if host in self.deny), None):
            return Judged(Reason.DENIED, denied)
        return self._judge_allowed(name, hosts)

    def _judge_allowed(self, name: str, hosts: list[str]) -> Judged:
        found = next((host for host in hosts if host in self.allow), None)
        rule = RULE_PASSIVE if self.passive else found
        if rule is None:
            return Judged(Reason.NOT_ALLOWED, None)
        if len(name) > WILDCARD_NAME_MAX and found != name:
            return Judged(Reason.NAME_TOO_LONG, rule)
        return Judged(None, rule)

    def denial(self, name: str) -> Reason:
        """Why a name that was denied is denied; quick where nothing is on the denylist.

        A name that is allowed was denied for what it is an alias of.

        Args:
            name: lower case, without its root dot.
        """
        only_listed = not self.deny and not self.passive and len(name) <= WILDCARD_NAME_MAX
        if only_listed and _NAME.fullmatch(name) and not name.endswith(RESERVED_SUFFIXES):
            return Reason.NOT_ALLOWED
        return self.judge(name).reason or Reason.DENIED

    def zone_of(self, name: str) -> str:
        """What has the budget for a name that is allowed: its entry, else its last two labels."""
        found = next((host for host in covering(name) if host in self.allow), None)
        return found or ".".join(name.split(".")[-2:])

    def allows_below(self, name: str) -> bool:
        """Whether names below this one may be resolved, unless a longer entry says otherwise."""
        return self.judges(name, list(covering(f"?.{name}"))[1:] if name else [])

    def judges(self, name: str, hosts: list[str]) -> bool:
        """The verdict, given the hosts of entries that would cover what is asked."""
        if _is_reserved(name):
            return False
        if any(host in self.deny for host in hosts):
            return False
        return self.passive or any(host in self.allow for host in hosts)


def _is_reserved(name: str) -> bool:
    return any(name == suffix or name.endswith(f".{suffix}") for suffix in RESERVED_SUFFIXES)


def covering(name: str) -> Iterator[str]:
    """Every host of an entry that would cover a name, the most exact first."""
    yield name
    while "." in name:
        name = name.split(".", 1)[1]
        yield f"*.{name}"
