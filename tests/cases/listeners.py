"""Services of the host that a case wants to exist: they accept and say nothing."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator, Sequence


@contextlib.contextmanager
def listening(address: str, wanted: Sequence[str]) -> Iterator[None]:
    """Listen on the host's own address on the bridge.

    Args:
        address: the host's address there.
        wanted: protocol and port, for example ``tcp/22``. A port that the host already listens on
            is as good.
    """
    with contextlib.ExitStack() as stack:
        for text in wanted:
            proto, _, port = text.partition("/")
            kind = socket.SOCK_DGRAM if proto == "udp" else socket.SOCK_STREAM
            sock = stack.enter_context(socket.socket(socket.AF_INET, kind))
            with contextlib.suppress(OSError):
                sock.bind((address, int(port)))
                if kind == socket.SOCK_STREAM:
                    sock.listen(8)
        yield
