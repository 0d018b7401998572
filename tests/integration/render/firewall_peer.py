"""What runs in a namespace of the firewall lab: listeners, or one attempt to reach something."""

from __future__ import annotations

import contextlib
import errno
import os
import select
import socket
import struct
import sys

WAIT_S = 0.7
"""How long an attempt waits for an answer; everything is on one machine."""

PROTOCOLS = {"sctp": 132, "udplite": 136, "gre": 47, "esp": 50}
IP_TRANSPARENT = 19
V6 = socket.AF_INET6

REFUSED = {
    errno.ECONNREFUSED: "reset",
    errno.EHOSTUNREACH: "prohibited",
    errno.ENETUNREACH: "prohibited",
    errno.EACCES: "prohibited",
}


def serve(ports: list[int]) -> None:
    """Listen on TCP and UDP, both families, until the input closes; UDP answers what it gets."""
    tcp = {socket.create_server(("::", p), family=V6, dualstack_ipv6=True) for p in ports}
    udp = {_datagrams(port) for port in ports}
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    while True:
        readable, _, _ = select.select([sys.stdin, *tcp, *udp], [], [])
        if sys.stdin in readable:
            return
        for one in tcp & set(readable):
            one.accept()[0].close()
        for one in udp & set(readable):
            _answer(one)


def _datagrams(port: int) -> socket.socket:
    made = socket.socket(V6, socket.SOCK_DGRAM)
    made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVPKTINFO, 1)
    made.bind(("::", port))
    return made


def _answer(listener: socket.socket) -> None:
    """Answer from the address that was asked, which is one of several."""
    data, asked, _, peer = listener.recvmsg(2048, 128)
    with contextlib.suppress(OSError):  # a spoofed sender can't be answered
        listener.sendmsg([data], asked, 0, peer)


def probe(proto: str, to: str, port: int, source: str, iface: str) -> str:
    """One attempt, in a word."""
    try:
        if proto == "tcp":
            return _probe_tcp(to, port, source, iface)
        if proto == "udp":
            return _probe_udp(to, port, source, iface)
        if proto == "icmp":
            return _probe_echo(to)
        return _send_raw(PROTOCOLS[proto], to)
    except TimeoutError:
        return "silent"
    except OSError as error:
        return REFUSED.get(error.errno or 0, f"error {error}")


def _socket(kind: int, to: str, source: str) -> socket.socket:
    family = socket.AF_INET6 if ":" in to else socket.AF_INET
    made = socket.socket(family, kind)
    made.settimeout(WAIT_S)
    if source:
        made.setsockopt(socket.IPPROTO_IP, IP_TRANSPARENT, 1)
        made.bind((source, 0))
    return made


def _target(to: str, port: int, iface: str) -> tuple[str, int] | tuple[str, int, int, int]:
    return (to, port, 0, socket.if_nametoindex(iface)) if iface else (to, port)


def _probe_tcp(to: str, port: int, source: str, iface: str) -> str:
    with _socket(socket.SOCK_STREAM, to, source) as made:
        made.connect(_target(to, port, iface))
        return "connected"


def _probe_udp(to: str, port: int, source: str, iface: str) -> str:
    with _socket(socket.SOCK_DGRAM, to, source) as made:
        made.connect(_target(to, port, iface))
        made.send(b"x" * 40)
        made.recv(2048)
        return "answered"


def _probe_echo(to: str) -> str:
    number = os.getpid() & 0xFFFF
    head = struct.pack("!BBHHH", 8, 0, 0, number, 1)
    total = sum(struct.unpack("!4H", head))
    head = struct.pack("!BBHHH", 8, 0, ~(total + (total >> 16)) & 0xFFFF, number, 1)
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP) as made:
        made.settimeout(WAIT_S)
        made.sendto(head, (to, 0))
        while True:
            kind, _, _, answered, _ = struct.unpack("!BBHHH", made.recv(2048)[20:28])
            if kind == 0 and answered == number:
                return "answered"


def _send_raw(protocol: int, to: str) -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, protocol) as made:
        made.sendto(b"\0" * 40, (to, 0))
    return "sent"


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve([int(port) for port in sys.argv[2:]])
    else:
        name, address, number = sys.argv[2:5]
        sys.stdout.write(probe(name, address, int(number), sys.argv[5], sys.argv[6]) + "\n")
