"""What the user sees of a step: one line when it is done, and one every few seconds meanwhile."""

import sys
import time
from collections.abc import Callable
from typing import TextIO

TICK_S = 5.0
"""Seconds between two lines of a long step."""


class Step:
    """One step of a command, as a person follows it."""

    def __init__(
        self,
        name: str,
        *,
        output: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._name = name
        self._output = output or sys.stdout
        self._clock = clock
        self._start = clock()
        self._last_line = self._start

    def say(self, text: str) -> None:
        """Print a line under the step's name."""
        self._last_line = self._clock()
        self._output.write(f"{self._name:<10} {text}".rstrip() + "\n")
        self._output.flush()

    def done(self, text: str) -> None:
        """Print the line that ends the step, with the time it took."""
        self.say(f"{text} ({self._clock() - self._start:.1f} s)")

    def tick(self, text: str) -> None:
        """Print how far the step is, unless it said something within the last seconds."""
        if self._clock() - self._last_line >= TICK_S:
            self.say(f"{text}, {self._clock() - self._start:.0f} s")
