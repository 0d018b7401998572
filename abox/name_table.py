"""The names of a policy as a small table, for processes that only need to match names.

``control`` asks it before it mints a certificate, and the DNS filter's script before anything is
forwarded. It is rendered from the policy and gives the same answers as
``abox.allowlist.judge_name`` (property-tested), without that module's imports.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

RESERVED_SUFFIXES = ("abox.local", "docker.internal", "localhost")
"""As in ``abox.names``, which a test compares."""


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

    def allows_below(self, name: str) -> bool:
        """Whether names below this one may be resolved, unless a longer entry says otherwise."""
        return self.judges(name, list(covering(f"?.{name}"))[1:] if name else [])

    def judges(self, name: str, hosts: list[str]) -> bool:
        """The verdict, given the hosts of entries that would cover what is asked."""
        if any(name == suffix or name.endswith(f".{suffix}") for suffix in RESERVED_SUFFIXES):
            return False
        if any(host in self.deny for host in hosts):
            return False
        return self.passive or any(host in self.allow for host in hosts)


def covering(name: str) -> Iterator[str]:
    """Every host of an entry that would cover a name, the most exact first."""
    yield name
    while "." in name:
        name = name.split(".", 1)[1]
        yield f"*.{name}"
