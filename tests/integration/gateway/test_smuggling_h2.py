"""Header lists of HTTP/2 that name two requests, two hosts or two lengths, inside a tunnel.

Origins speak HTTP/1.1 here, where such a list would become text; what they got is read byte by
byte, as in ``test_smuggling``.
"""

from __future__ import annotations

import pytest

from tests.cases.probe.http import open_tls
from tests.integration.gateway.h2_shapes import NORMALISED, REFUSED, Change, fields
from tests.integration.gateway.h2_wire import Frames, Stream
from tests.integration.gateway.lanes import Found, Lane, check_readings, through

pytestmark = pytest.mark.integration


def ask(lane: Lane, path: str, change: Change) -> Stream:
    """One request on a connection of its own."""
    proxy = (lane.gateway.pod.gateway, 8080)
    frames = Frames(open_tls(proxy, f"{lane.name}:443", sni=lane.name, alpn=["h2"]))
    frames.request(1, fields(change, lane.name, path))
    frames.listen(1)
    frames.conversation.stream.close()
    return frames.streams[1]


def send(lanes: list[Lane], change: Change) -> list[Found[Stream]]:
    """A request by every tunnel."""
    tunnels = [lane for lane in lanes if lane.secure]
    return through(tunnels, lambda lane, path: ask(lane, path, change))


@pytest.mark.parametrize("change", REFUSED.values(), ids=REFUSED)
def test_http_4_a_header_list_with_two_readings_is_refused(lanes: list[Lane], change: Change):
    for one in send(lanes, change):
        assert one.messages == [], one
        assert one.answer.status in (0, 400, 403), one


@pytest.mark.parametrize("change", NORMALISED.values(), ids=NORMALISED)
def test_http_4_a_header_list_that_passes_has_one_reading(lanes: list[Lane], change: Change):
    found = send(lanes, change)
    check_readings(found)
    for one in found:
        assert len(one.messages) <= 1, one
        for message in one.messages:
            assert message.host.removesuffix(":443") == one.lane.name, one
            assert "inside" not in message.target, one
        assert (one.answer.status == 200) is bool(one.messages), one
    assert not lanes[0].gateway.reached("198.51.100.66")
