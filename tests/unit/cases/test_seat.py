"""The same four ways into a container and into a VM."""

from __future__ import annotations

import shlex

from abox.naming import default_mac
from tests.cases.seat import VmSeat


def test_the_most_privileged_user_of_a_vm_is_its_root():
    seat = VmSeat("project-b")
    words = {name: shlex.split(getattr(seat, name)(["id", "-u x"])[-1])
             for name in ("inside", "strongest", "beside")}  # fmt: skip
    assert words["inside"][-2:] == ["id", "-u x"]
    assert "sudo" not in words["inside"]
    assert words["strongest"][-5:] == ["sudo", "-n", "-E", "id", "-u x"]
    assert words["beside"] == words["strongest"]


def test_the_hardware_address_of_a_vm_is_known_before_it_runs():
    assert VmSeat("project-b").mac() == default_mac("project-b").lower()
