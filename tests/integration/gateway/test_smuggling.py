"""Messages that two readers could understand differently, on their way to servers of three makes.

What reaches an origin is taken byte by byte by a relay in front of it, read by a reader that
accepts one reading only, and compared with what the server itself understood.
"""

from __future__ import annotations

import pytest

from tests.integration.gateway.lanes import Found, Lane, check_readings, through
from tests.integration.gateway.shapes import NORMALISED, REFUSED
from tests.integration.gateway.wire import AmbiguousError, Heard, read_strictly

pytestmark = pytest.mark.integration

REFUSALS = {400, 403}


def send(lanes: list[Lane], shape: str) -> list[Found[Heard]]:
    """Send a shape by every lane."""
    return through(lanes, lambda lane, path: lane.send(shape, path))


@pytest.mark.parametrize("shape", REFUSED.values(), ids=REFUSED)
def test_http_4_what_has_two_readings_is_refused(lanes: list[Lane], shape: str):
    for one in send(lanes, shape):
        assert one.messages == [], one
        assert one.answer.statuses[0] in REFUSALS, one


@pytest.mark.parametrize("shape", NORMALISED.values(), ids=NORMALISED)
def test_http_4_what_passes_has_one_reading_for_every_origin(lanes: list[Lane], shape: str):
    found = send(lanes, shape)
    check_readings(found)
    for one in found:
        assert len(one.messages) <= 1, one
        for message in one.messages:
            assert message.host == one.lane.name, one
            assert "inside" not in message.target, one
            assert set(message.trailers) <= {"x-sum"}, one
        assert one.answer.statuses.count(200) <= len(one.messages), one
    assert not lanes[0].gateway.reached("198.51.100.66")


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\nHost: a\n\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nX: b\r\n c\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +1\r\n\r\na",
        b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: x\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1;a\r\na\r\n0\r\n\r\n",
    ],
)
def test_the_strict_reader_notices_a_second_reading(data: bytes):
    with pytest.raises(AmbiguousError):
        read_strictly(data)
