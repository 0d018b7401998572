"""Bad input is told in three lines before anything is touched."""

from __future__ import annotations

import pytest

from tests import host
from tests.cases.sandbox import Sandbox
from tests.e2e.conftest import ALLOWED

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(200)]

BAD = {
    "unknown-key": ({"alow": [ALLOWED]}, "alow"),
    "bad-entry": ({"allow": ["https://allowed.test/path"]}, "allow[0]"),
    "public-suffix": ({"allow": [ALLOWED, "*.co.uk"]}, "allow[1]"),
    "bad-cidr": ({"allow": [], "allow_private_cidrs": ["10.0.0.5/8"]}, "allow_private_cidrs"),
    "image-without-digest": ({"allow": [], "agent": {"image": "debian:12"}}, "agent.image"),
    "vm-mac": ({"allow": [], "backend": "vm", "vm": {"mac": "52-54-00-12-34-56"}}, "vm.mac"),
    "vm-image": (
        {"allow": [], "backend": "vm", "vm": {"image": f"/etc/hostname@sha256:{'0' * 64}"}},
        "vm.image",
    ),
    "vm-in-container": ({"allow": [], "vm": {"cpus": 4}}, "vm.cpus"),
    "host-root": ({"allow": [], "agent": {"mounts": [{"source": "/", "target": "/x"}]}}, "mounts"),
    "absent-image": ({"allow": [], "agent": {"image": "sha256:" + "0" * 64}}, "image"),
}


@pytest.fixture
def untouched(make_sandbox):
    sandbox = make_sandbox("b")
    yield sandbox
    sandbox.down()


def standing(sandbox: Sandbox) -> str:
    label = f"label=abox.sandbox={sandbox.name}"
    return "".join(
        host.run(["docker", *kind, "-q", "--filter", label]).stdout
        for kind in (["ps", "-a"], ["network", "ls"], ["volume", "ls"])
    )


@pytest.mark.parametrize(("settings", "named"), BAD.values(), ids=BAD)
@pytest.mark.parametrize("command", ["preview", "up"])
def test_input_1_bad_settings_touch_nothing(untouched, settings, named, command):
    """INPUT-1: what, why and what to do, naming the key; nothing stands afterwards."""
    untouched.stack.configure(settings)
    done = untouched.stack.preview() if command == "preview" else untouched.stack.up(check=False)
    said = done.stdout + done.stderr
    assert done.code != 0
    assert named in said
    assert "why: " in said
    assert "do: " in said
    if named != "image":  # where a provider refuses, Pulumi's SDK adds a traceback of its own
        assert "Traceback" not in said
    assert standing(untouched) == ""


def test_input_2_a_taken_subnet_names_its_owner(untouched, standing_subnet):
    """INPUT-2: the error says who has it."""
    owner, subnet = standing_subnet
    untouched.stack.configure({"allow": [], "subnet": subnet})
    done = untouched.stack.preview()
    assert done.code != 0
    assert subnet in done.stdout + done.stderr
    assert owner in done.stdout + done.stderr
    assert standing(untouched) == ""


@pytest.fixture
def standing_subnet(sandbox_up):
    return sandbox_up.name, str(sandbox_up.subnet)
