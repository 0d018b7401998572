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

from abox.name_shape import HEALTH_NAME, NAME_MAX, NAME_REGEX, RESERVED_SUFFIXES
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
        )

    def to_json(self) -> str:
        """The table as JSON, equal tables as equal text."""
        document = {
            "allow": sorted(self.allow),
            "deny": sorted(self.deny),
            "passive": self.passive,
        }
        return json.dumps(document, separators=(",", ":")) + "\n"

    def allows(self, name: str) -> bool:
        """Whether a name may be resolved.

        Args:
            name: lower case, without its root dot.
        """
        return self.judges(name, list(covering(name)))

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
        if self.passive:
            return Judged(None, RULE_PASSIVE)
        allowed = next((host for host in hosts if host in self.allow), None)
        return Judged(None if allowed else Reason.NOT_ALLOWED, allowed)

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
