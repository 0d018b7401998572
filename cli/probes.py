"""What `abox check` runs inside the sandbox: attempts, and what came of each. No judgement here.

`cli/check.py` sends the text of this file to a Python interpreter of the agent on standard input,
followed by a call of `main` with the plan. Therefore: standard library only, any Python from 3.7,
and nothing is imported from this project.

An attempt is `[kind, arguments]`; its answer is `[outcome, detail, seconds]`. An outcome is a word
that the plan knows ("refused", "NXDOMAIN", "403"), with a second word where it matters.
"""

# ruff: noqa: UP041, PTH108, PTH110, PTH112, PTH123, PTH208
# socket.timeout is no TimeoutError before Python 3.10, and plain calls do here.

from __future__ import annotations

import ctypes
import errno
import functools
import json
import os
import platform
import re
import resource
import select
import socket
import ssl
import struct
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

CONNECT_TIMEOUT_S = 2.5
"""After this long without an answer a connection counts as dropped."""

SILENCE_S = 1.2
"""How long an answer to a datagram is waited for."""

PROXY_TIMEOUT_S = 8.0
"""How long the proxy may take for one answer; a dead upstream costs it its own time-out first."""

THREADS = 32
"""Attempts at the same time; small enough for a low limit on processes."""

LIMIT = 64 * 1024
"""Bytes of an answer that are read."""

ERRNO_WORDS = {
    errno.ECONNREFUSED: "refused",
    errno.ECONNRESET: "refused",
    errno.ENETUNREACH: "unreachable",
    errno.EHOSTUNREACH: "unreachable",
    errno.EADDRNOTAVAIL: "unreachable",
    errno.ENETDOWN: "unreachable",
    errno.EACCES: "prohibited",
    errno.EPERM: "prohibited",
    errno.ETIMEDOUT: "dropped",
    errno.EAFNOSUPPORT: "unsupported",
    errno.EPROTONOSUPPORT: "unsupported",
    errno.ESOCKTNOSUPPORT: "unsupported",
}

RCODES = ("NOERROR", "FORMERR", "SERVFAIL", "NXDOMAIN", "NOTIMP", "REFUSED")

SYSCALLS = {
    "x86_64": {
        "unshare": 272,
        "mount": 165,
        "open_by_handle_at": 304,
        "bpf": 321,
        "init_module": 175,
        "kexec_load": 246,
        "perf_event_open": 298,
        "add_key": 248,
    },
    "aarch64": {
        "unshare": 97,
        "mount": 40,
        "open_by_handle_at": 265,
        "bpf": 280,
        "init_module": 105,
        "kexec_load": 104,
        "perf_event_open": 241,
        "add_key": 217,
    },
}

CLONE_NEWUSER = 0x10000000
LOOSE_SOURCE_ROUTE = 131


def word_of(error: OSError) -> str:
    """The outcome that an operating system error stands for."""
    if isinstance(error, (socket.timeout, TimeoutError)):
        return "dropped"
    number = error.errno or 0
    return ERRNO_WORDS.get(number) or errno.errorcode.get(number, "error")


# --- connections and datagrams -----------------------------------------------------------------


def tcp(host: str, port: int) -> tuple[str, str]:
    """Open a TCP connection."""
    with socket.create_connection((host, port), timeout=CONNECT_TIMEOUT_S):
        return "connected", ""


def tcp_scan(host: str, ports: list[int]) -> tuple[str, str]:
    """Open many TCP connections to one address at once; "open" if any is answered."""
    batch = max(64, min(1200, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2))
    found: list[int] = []
    for start in range(0, len(ports), batch):
        found += _scan_some(host, ports[start : start + batch])
    if found:
        return "open", "ports " + ", ".join(map(str, sorted(found)))
    return "closed", f"{len(ports)} ports"


def _scan_some(host: str, ports: list[int]) -> list[int]:
    """Ports of one batch that accept a connection."""
    waiting: dict[int, tuple[socket.socket, int]] = {}
    poller = select.poll()
    found: list[int] = []
    for port in ports:
        one = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        one.settimeout(0)
        code = one.connect_ex((host, port))
        if code == errno.EINPROGRESS:
            waiting[one.fileno()] = (one, port)
            poller.register(one, select.POLLOUT)
            continue
        if code == 0:
            found.append(port)
        one.close()
    deadline = time.monotonic() + CONNECT_TIMEOUT_S
    while waiting and time.monotonic() < deadline:
        for number, _ in poller.poll(200):
            one, port = waiting.pop(number)
            poller.unregister(number)
            if one.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0:
                found.append(port)
            one.close()
    for one, _ in waiting.values():
        one.close()
    return found


def udp(host: str, port: int, payload: str = "61626f78", protocol: int = 0) -> tuple[str, str]:
    """Send a datagram twice and wait for an answer."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM, protocol) as one:
        one.settimeout(SILENCE_S / 2)
        one.connect(socket.getaddrinfo(host, port, family, socket.SOCK_DGRAM)[0][4])
        for _ in range(2):
            one.send(bytes.fromhex(payload))
            try:
                return "answered", f"{len(one.recv(4096))} bytes"
            except socket.timeout:
                continue
    return "silent", ""


def sctp(host: str, port: int) -> tuple[str, str]:
    """Open an SCTP association."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, 132) as one:
        one.settimeout(SILENCE_S)
        one.connect((host, port))
    return "connected", ""


def icmp(host: str) -> tuple[str, str]:
    """Send an echo request through an unprivileged ICMP socket."""
    six = ":" in host
    family = socket.AF_INET6 if six else socket.AF_INET
    try:
        one = socket.socket(family, socket.SOCK_DGRAM, 58 if six else 1)
    except OSError as error:
        return "no-socket", errno.errorcode.get(error.errno or 0, "")
    body = struct.pack("!BBHHH", 128 if six else 8, 0, 0, 1, 1) + b"abox check"
    total = sum(struct.unpack(f"!{len(body) // 2}H", body))
    total = (total & 0xFFFF) + (total >> 16)
    body = body[:2] + struct.pack("!H", ~total & 0xFFFF) + body[4:]
    with one:
        one.settimeout(SILENCE_S)
        one.connect(socket.getaddrinfo(host, 1, family, socket.SOCK_DGRAM)[0][4])
        one.send(body)
        try:
            one.recv(4096)
        except socket.timeout:
            return "silent", ""
    return "answered", ""


def source_route(via: str, to: str, port: int) -> tuple[str, str]:
    """Ask for a TCP connection by way of another machine (loose source route, RFC 791)."""
    option = struct.pack("!BBB", LOOSE_SOURCE_ROUTE, 11, 4)
    option += socket.inet_aton(via) + socket.inet_aton(to) + b"\0"
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as one:
        one.settimeout(CONNECT_TIMEOUT_S)
        one.setsockopt(socket.IPPROTO_IP, socket.IP_OPTIONS, option)
        one.connect((to, port))
    return "connected", ""


# --- names -------------------------------------------------------------------------------------


def dns_query(name: str, kind: int) -> bytes:
    """A query for one name, recursion wanted."""
    head = struct.pack("!HHHHHH", int.from_bytes(os.urandom(2), "big"), 0x0100, 1, 0, 0, 0)
    labels = [part.encode("ascii") for part in name.rstrip(".").split(".")]
    body = b"".join(bytes([len(label)]) + label for label in labels) + b"\0"
    return head + body + struct.pack("!HH", kind, 1)


def dns(server: str, name: str, kind: int = 1, *, stream: bool = False) -> tuple[str, str]:
    """Ask a resolver; the outcome is the response code, with the IPv4 addresses behind it."""
    query = dns_query(name, kind)
    try:
        answer = _dns_stream(server, query) if stream else _dns_datagram(server, query)
    except socket.timeout:
        return "silent", ""
    if len(answer) < 12 or answer[:2] != query[:2]:
        return "silent", "no valid answer"
    code = answer[3] & 15
    word = RCODES[code] if code < len(RCODES) else f"RCODE{code}"
    counts = struct.unpack("!HHH", answer[6:12])
    if word == "NOERROR" and not counts[0]:
        return "NOERROR empty", ""
    addresses = _addresses(answer, len(query), counts[0])
    return " ".join([word, *addresses]), f"{sum(counts)} records"


def resolve(name: str) -> tuple[str, str]:
    """Look a name up as programs do, by whatever /etc/resolv.conf says."""
    try:
        found = socket.getaddrinfo(name, 80, socket.AF_INET, socket.SOCK_STREAM)
    except socket.gaierror as error:
        return "unresolved", str(error)
    return " ".join(["resolved", *sorted({str(one[4][0]) for one in found})]), ""


def _dns_datagram(server: str, query: bytes) -> bytes:
    """One answer over UDP; asked twice, since a datagram may get lost."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.settimeout(SILENCE_S)
        one.connect((server, 53))
        for last in (False, True):
            one.send(query)
            try:
                return one.recv(4096)
            except socket.timeout:
                if last:
                    raise
    return b""


def _dns_stream(server: str, query: bytes) -> bytes:
    """One answer over TCP, framed by two bytes of length."""
    with socket.create_connection((server, 53), timeout=CONNECT_TIMEOUT_S) as one:
        one.sendall(struct.pack("!H", len(query)) + query)
        return one.recv(4098)[2:]


def _addresses(answer: bytes, start: int, count: int) -> list[str]:
    """IPv4 addresses of the answer section; names in it are expected to be compressed."""
    found = []
    place = start
    for _ in range(count):
        while place < len(answer) and answer[place] not in (0,) and answer[place] < 192:
            place += 1 + answer[place]
        place += 2 if place < len(answer) and answer[place] >= 192 else 1
        if place + 10 > len(answer):
            break
        kind, _, _, size = struct.unpack("!HHIH", answer[place : place + 10])
        if kind == 1 and size == 4:
            found.append(socket.inet_ntoa(answer[place + 10 : place + 14]))
        place += 10 + size
    return found


# --- proxy -------------------------------------------------------------------------------------


_dead: dict[str, OSError] = {}
"""Proxies that could not be reached: the rest of the attempts would only wait for the same."""


def _connect(proxy: list[Any]) -> socket.socket:
    """Connect to the proxy."""
    name = str(proxy)
    if name in _dead:
        raise _dead[name]
    try:
        one = socket.create_connection((proxy[0], proxy[1]), timeout=CONNECT_TIMEOUT_S)
    except OSError as error:
        _dead[name] = error
        raise
    one.settimeout(PROXY_TIMEOUT_S)
    return one


def http(proxy: list[Any], request: str) -> tuple[str, str]:
    """Send bytes (one character each) to the proxy; the outcome is its answer's status."""
    with _connect(proxy) as one:
        one.sendall(request.encode("latin-1"))
        return _answer(one)


def tunnel(
    proxy: list[Any], authority: str, sni: str, request: str = "", *, verify: bool = True
) -> tuple[str, str]:
    """CONNECT, a TLS handshake, and a request inside; the first refusal is the outcome.

    Without a request the outcome is "200" as soon as the handshake is done.
    """
    head = f"CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n"
    context = _context(verify=verify)
    with _connect(proxy) as one:
        one.sendall(head.encode("latin-1"))
        outcome, detail = _answer(one, keep=True)
        if outcome != "200":
            return outcome, (detail + " (by CONNECT)").strip()
        try:
            inside = context.wrap_socket(one, server_hostname=sni)
        except ssl.SSLCertVerificationError as error:
            return "untrusted", str(error.verify_message)
        except (ssl.SSLError, ConnectionError) as error:
            return "closed", f"during the handshake: {error}"
        with inside:
            issuer = _issuer(inside) if verify else ""
            if not request:
                return "200", issuer
            inside.sendall(request.encode("latin-1"))
            outcome, detail = _answer(inside)
            return outcome, detail or issuer


@functools.lru_cache(maxsize=2)
def _context(*, verify: bool) -> ssl.SSLContext:
    """Settings of TLS; an emulated processor takes seconds to read the trust store."""
    context = ssl.create_default_context()
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _issuer(inside: ssl.SSLSocket) -> str:
    """Common name of the issuer of the certificate that was shown."""
    shown: Any = inside.getpeercert() or {}
    for parts in shown.get("issuer", ()):
        for key, value in parts:
            if key == "commonName":
                return f"issued by {value}"
    return ""


def _answer(one: socket.socket, *, keep: bool = False) -> tuple[str, str]:
    """Read one answer: "denied CODE" for a refusal of the proxy, else the status."""
    data = b""
    try:
        while b"\r\n\r\n" not in data and len(data) < LIMIT:
            chunk = one.recv(4096)
            if not chunk:
                break
            data += chunk
    except (ConnectionError, ssl.SSLError):
        data = data or b""
    if not data:
        return "closed", ""
    status = re.match(rb"HTTP/1\.[01] (\d{3})", data)
    if status is None:
        return "garbled", repr(data[:40])
    code = status.group(1).decode()
    if keep and code == "200":
        return code, ""
    return _refusal(one, data) if code == "403" else (code, "")


def _refusal(one: socket.socket, data: bytes) -> tuple[str, str]:
    """The reason code in the body of a 403 of the proxy, if it is one."""
    head, _, body = data.partition(b"\r\n\r\n")
    length = re.search(rb"(?im)^content-length:\s*(\d+)", head)
    wanted = min(int(length.group(1)), LIMIT) if length else 0
    try:
        while len(body) < wanted:
            chunk = one.recv(4096)
            if not chunk:
                break
            body += chunk
        reason = json.loads(body.decode("utf-8")).get("reason")
    except (OSError, ValueError, AttributeError):
        return "403", ""
    return (f"denied {reason}", "") if isinstance(reason, str) else ("403", "")


# --- the container itself ------------------------------------------------------------------------


def process_status(field: str, process: str = "self") -> tuple[str, str]:
    """One field of /proc/self/status, or of another process's."""
    with open(f"/proc/{process}/status") as file:
        for line in file:
            key, _, value = line.partition(":")
            if key == field:
                return " ".join(value.split()), ""
    return "absent", ""


def mount_flag(point: str, process: str = "self") -> tuple[str, str]:
    """Whether the file system that covers a path is mounted read-only."""
    best, flags = "", ""
    with open(f"/proc/{process}/mountinfo") as file:
        for line in file:
            words = line.split()
            under = words[4] if words[4].endswith("/") else words[4] + "/"
            if (point + "/").startswith(under) and len(under) >= len(best):
                best, flags = under, words[5]
    return ("read-only" if "ro" in flags.split(",") else "writable"), best


def write(path: str) -> tuple[str, str]:
    """Try to open a file for writing; in a folder, to make one."""
    target = path + "/abox-check-probe" if path.endswith("/") or os.path.isdir(path) else path
    if not os.path.exists(path):
        return "absent", ""
    mode = os.O_WRONLY if target == path else os.O_WRONLY | os.O_CREAT | os.O_EXCL
    try:
        number = os.open(target, mode)
    except OSError as error:
        return "read-only", errno.errorcode.get(error.errno or 0, "")
    os.close(number)
    if target != path:
        os.unlink(target)
    return "writable", ""


def unix_socket(path: str) -> tuple[str, str]:
    """Try to connect to a socket in the file system."""
    if not os.path.exists(path):
        return "absent", ""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as one:
        one.settimeout(SILENCE_S)
        one.connect(path)
    return "connected", ""


def open_socket(family: int, kind: int, protocol: int = 0) -> tuple[str, str]:
    """Try to open a socket of a family that leads past the network rules."""
    socket.socket(family, kind, protocol).close()
    return "opened", ""


def syscall(name: str) -> tuple[str, str]:
    """Try a system call with harmless arguments; the outcome is its error."""
    number = SYSCALLS.get(platform.machine(), {}).get(name)
    if number is None:
        return "unsupported", platform.machine()
    pid = os.fork()
    if pid == 0:  # in a child: a granted unshare must not change this process
        library = ctypes.CDLL(None, use_errno=True)
        first = CLONE_NEWUSER if name == "unshare" else -1
        done = library.syscall(number, first, None, None, None, None)
        os._exit(ctypes.get_errno() if done < 0 else 255)
    code = os.WEXITSTATUS(os.waitpid(pid, 0)[1])
    return ("permitted" if code == 255 else errno.errorcode.get(code, "error")), ""


def devices() -> tuple[str, str]:
    """Device files beyond those that every container has."""
    usual = {"null", "zero", "full", "random", "urandom", "tty", "console", "ptmx"}
    found = []
    for name in os.listdir("/dev"):
        try:
            mode = os.lstat("/dev/" + name).st_mode
        except OSError:
            continue
        if (mode & 0o170000) in (0o060000, 0o020000) and name not in usual:
            found.append(name)
    return ("found" if found else "none"), ", ".join(sorted(found))


def interfaces() -> tuple[str, str]:
    """Network interfaces besides loopback."""
    names = sorted(set(os.listdir("/sys/class/net")) - {"lo"})
    return str(len(names)), ", ".join(names)


def ipv6_addresses() -> tuple[str, str]:
    """IPv6 addresses on interfaces besides loopback."""
    try:
        with open("/proc/net/if_inet6") as file:
            found = [line.split() for line in file]
    except OSError:
        return "none", ""
    names = [words[5] for words in found if words[5] != "lo"]
    return ("found" if names else "none"), ", ".join(names)


def ipv6_neighbour(port: int = 0) -> tuple[str, str]:
    """Reach for anything on the link by IPv6: all nodes (a datagram to the group ff02::1)."""
    name = (interfaces()[1].split(", ") or [""])[0]
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as one:
        one.settimeout(SILENCE_S)
        index = socket.if_nametoindex(name)
        one.sendto(b"abox check", ("ff02::1", port or 9, 0, index))
        try:
            one.recv(4096)
        except socket.timeout:
            return "sent", "no answer"
    return "answered", ""


def frame(data: str) -> tuple[str, str]:
    """Send a frame as it is, given in hex, twice; only root can."""
    name = (interfaces()[1].split(", ") or [""])[0]
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as one:
        one.bind((name, 0))
        for _ in range(2):
            one.send(bytes.fromhex(data))
    return "sent", name


def variables(names: list[str]) -> tuple[str, str]:
    """Whether environment variables are set."""
    missing = [name for name in names if not os.environ.get(name)]
    return ("missing" if missing else "set"), ", ".join(missing)


KINDS: dict[str, Callable[..., tuple[str, str]]] = {
    one.__name__: one
    for one in (
        tcp,
        tcp_scan,
        udp,
        sctp,
        icmp,
        source_route,
        dns,
        resolve,
        http,
        tunnel,
        process_status,
        mount_flag,
        write,
        unix_socket,
        open_socket,
        syscall,
        devices,
        interfaces,
        ipv6_addresses,
        ipv6_neighbour,
        frame,
        variables,
    )
}


FROM_OUTSIDE = ("process_status", "mount_flag")
"""Kinds that can be carried out from the host, about a process of the container."""


def attempt(kind: str, arguments: dict[str, Any]) -> list[Any]:
    """Carry one attempt out; whatever goes wrong is its outcome."""
    start = time.monotonic()
    try:
        outcome, detail = KINDS[kind](**arguments)
    except OSError as error:
        outcome, detail = word_of(error), errno.errorcode.get(error.errno or 0, "")
    except Exception as error:  # noqa: BLE001  one broken attempt must not hide the others
        outcome, detail = "broken", f"{type(error).__name__}: {error}"
    return [outcome, detail, round(time.monotonic() - start, 3)]


def main(plan: dict[str, dict[str, Any]], threads: int = THREADS) -> None:
    """Carry every attempt of a plan out, many at a time, and print the answers as JSON.

    Args:
        plan: probe id to label to `[kind, arguments]`.
        threads: attempts at the same time.
    """
    _context(verify=True)  # once, before anybody waits for it with an open tunnel
    with ThreadPoolExecutor(threads) as pool:
        waiting = {
            name: {label: pool.submit(attempt, *one) for label, one in attempts.items()}
            for name, attempts in plan.items()
        }
        answers = {
            name: {label: one.result() for label, one in attempts.items()}
            for name, attempts in waiting.items()
        }
    sys.stdout.write(json.dumps(answers) + "\n")
