"""HTTP/2 at an origin: records requests, answers as told, echoes gRPC messages."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

import h2.config
import h2.connection
import h2.events
import h2.exceptions

from tests.world.http1 import Answer, Request

READ = 1 << 16


def _text(value: bytes | str) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else value


@dataclass
class _Stream:
    request: Request
    body: bytearray = field(default_factory=bytearray)

    @property
    def grpc(self) -> bool:
        return any(
            k == "content-type" and v.startswith("application/grpc")
            for k, v in self.request.headers
        )


class Http2Origin:
    """One HTTP/2 connection of an origin."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        *,
        at: str,
        answer: Answer,
        record: Callable[[Request], None],
    ) -> None:
        self._reader, self._writer = reader, writer
        self._at, self._answer, self._record = at, answer, record
        self._streams: dict[int, _Stream] = {}
        self._window = asyncio.Event()
        self._gone = False
        config = h2.config.H2Configuration(client_side=False, header_encoding=None)
        self._connection = h2.connection.H2Connection(config)

    async def serve(self) -> None:
        """Serve until the peer leaves."""
        self._connection.initiate_connection()
        await self._flush()
        try:
            async with asyncio.TaskGroup() as tasks:
                while data := await self._reader.read(READ):
                    for event in self._connection.receive_data(data):
                        self._take(event, tasks)
                    await self._flush()
                self._gone = True
                self._window.set()
        except* (h2.exceptions.ProtocolError, ConnectionError):
            pass  # the peer left, or broke the protocol: either way it is over

    async def _flush(self) -> None:
        self._writer.write(self._connection.data_to_send())
        await self._writer.drain()

    def _take(self, event: h2.events.Event, tasks: asyncio.TaskGroup) -> None:
        if isinstance(event, h2.events.RequestReceived):
            self._open(event)
        elif isinstance(event, h2.events.DataReceived):
            stream = event.stream_id
            self._streams[stream].body += event.data
            self._connection.acknowledge_received_data(event.flow_controlled_length, stream)
        elif isinstance(event, h2.events.StreamEnded):
            tasks.create_task(self._say(event.stream_id))
        elif isinstance(event, h2.events.WindowUpdated):
            self._window.set()
        elif isinstance(event, h2.events.StreamReset):
            self._streams.pop(event.stream_id, None)

    def _open(self, event: h2.events.RequestReceived) -> None:
        headers = [(_text(k), _text(v)) for k, v in event.headers]
        named = dict(headers)
        request = Request(
            self._at, named.get(":method", ""), named.get(":path", ""), "HTTP/2", headers
        )
        self._streams[event.stream_id] = _Stream(request)
        self._record(request)

    async def _say(self, stream_id: int) -> None:
        stream = self._streams[stream_id]
        stream.request.body = bytes(stream.body)
        if stream.grpc:
            kind = [(":status", "200"), ("content-type", "application/grpc")]
            self._connection.send_headers(stream_id, kind)
            await self._send(stream_id, bytes(stream.body), drip_s=0, end=False)
            self._connection.send_headers(stream_id, [("grpc-status", "0")], end_stream=True)
        else:
            status, headers, body = self._answer.content(stream.request)
            fields = [(":status", str(status)), *((k.lower(), v) for k, v in headers.items())]
            fields.append(("content-length", str(len(body))))
            no_body = stream.request.method == "HEAD"
            self._connection.send_headers(stream_id, fields, end_stream=no_body)
            if not no_body:
                await self._send(stream_id, body, drip_s=self._answer.drip_s, end=True)
        await self._flush()

    async def _send(self, stream_id: int, body: bytes, *, drip_s: float, end: bool) -> None:
        """Send a body as fast as the peer's window, or the drip, lets it go."""
        pause_s = drip_s / max(1, len(body)) if drip_s else 0.0
        start = 0
        while start < len(body) and not self._gone:
            window = self._connection.local_flow_control_window(stream_id)
            if window <= 0:
                self._window.clear()
                await self._flush()
                await self._window.wait()
                continue
            size = 1 if drip_s else min(window, self._connection.max_outbound_frame_size)
            self._connection.send_data(stream_id, body[start : start + size])
            start += size
            await self._flush()
            if pause_s:
                await asyncio.sleep(pause_s)
        if end:
            self._connection.end_stream(stream_id)
