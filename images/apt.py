"""Where Debian's packages come from: what the building machine's own apt is set up with."""

from __future__ import annotations

import re
from dataclasses import dataclass

from abox.errors import HostError
from images.host import run, run_any

SUITE = "bookworm"
"""Debian release that the images are made of."""

KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
"""Debian's own keys, from the package debian-archive-keyring: nothing else may sign the images."""

_FORMAT = "$(ORIGIN)|$(CODENAME)|$(RELEASE)|$(COMPONENT)|$(REPO_URI)"
_SUITES = re.compile(rf"{SUITE}(-updates|-security)?")
_OPTIONS = re.compile(r'(Acquire::https?::[A-Za-z:._-]+) "([^"]+)";')


@dataclass(frozen=True, order=True)
class Source:
    """One component of one suite of an archive."""

    uri: str
    suite: str
    component: str

    def line(self) -> str:
        """As sources.list(5) spells it."""
        return f"deb [signed-by={KEYRING}] {self.uri} {self.suite} {self.component}"


def debian_sources() -> list[Source]:
    """Sources of this machine's apt that its signed indexes prove to be Debian's.

    Raises:
        HostError: apt knows none, even after an update of its lists.
    """
    for attempt in range(2):
        if attempt:
            run(["apt-get", "-q", "update"], timeout_s=600)
        listed = run(["apt-get", "indextargets", "--format", _FORMAT, "Created-By: Packages"])
        if sources := parse_targets(listed):
            return sources
    raise HostError(
        what=f"no source of Debian {SUITE} packages",
        why="this machine's apt lists no archive of that release with Debian as its origin",
        remedy=f"add Debian {SUITE} to /etc/apt/sources.list.d, run apt-get update, try again",
    )


def parse_targets(text: str) -> list[Source]:
    """Debian's sources among apt's index targets; the main component only, each once."""
    found: set[Source] = set()
    for line in text.splitlines():
        origin, codename, release, component, uri = (*line.split("|"), *[""] * 5)[:5]
        if origin == "Debian" and component == "main" and _SUITES.fullmatch(codename):
            found.add(Source(uri=uri, suite=release, component=component))
    return sorted(found)


def transport_options() -> list[str]:
    """This machine's settings for reaching an archive (proxy, certificates), for another apt."""
    _, dump, _ = run_any(["apt-config", "dump"])
    return parse_options(dump)


def parse_options(dump: str) -> list[str]:
    """Proxy and TLS settings among the output of `apt-config dump`."""
    return [f'{name} "{value}"' for name, value in _OPTIONS.findall(dump)]
