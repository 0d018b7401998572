"""Calls that lost the race for the host's rules are made again, and no others."""

from __future__ import annotations

import pytest

from abox.filter_race import TRIES, again_if_lost

LOST = "internal error: Failed to apply firewall rules ebtables -t nat: RULE_DELETE failed"


class Libvirt:
    """Refuses with the given words, one a call, then answers."""

    def __init__(self, *refusals: str) -> None:
        self.refusals = list(refusals)
        self.slept: list[float] = []

    def ask(self) -> str:
        if self.refusals:
            raise OSError(self.refusals.pop(0))
        return "started"

    def run(self) -> str:
        return again_if_lost(self.ask, OSError, self.slept.append)


@pytest.mark.parametrize("times", range(TRIES))
def test_a_lost_race_is_run_again(times: int) -> None:
    libvirt = Libvirt(*[LOST] * times)
    assert libvirt.run() == "started"
    assert len(libvirt.slept) == times


def test_it_ends_with_libvirts_words() -> None:
    libvirt = Libvirt(*[LOST] * TRIES)
    with pytest.raises(OSError, match="Failed to apply firewall rules"):
        libvirt.run()
    assert libvirt.refusals == []


def test_another_refusal_is_none_of_its_business() -> None:
    libvirt = Libvirt(LOST, "domain is already running")
    with pytest.raises(OSError, match="already running"):
        libvirt.run()
    assert len(libvirt.slept) == 1
