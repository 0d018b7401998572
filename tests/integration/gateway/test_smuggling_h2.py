"""Header lists of HTTP/2 that name two requests, two hosts or two lengths, inside a tunnel.

Origins speak HTTP/1.1 here, where such a list would become text; what they got is read byte by
byte, as in ``test_smuggling``.
"""

from __future__ import annotations

import pytest

from tests.cases.probe.http import open_tls
from tests.integration.gateway.h2_shapes import NORMALISED, REFUSED, Change, fields
from tests.integration.gateway.h2_wire import Frames, Stream
from tests.integration.gateway.lanes import Lane, Trials

pytestmark = pytest.mark.integration


def ask(lane: Lane, change: Change, path: str) -> Stream:
    """One request on a connection of its own."""
    proxy = (lane.gateway.pod.gateway, 8080)
    frames = Frames(open_tls(proxy, f"{lane.name}:443", sni=lane.name, alpn=["h2"]))
    frames.request(1, fields(change, lane.name, path))
    frames.listen(1)
    frames.conversation.stream.close()
    return frames.streams[1]


@pytest.fixture(scope="module")
def trials(lanes: list[Lane]) -> Trials[Change, Stream]:
    """Every list by every tunnel."""
    tunnels = [lane for lane in lanes if lane.secure]
    return Trials(tunnels, {**REFUSED, **NORMALISED}, ask)


@pytest.mark.parametrize("change", REFUSED)
def test_http_4_a_header_list_with_two_readings_is_refused(
    trials: Trials[Change, Stream], change: str
):
    for one in trials.found(change):
        assert one.messages == [], one
        assert one.answer.status in (0, 400, 403), one


@pytest.mark.parametrize("change", NORMALISED)
def test_http_4_a_header_list_that_passes_has_one_reading(
    trials: Trials[Change, Stream], lanes: list[Lane], change: str
):
    found = trials.found(change)
    trials.check_readings(change)
    for one in found:
        assert len(one.messages) <= 1, one
        for message in one.messages:
            assert message.host.removesuffix(":443") == one.lane.name, one
            assert "inside" not in message.target, one
        passed = {200, 405} if change == "trace" else {200}  # nginx answers no TRACE
        assert (one.answer.status in passed) is bool(one.messages), one
    assert not lanes[0].gateway.reached("198.51.100.66")
