"""How this host runs VMs: the probe's answer, and emulation where nobody has asked."""

from __future__ import annotations

import pytest

from abox.errors import HostError
from components.hypervisor import host_acceleration


def test_without_a_proof_there_is_no_acceleration(tmp_path):
    assert host_acceleration(tmp_path / "gone.json") == "qemu"


@pytest.mark.parametrize("kind", ["qemu", "kvm"])
def test_the_probes_answer_holds(tmp_path, kind):
    path = tmp_path / "acceleration.json"
    path.write_text(f'{{"type": "{kind}", "reason": "a kernel booted"}}')
    assert host_acceleration(path) == kind


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"type": "xen"}', '{"type": null}'])
def test_an_answer_that_is_none_is_refused(tmp_path, text):
    path = tmp_path / "acceleration.json"
    path.write_text(text)
    with pytest.raises(HostError, match="make vm"):
        host_acceleration(path)
