"""Says what a build is doing and how far it is."""

from __future__ import annotations

import re
import sys
import time

_COUNT = re.compile(r"(\d+) newly installed")
_FETCHED = re.compile(r"Get:\d+ \S+ \S+ \S+ \S+ \S+ \S+ \[")
"""The line of a package; those of an archive's indexes have one word less."""


class Progress:
    """Lines about one image, with the seconds since its build began."""

    def __init__(self, image: str) -> None:
        self.image = image
        self._began = time.monotonic()
        self._last_tick = self._began

    def say(self, text: str) -> None:
        """One line on standard output."""
        seconds = time.monotonic() - self._began
        sys.stdout.write(f"images: {self.image}: {text} ({seconds:.0f} s)\n")
        sys.stdout.flush()

    def say_sometimes(self, text: str, *, every_s: float = 5.0) -> None:
        """Like `say`, but not more often than that."""
        if time.monotonic() - self._last_tick >= every_s:
            self._last_tick = time.monotonic()
            self.say(text)


class PackageCounter:
    """How far the installation of Debian packages is, read from the lines of apt and dpkg."""

    def __init__(self) -> None:
        self.total = 0
        self._seen = {"downloading": 0, "unpacking": 0, "setting up": 0}
        self._step = "downloading"

    def see(self, line: str) -> None:
        """Take one line into account."""
        if found := _COUNT.search(line):
            self.total += int(found[1])
        elif _FETCHED.match(line):
            self._count("downloading")
        elif line.startswith("Unpacking "):
            self._count("unpacking")
        elif line.startswith("Setting up "):
            self._count("setting up")

    def describe(self) -> str:
        """The same in words."""
        total = f" of {self.total}" if self.total else ""
        return f"{self._step} packages, {self._seen[self._step]}{total}"

    def _count(self, step: str) -> None:
        self._step = step
        self._seen[step] += 1
