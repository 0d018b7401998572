"""A race that libvirt loses: its packet rules against any other change of the host's rules.

libvirt hands its rules to ebtables one by one. The ebtables of nftables (1.8.9, Debian 12) fails
with ``RULE_DELETE failed`` if another program commits rules, in whatever table, between its look
and its commit. libvirt takes back what it did and refuses, so the same call may be made again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

LOST = "Failed to apply firewall rules"
"""Part of what libvirt says."""
TRIES = 8
"""With 50 commits a second beside it, a start fails in two of three tries."""
PAUSE_S = 0.3
"""Seconds between two tries."""

Result = TypeVar("Result")


def again_if_lost(
    call: Callable[[], Result], refusals: type[Exception], sleep: Callable[[float], object]
) -> Result:
    """What a call of libvirt gives, made again while the race is lost.

    Args:
        call: asks libvirt.
        refusals: what it raises, with libvirt's words.
        sleep: waits for some seconds.
    Raises: whatever `call` raises for another reason, or at the last try.
    """
    for _ in range(TRIES - 1):
        try:
            return call()
        except refusals as error:
            if LOST not in str(error):
                raise
            sleep(PAUSE_S)
    return call()
