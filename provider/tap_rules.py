"""The kernel's rules on a VM's tap: what libvirt made of the nwfilters, read from the kernel."""

from __future__ import annotations

import re
from collections.abc import Sequence

TAP = "TAP"
"""Stands for the name of the tap, which is another at every start."""

_OUT_BRIDGED, _IN_BRIDGED, _OUT_TO_HOST = f"FI-{TAP}", f"FO-{TAP}", f"HI-{TAP}"
_FRAMES_OUT, _FRAMES_IN = f"libvirt-I-{TAP}", f"libvirt-O-{TAP}"
CHAINS = (_OUT_BRIDGED, _IN_BRIDGED, _OUT_TO_HOST, _FRAMES_OUT, _FRAMES_IN)
"""libvirt's chains of one tap: packets out, in, out to the host; frames out, in."""


def rules_of(saved: str, tap: str) -> list[str]:
    """The rules that concern a tap, in the kernel's order, with `TAP` for its name.

    Args:
        saved: output of `iptables-save` and `ebtables-save`, one after the other.
        tap: name of the interface.
    """
    name = re.compile(rf"(?<![A-Za-z0-9_.]){re.escape(tap)}(?![A-Za-z0-9_.-])")
    lines = [line.strip() for line in saved.splitlines() if line.startswith("-A ")]
    return [name.sub(TAP, line) for line in lines if name.search(line)]


def faults(rules: Sequence[str]) -> list[str]:
    """Why a tap with these rules isn't closed; empty when all is well."""
    found = []
    for chain in CHAINS:
        body = [rule for rule in rules if rule.startswith(f"-A {chain} ")]
        if not body or body[-1] != f"-A {chain} -j DROP":
            found.append(f"the kernel's chain {chain} doesn't end in a drop")
        if not any(re.search(rf" -[jg] {re.escape(chain)}$", rule) for rule in rules):
            found.append(f"nothing leads to the kernel's chain {chain}")
    return found
