"""What came before the record was asked for is in it: a count of none means none."""

from __future__ import annotations

import socket

import pytest

from tests.world.capture import Capture

pytestmark = pytest.mark.integration


def test_a_packet_that_was_sent_is_seen_by_the_next_look() -> None:
    """The reader's thread may be late; who looks is not."""
    capture = Capture("lo")
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.bind(("127.0.0.1", 0))
            port = sender.getsockname()[1]
            for number in range(1, 301):
                sender.sendto(b"x", ("127.0.0.1", 9))
                seen = [p for p in capture.packets() if p.source_port == port and not p.outgoing]
                assert len(seen) == number
        capture.clear()
        assert [p for p in capture.packets() if p.source_port == port] == []
    finally:
        capture.close()
