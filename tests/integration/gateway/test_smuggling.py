"""Messages that two readers could understand differently, on their way to servers of three makes.

What reaches an origin is taken byte by byte by a relay in front of it, read by a reader that
accepts one reading only, and compared with what the server itself understood.
"""

from __future__ import annotations

import pytest

from tests.integration.gateway.lanes import Lane, Trials
from tests.integration.gateway.shapes import NORMALISED, REFUSED
from tests.integration.gateway.wire import AmbiguousError, Heard, read_strictly

pytestmark = pytest.mark.integration

REFUSALS = {400, 403}
ANSWER_S = 20.0
"""So long a busy machine may take for an answer that needs nobody else."""


@pytest.fixture(scope="module")
def refused(lanes: list[Lane]) -> Trials[str, Heard]:
    """Shapes that get an answer at once."""
    return Trials(lanes, REFUSED, lambda lane, shape, path: lane.send(shape, path, ANSWER_S))


@pytest.fixture(scope="module")
def normalised(lanes: list[Lane]) -> Trials[str, Heard]:
    """Shapes some of which have no end, for some readers."""
    return Trials(lanes, NORMALISED, lambda lane, shape, path: lane.send(shape, path))


@pytest.mark.parametrize("shape", REFUSED)
def test_http_4_what_has_two_readings_is_refused(refused: Trials[str, Heard], shape: str):
    for one in refused.found(shape):
        assert one.messages == [], one
        assert one.answer.statuses[0] in REFUSALS, one


@pytest.mark.parametrize("shape", NORMALISED)
def test_http_4_what_passes_has_one_reading_for_every_origin(
    normalised: Trials[str, Heard], lanes: list[Lane], shape: str
):
    found = normalised.found(shape)
    normalised.check_readings(shape)
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
