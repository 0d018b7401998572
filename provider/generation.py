"""A number that a resource carries in a label or name: it grows when that must be made anew.

See docs/decisions/0002-repair-of-posture.md and docs/decisions/0014-leftovers.md.
"""

from __future__ import annotations

from abox.naming import FIRST_GENERATION
from provider.resource import Data


def generation_of(state: Data) -> str:
    """The number in a state; the first one in a state that has none."""
    return str(state.get("generation") or FIRST_GENERATION)


def next_generation(old: Data, cause: str) -> str:
    """The number after an update: another one if the output ``cause`` names anything."""
    return str(int(generation_of(old)) + (1 if old.get(cause) else 0))
