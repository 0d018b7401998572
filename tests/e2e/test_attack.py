"""A short random attack, with moves of its own in every run; ``make attack`` is the long one."""

from __future__ import annotations

import secrets

import pytest

from tests.attack.arena import Arena
from tests.cases.sandbox import Sandbox

pytestmark = pytest.mark.e2e

ATTACK_S = 35
"""Longer than the kernel keeps a packet in pieces, and then tells its sender."""


@pytest.mark.timeout(300)
def test_attack_1_random_moves_lead_nowhere_and_break_nothing(sandbox_up: Sandbox):
    """Counted on the host: nothing leaves the pod but what is allowed, nothing reaches the host."""
    told: list[str] = []
    outcome = Arena(sandbox_up).attack(secrets.randbelow(2**32), ATTACK_S, told.append)
    assert outcome.faults == [], "\n".join(outcome.lines())
    assert outcome.packets["allowed"] > 0
    assert outcome.inside.moves.total() > 50
    assert outcome.beside.moves["frames"] > 50
