"""Sends, watches or floods with frames inside a namespace of the lab, as a program."""

from __future__ import annotations

import select
import socket
import sys
import time
from collections.abc import Iterable

from cli.frames import BROADCAST, ethernet, ipv4, tcp
from tests import host

ETH_P_ALL = 0x0003
WATCH_S = 20
FLOOD_PAUSE_S = 0.0005

PROGRAM = (
    "env",
    f"PYTHONPATH={host.ROOT}",
    *(sys.executable, "-m", "tests.integration.render.frames"),
)
"""How this module is run as a program, in whatever folder."""


def _raw(device: str) -> socket.socket:
    made = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    made.bind((device, 0))
    return made


def send(device: str, frames: Iterable[bytes]) -> None:
    """Send each frame twice: the first may meet a bridge that is still learning."""
    with _raw(device) as out:
        for frame in frames:
            for _ in range(2):
                out.send(frame)


def watch(device: str) -> None:
    """Print every different frame in hex until the input closes."""
    seen = set()
    with _raw(device) as tap:
        _say("watching")
        deadline = time.monotonic() + WATCH_S
        while time.monotonic() < deadline:
            readable, _, _ = select.select([tap, sys.stdin], [], [], 1)
            if tap in readable:
                frame = tap.recv(2048)
                if frame not in seen:
                    seen.add(frame)
                    _say(frame.hex())
            elif sys.stdin in readable:
                return


def flood(device: str, mac: str, source: str, to: str, port: int) -> None:
    """Begin connections to a port, by broadcast frames, until the input closes."""
    with _raw(device) as out:
        _say("sending")
        for number in range(int(WATCH_S / FLOOD_PAUSE_S)):
            body = tcp(source, to, (1024 + number % 60000, port), 0x02)
            out.send(ethernet(mac, BROADCAST, 0x0800, ipv4(source, to, 6, body)))
            if select.select([sys.stdin], [], [], FLOOD_PAUSE_S)[0]:
                return


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    verb, *rest = sys.argv[1:]
    if verb == "send":
        send(rest[0], map(bytes.fromhex, rest[1:]))
    elif verb == "watch":
        watch(rest[0])
    else:
        flood_device, flood_mac, flood_source, flood_to, flood_port = rest
        flood(flood_device, flood_mac, flood_source, flood_to, int(flood_port))
