"""Unbound's control socket, spoken to directly: one line in, text out."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from pathlib import Path

TIMEOUT_S = 10
"""Seconds until a command counts as failed; a reload of 100,000 names takes part of one."""


@dataclass(frozen=True)
class UnboundControl:
    """The control socket of one resolver. Every method raises OSError if it fails."""

    socket: Path

    def command(self, text: str) -> str:
        """The answer to a command.

        Raises: OSError if nobody answers or the answer is an error.
        """
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(TIMEOUT_S)
            connection.connect(str(self.socket))
            connection.sendall(f"UBCT1 {text}\n".encode())
            chunks = iter(lambda: connection.recv(65536), b"")
            answer = b"".join(chunks).decode()
        if answer.startswith("error"):
            raise OSError(f"unbound {self.socket.stem}: {text}: {answer.strip()}")
        return answer

    def lines(self, text: str) -> list[str]:
        """Lines of the answer to a listing, sorted."""
        return sorted(line for line in self.command(text).splitlines() if line)

    def zone_serial(self, zone: str) -> int | None:
        """Serial number of a policy zone as it is live; None if it isn't loaded."""
        for line in self.lines("list_auth_zones"):
            name, _, rest = line.partition("\t")
            digits = rest.strip().removeprefix("serial ")
            if name == zone and digits.isdigit():
                return int(digits)
        return None
