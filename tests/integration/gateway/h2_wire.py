"""HTTP/2 as frames: header lists that no library would send, and what comes back."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import hpack
from hyperframe.frame import (
    DataFrame,
    Frame,
    GoAwayFrame,
    HeadersFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)

from tests.cases.probe.http import FAILURES, Conversation

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
ANSWER_S = 4.0
Fields = list[tuple[bytes, bytes]]


@dataclass
class Stream:
    """What came back on one stream."""

    status: int = 0
    body: bytes = b""
    reset: int | None = None
    """Error code of a RST_STREAM."""
    ended: bool = False
    fields: list[tuple[str, str]] = field(default_factory=list)
    trailers: list[tuple[str, str]] = field(default_factory=list)


@dataclass
class Frames:
    """One HTTP/2 connection, written frame by frame."""

    conversation: Conversation
    streams: dict[int, Stream] = field(default_factory=dict)
    goaway: int | None = None
    closed: bool = False
    protocols: bool = False
    """Whether the peer's settings allow extended CONNECT (RFC 8441)."""

    def __post_init__(self) -> None:
        """Send the preface."""
        self._encoder, self._decoder = hpack.Encoder(), hpack.Decoder()
        self._rest = b""
        self.send_raw(PREFACE + SettingsFrame(0).serialize())

    def send_raw(self, data: bytes) -> None:
        """Send bytes as they are."""
        try:
            self.conversation.stream.send(data)
        except FAILURES:
            self.closed = True

    def block(self, fields: Fields) -> bytes:
        """A header block, nothing of it checked."""
        return bytes(self._encoder.encode(fields, huffman=False))

    def headers(self, stream: int, fields: Fields, *flags: str) -> bytes:
        """A HEADERS frame."""
        return HeadersFrame(stream, self.block(fields), flags=["END_HEADERS", *flags]).serialize()

    def request(self, stream: int, fields: Fields, body: bytes = b"", end: str = "data") -> None:
        """Send a request.

        Args:
            stream: odd number.
            fields: pseudo-fields and fields, in the order in which they are sent.
            body: one DATA frame, if there is any.
            end: ``data`` to end with the body, ``open`` to leave the stream open.
        """
        self.streams[stream] = Stream()
        done = ["END_STREAM"] if not body and end == "data" else []
        frames = self.headers(stream, fields, *done)
        if body:
            frames += DataFrame(
                stream, body, flags=["END_STREAM"] if end == "data" else []
            ).serialize()
        self.send_raw(frames)

    def listen(self, *streams: int, timeout_s: float = ANSWER_S) -> None:
        """Read until these streams, or the connection, have ended."""
        deadline = time.monotonic() + timeout_s
        while not self.closed and not all(self.streams[s].ended for s in streams):
            try:
                data = self.conversation.stream.recv(deadline - time.monotonic())
            except TimeoutError:
                return
            except FAILURES:
                data = b""
            self.closed = not data
            self._take(data)

    def _take(self, data: bytes) -> None:
        data = self._rest + data
        while len(data) >= 9:
            frame, length = Frame.parse_frame_header(memoryview(data)[:9])
            if len(data) < 9 + length:
                break
            frame.parse_body(memoryview(data)[9 : 9 + length])
            data = data[9 + length :]
            self._use(frame)
        self._rest = data

    def _use(self, frame: Frame) -> None:
        stream = self.streams.get(frame.stream_id, Stream())
        if isinstance(frame, HeadersFrame):
            self._fields(stream, frame)
        elif isinstance(frame, DataFrame):
            stream.body += frame.data
            self._open_window(frame.stream_id, frame.flow_controlled_length)
        elif isinstance(frame, RstStreamFrame):
            stream.reset, stream.ended = frame.error_code, True
        elif isinstance(frame, GoAwayFrame):
            self.goaway = frame.error_code
        elif isinstance(frame, SettingsFrame) and "ACK" not in frame.flags:
            self.protocols = frame.settings.get(8) == 1
            self.send_raw(SettingsFrame(0, flags=["ACK"]).serialize())
        if isinstance(frame, (HeadersFrame, DataFrame)) and "END_STREAM" in frame.flags:
            stream.ended = True

    def _open_window(self, stream: int, size: int) -> None:
        for number in (0, stream) if size else ():
            self.send_raw(WindowUpdateFrame(number, window_increment=size).serialize())

    def _fields(self, stream: Stream, frame: HeadersFrame) -> None:
        decoded = [(str(k), str(v)) for k, v in self._decoder.decode(frame.data)]
        named = dict(decoded)
        if not stream.status and not named.get(":status", "1").startswith("1"):
            stream.status, stream.fields = int(named[":status"]), decoded
        elif ":status" not in named:
            stream.trailers = decoded
