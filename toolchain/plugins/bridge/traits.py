"""What differs between the bridge versions that the official plugins were built with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, kw_only=True)
class Traits:
    """How one version of the bridge answers."""

    state_delta: bool
    """A state says how to turn it back into the bridged provider's own."""
    empty_defaults: bool
    """Checked inputs hold defaults that are empty or false too."""
    flat_diff: bool
    """A list that grows or shrinks shows as changed, and so does each property in it."""


CURRENT: Final = Traits(state_delta=True, empty_defaults=False, flat_diff=False)
"""As pulumi-docker 5.2.0 has it."""

BRIDGE_3_102: Final = Traits(state_delta=False, empty_defaults=True, flat_diff=True)
"""As pulumi-libvirt 0.5.4 has it."""
