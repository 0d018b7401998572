"""One HTTP/2 request on an open TLS connection."""

from __future__ import annotations

from typing import Any

import h2.config
import h2.connection
import h2.events
import h2.exceptions

from tests.cases.probe.http import FAILURES, IDLE_S, Conversation, Response, failed


def _fields(action: dict[str, Any], target: str, authority: str) -> list[tuple[str, str]]:
    pseudo = [
        (":method", action["method"]),
        (":scheme", "https"),
        (":authority", authority),
        (":path", target),
    ]
    return pseudo + [(k.lower(), str(v)) for k, v in (action.get("headers") or {}).items()]


def ask(kept: Conversation, action: dict[str, Any], target: str, authority: str) -> Response:
    """Send the request and wait for its answer."""
    if kept.http2 is None:
        config = h2.config.H2Configuration(
            client_side=True,
            header_encoding="latin-1",
            validate_outbound_headers=False,
            normalize_outbound_headers=False,
        )
        kept.http2 = h2.connection.H2Connection(config)
        kept.http2.initiate_connection()
    connection = kept.http2
    body = str(action.get("body") or "").encode("latin-1")
    try:
        stream = connection.get_next_available_stream_id()
        fields = _fields(action, target, authority)
        connection.send_headers(stream, fields, end_stream=not body)
        if body:
            connection.send_data(stream, body, end_stream=True)
        kept.stream.send(connection.data_to_send())
        return _read(kept, stream)
    except (*FAILURES, h2.exceptions.H2Error) as error:
        return failed(error)


def _read(kept: Conversation, stream: int) -> Response:
    response = Response("closed", chain=kept.chain, version="HTTP/2")
    while True:
        data = kept.stream.recv(IDLE_S)
        if not data:
            return response
        over = False
        for event in kept.http2.receive_data(data):
            over = _take(kept, response, event, stream) or over
        kept.stream.send(kept.http2.data_to_send())
        if over:
            return response


def _take(kept: Conversation, response: Response, event: Any, stream: int) -> bool:
    """Use one event; whether the answer is complete."""
    if isinstance(event, h2.events.ConnectionTerminated):
        response.error = f"GOAWAY {event.error_code}"
        return True
    if getattr(event, "stream_id", None) != stream:
        return False
    if isinstance(event, h2.events.ResponseReceived):
        response.headers = [(str(k), str(v)) for k, v in event.headers]
        response.status = int(dict(response.headers)[":status"])
    elif isinstance(event, h2.events.DataReceived):
        response.body += event.data
        kept.http2.acknowledge_received_data(event.flow_controlled_length, stream)
    elif isinstance(event, h2.events.StreamReset):
        response.error = f"RST_STREAM {event.error_code}"
        return True
    return isinstance(event, h2.events.StreamEnded)
