"""The helper's verbs, as cases write them behind ``{probe}``: each returns an exit code."""

from __future__ import annotations

import ctypes
import errno
import json
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.cases.probe import dns, sockets

SYSCALLS = {
    "ptrace": 101,
    "mount": 165,
    "umount2": 166,
    "pivot_root": 155,
    "init_module": 175,
    "kexec_load": 246,
    "add_key": 248,
    "keyctl": 250,
    "unshare": 272,
    "perf_event_open": 298,
    "name_to_handle_at": 303,
    "open_by_handle_at": 304,
    "setns": 308,
    "finit_module": 313,
    "bpf": 321,
    "userfaultfd": 323,
    "io_uring_setup": 425,
    "open_tree": 428,
    "move_mount": 429,
    "fsopen": 430,
    "fsmount": 432,
    "open_by_handle": 304,
}
"""Numbers on x86_64."""
CLONE_NEWUSER = 0x10000000
ARGUMENTS = {"unshare": (CLONE_NEWUSER,), "setns": (0, 0)}
BLOCK = 1 << 20


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")


def ask_dns(name: str, kind: str, server: str) -> int:
    """Ask a resolver; 0 if it answers the name."""
    answer = dns.ask(server, 53, dns.question(dns.to_labels(name), kind, None), tries=2)
    _say(f"{answer['rcode']} {answer['wire']}")
    return 0 if answer["rcode"] == "NOERROR" else 1


def syscall(name: str) -> int:
    """Call the kernel with arguments that mean nothing; 0 if it doesn't refuse."""
    libc = ctypes.CDLL(None, use_errno=True)
    arguments = [ctypes.c_long(a) for a in ARGUMENTS.get(name, (0, 0, 0, 0, 0))]
    result = libc.syscall(ctypes.c_long(SYSCALLS[name]), *arguments)
    number = ctypes.get_errno()
    _say("done" if result >= 0 else errno.errorcode.get(number, str(number)))
    return 0 if result >= 0 else 1


def _connect_unix(address: str) -> int:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        try:
            sock.connect(address)
        except OSError as error:
            _say(str(error))
            return 1
    _say("connected")
    return 0


def connect_unix(path: str) -> int:
    """Connect to a socket in the file system; 0 if somebody listens."""
    return _connect_unix(path)


def connect_unix_abstract(name: str) -> int:
    """Connect to a socket with an abstract name; 0 if somebody listens."""
    return _connect_unix("\0" + name)


def fork(count: str) -> int:
    """Start processes until it is refused; 0 if all of them could be started."""
    children = []
    failure = ""
    try:
        for _ in range(int(count)):
            child = os.fork()
            if child == 0:
                signal.pause()
            children.append(child)
    except OSError as error:
        failure = str(error)
    for child in children:
        os.kill(child, signal.SIGKILL)
    for child in children:
        os.waitpid(child, 0)
    _say(f"{len(children)} processes {failure}")
    return 1 if failure else 0


def find_text(text: str, root: str) -> int:
    """Print the files below a folder that hold a text; /proc and /sys are left out."""
    wanted, found = text.encode(), 0
    for folder, names, files in os.walk(root, onerror=None, followlinks=False):
        if folder == "/":
            names[:] = [name for name in names if name not in ("proc", "sys")]
        for name in files:
            if _holds(Path(folder, name), wanted):
                _say(str(Path(folder, name)))
                found += 1
    return 0 if found else 1


def _holds(path: Path, wanted: bytes) -> bool:
    try:
        if not path.is_file() or path.is_symlink():
            return False
        with path.open("rb") as file:
            tail = b""
            while block := file.read(BLOCK):
                if wanted in tail + block:
                    return True
                tail = block[-len(wanted) :]
    except OSError:
        return False
    return False


def boot_flood(count_file: str, frames: str) -> int:
    """Send frames in turn until it is ended; note in a file how many.

    Args:
        count_file: where the number goes.
        frames: a JSON list of frames in hex, as `sockets.send_frame` takes each.
    """
    wanted, sent = json.loads(bytes.fromhex(frames)), 0
    while True:
        for frame in wanted:
            sockets.send_frame(frame)
        sent += len(wanted)
        Path(count_file).write_text(str(sent))
        time.sleep(0.01)


VERBS: dict[str, Callable[..., int]] = {
    "dns": ask_dns,
    "syscall": syscall,
    "connect-unix": connect_unix,
    "connect-unix-abstract": connect_unix_abstract,
    "fork": fork,
    "find-text": find_text,
    "boot-flood": boot_flood,
}
