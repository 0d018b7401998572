"""The user's own image takes the place of the one that is built here."""

from __future__ import annotations

import json

import pytest

from tests import host
from tests.e2e.conftest import ALLOWED, SETTINGS, furnish

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]


@pytest.fixture
def own_image_id():
    """An image without the agent's user, home, workspace and tools: the one all are built on."""
    locked = json.loads((host.ROOT / ".abox" / "images.lock.json").read_text())
    return locked["base"]["id"]


def test_image_1_an_own_image_works_without_preparation(make_sandbox, world, own_image_id):
    """IMAGE-1: home and workspace are writable, trust and proxy are set, nothing drifts."""
    furnish(world)
    sandbox = make_sandbox("i")
    sandbox.up({**SETTINGS, "agent": {"image": own_image_id}})
    try:
        inspected = sandbox.inspect(sandbox.facts.agent_container)
        assert inspected["Image"] == own_image_id
        write = "touch /workspace/x ~/x && id -u"
        done = sandbox.exec(["sh", "-c", write])
        assert (done.stdout, done.stderr) == ("1000\n", "")
        code = "import urllib.request as u, sys; print(u.urlopen(sys.argv[1]).status)"
        assert sandbox.exec(["python3", "-c", code, f"https://{ALLOWED}/"]).stdout == "200\n"
        denied = sandbox.exec(["python3", "-c", code, "http://evil.test/"])
        assert denied.code != 0
        assert "403" in denied.stderr
        assert not sandbox.stack.drifted()
    finally:
        sandbox.down()
