"""A changed allowlist is live within seconds, in place, and nothing restarts."""

from __future__ import annotations

import pytest

from tests.e2e.conftest import SETTINGS, fetch_status, started

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]


def test_live_1_a_name_is_added_and_removed_without_a_restart(sandbox_up, world):
    """LIVE-1: `up` updates in place; the name works, then is refused by both filters."""
    world.dns.set({"new.test": ["198.51.100.31"], "allowed.test": ["198.51.100.10"]})
    world.origin(at="198.51.100.31:443", speaks="https")
    url = "https://new.test/"
    before = started(sandbox_up)
    assert fetch_status(sandbox_up, url) == "000"  # CONNECT is refused
    sandbox_up.stack.configure(
        sandbox_up.full_settings({**SETTINGS, "allow": [*SETTINGS["allow"], "new.test"]})
    )
    preview = sandbox_up.stack.preview()
    assert "1 to update" in preview.stdout
    assert "replace" not in preview.stdout
    sandbox_up.stack.up()
    assert fetch_status(sandbox_up, url) == "200"
    sandbox_up.stack.configure(sandbox_up.full_settings(SETTINGS))
    sandbox_up.stack.up()
    assert fetch_status(sandbox_up, url) == "000"
    asked = "import socket,sys; socket.getaddrinfo('new.test', 443)"
    assert sandbox_up.exec(["python3", "-c", asked]).code != 0
    assert started(sandbox_up) == before


def test_live_2_a_port_opens_in_both_layers(sandbox_up, world):
    """LIVE-2: a name with a port of its own passes the proxy and the table."""
    world.dns.set({"port.test": ["198.51.100.32"]})
    world.origin(at="198.51.100.32:8443", speaks="http")
    url = "http://port.test:8443/"
    assert fetch_status(sandbox_up, url) == "403"
    entry = {"host": "port.test", "ports": [8443]}
    sandbox_up.stack.configure(
        sandbox_up.full_settings({**SETTINGS, "allow": [*SETTINGS["allow"], entry]})
    )
    sandbox_up.stack.up()
    try:
        assert fetch_status(sandbox_up, url) == "200"
    finally:
        sandbox_up.stack.configure(sandbox_up.full_settings(SETTINGS))
        sandbox_up.stack.up()
    assert fetch_status(sandbox_up, url) == "403"
