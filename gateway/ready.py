"""Whether the pod serves the health name: by DNS, by plain HTTP and inside a tunnel."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Callable
from ipaddress import IPv4Address
from pathlib import Path

from abox.allowlist import HEALTH_NAME
from abox.render.unbound import HEALTH_ADDRESS
from gateway.apply import CERTIFICATE_FILE
from gateway.dns_probe import ask

TRY_TIMEOUT_S = 5
POLL_S = 0.1


def wait_until_ready(gateway: IPv4Address, proxy_port: int, timeout_s: float) -> str:
    """Wait until every probe succeeds.

    Returns: empty if they do in time, else what the first failing one said last.
    """
    deadline = time.monotonic() + timeout_s
    while complaint := _first_complaint(gateway, proxy_port):
        if time.monotonic() > deadline:
            return complaint
        time.sleep(POLL_S)
    return ""


def _first_complaint(gateway: IPv4Address, proxy_port: int) -> str:
    probes: dict[str, Callable[[], None]] = {
        "dns": lambda: _probe_dns(gateway),
        "proxy": lambda: _probe_http(gateway, proxy_port),
        "proxy (intercepted)": lambda: _probe_https(gateway, proxy_port),
    }
    for name, probe in probes.items():
        try:
            probe()
        except OSError as error:
            return f"{name}: {error}"
    return ""


def _probe_dns(gateway: IPv4Address) -> None:
    answer = ask(gateway, HEALTH_NAME)
    if answer.addresses != (IPv4Address(HEALTH_ADDRESS),):
        raise OSError(f"{HEALTH_NAME} resolves to {answer}")


def _probe_http(gateway: IPv4Address, proxy_port: int) -> None:
    with _connect(gateway, proxy_port) as client:
        _get(client, f"http://{HEALTH_NAME}/")


def _probe_https(gateway: IPv4Address, proxy_port: int) -> None:
    context = ssl.create_default_context(cafile=str(Path(CERTIFICATE_FILE)))
    with _connect(gateway, proxy_port) as client:
        authority = f"{HEALTH_NAME}:443"
        client.sendall(f"CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n".encode())
        _expect_200(_head(client))
        with context.wrap_socket(client, server_hostname=HEALTH_NAME) as inner:
            _get(inner, "/")


def _connect(gateway: IPv4Address, proxy_port: int) -> socket.socket:
    return socket.create_connection((str(gateway), proxy_port), timeout=TRY_TIMEOUT_S)


def _get(client: socket.socket, target: str) -> None:
    request = f"GET {target} HTTP/1.1\r\nHost: {HEALTH_NAME}\r\nConnection: close\r\n\r\n"
    client.sendall(request.encode())
    _expect_200(_head(client))


def _head(client: socket.socket) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data:
        received = client.recv(4096)
        if not received:
            break
        data += received
    return data


def _expect_200(head: bytes) -> None:
    if not head.startswith(b"HTTP/1.1 200 "):
        raise OSError(f"answered {head.splitlines()[0].decode('latin-1') if head else 'nothing'!r}")
