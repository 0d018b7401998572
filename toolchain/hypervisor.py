"""libvirt's daemons: uses those that answer, else starts them and knows that it did."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

from abox.errors import HostError
from abox.host_state import LIBVIRT_URI
from toolchain import acceleration, shell
from toolchain.engine import last_words, processes_named, program_of, read_pid
from toolchain.layout import HOST_RUN, HOST_STATE
from toolchain.locks import exclusive
from toolchain.progress import Step

SOCKET = Path("/run/libvirt/libvirt-sock")

DAEMONS = ("virtlogd", "libvirtd")
"""Started in this order: QEMU's output goes to the first one."""

FOLDER = HOST_STATE / "hypervisor"
"""Logs of the daemons, and what is known about KVM."""

ANSWER_TIMEOUT_S = 20.0
"""Seconds that libvirt may take to answer a question that it needs no QEMU for."""

START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 30.0

WITHOUT_KVM = """\
dev="$1"; shift
mkdir -p "$dev"
mount -t tmpfs -o mode=0755,nosuid,noexec,size=64k dev "$dev"
for path in /dev/*; do
    name="${path#/dev/}"
    if [ "$name" = kvm ]; then
        continue
    elif mountpoint -q "$path"; then
        mkdir "$dev/$name"
        mount --rbind "$path" "$dev/$name"
    else
        cp -a "$path" "$dev/$name"
    fi
done
umount --recursive --lazy /dev
mount --move "$dev" /dev
rmdir "$dev"
exec "$@"
"""
"""Starts a program whose /dev lacks kvm, in a mount namespace of its own.

Where KVM is there and doesn't work, libvirtd would try it anew at every single call, for seconds
or minutes each. The host's own device isn't touched."""


def ensure(step: Step) -> None:
    """See to it that libvirt answers at `LIBVIRT_URI`.

    Raises:
        HostError: it doesn't, and can't be started; the reason is in the message.
    """
    with exclusive(HOST_RUN / "hypervisor.lock", lambda: step.say("waiting for another run")):
        known = acceleration.read()
        hide = known is None or known.type != "kvm"
        if answers(step) and not _hides_what_works(hide=hide):
            _tell_of_trials(step, hide=hide)
            return
        if os.geteuid() != 0:
            raise HostError(
                what=f"libvirt doesn't answer at {LIBVIRT_URI}",
                why="only root can start it",
                remedy="run the command as root, or start libvirtd",
            )
        if Path("/run/systemd/system").is_dir():
            _start_service(step)
        else:
            _start_processes(step, hide=hide)


def answers(step: Step | None = None) -> bool:
    """Whether libvirt answers."""
    if not SOCKET.exists() or shell.which("virsh") is None:
        return False
    try:
        # Its address, not its version: for that it would look at QEMU first.
        said = shell.run(
            ["virsh", "--quiet", "--connect", LIBVIRT_URI, "uri"], timeout_s=ANSWER_TIMEOUT_S
        )
    except HostError:
        return False
    if said.code == 0 and step is not None:
        step.done(f"libvirt answers at {LIBVIRT_URI}")
    return said.code == 0


def _hides_what_works(*, hide: bool) -> bool:
    """Whether the libvirtd that was started here lacks a KVM that has proven to work since."""
    pid = _own_pid("libvirtd")
    if hide or pid is None:
        return False
    return not Path(f"/proc/{pid}/root/dev/kvm").exists()


def _tell_of_trials(step: Step, *, hide: bool) -> None:
    """Say what a libvirtd costs that was started elsewhere, where KVM isn't proven to work."""
    if hide and _own_pid("libvirtd") is None and acceleration.DEVICE.exists():
        step.say("it was started elsewhere and may try /dev/kvm at every call: see `abox doctor`")


def _start_service(step: Step) -> None:
    """Start the system's own services."""
    step.say("starting the system's libvirtd service")
    shell.require(
        shell.run(["systemctl", "start", *DAEMONS], timeout_s=START_TIMEOUT_S),
        what="the system's libvirtd service can't be started",
        remedy="look at `journalctl -u libvirtd`, repair what it names, then run this again",
    )
    _wait(step)


def _start_processes(step: Step, *, hide: bool) -> None:
    """Start the daemons in the background and wait until libvirt answers."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    HOST_RUN.mkdir(parents=True, exist_ok=True)
    if not processes_named("virtlogd"):
        _start("virtlogd", [], step)
    _end_libvirtd()
    if processes_named("libvirtd"):
        step.say("a libvirtd is running but doesn't answer yet; waiting for it")
        _wait(step)
        return
    log = _log("libvirtd")
    offset = log.stat().st_size if log.exists() else 0
    before: list[str] = []
    if hide and acceleration.DEVICE.exists():
        step.say("libvirtd gets a /dev without kvm, which isn't proven to work; yours stays")
        before = [
            *("unshare", "--mount", "--propagation", "private"),
            *("sh", "-eu", "-c", WITHOUT_KVM, "libvirtd", str(HOST_RUN / "dev")),
        ]
    _wait(step, offset, _start("libvirtd", before, step))


def _start(name: str, before: list[str], step: Step) -> Callable[[], bool]:
    """Start a daemon; `before` is a command that ends in running it.

    Returns: whether it has ended.
    """
    program = shell.which(name)
    if program is None:
        raise HostError(
            what=f"libvirt doesn't answer and {name} was not found",
            why="the packages for virtual machines aren't installed",
            remedy="run `make vm`, or install libvirt yourself",
        )
    step.say(f"starting {name}; its log is {_log(name)}")
    command = [*before, program, "--pid-file", str(_pid_file(name))]
    process = shell.daemon(command, log=_log(name))
    return lambda: process.poll() is not None


def _log(name: str) -> Path:
    """What a daemon says."""
    return FOLDER / f"{name}.log"


def _pid_file(name: str) -> Path:
    """Process id of a daemon that was started here."""
    return HOST_RUN / f"{name}.pid"


def _own_pid(name: str) -> int | None:
    """Process id of a running daemon that was started here."""
    pid = read_pid(_pid_file(name))
    return pid if pid is not None and program_of(pid) == name else None


def _wait(step: Step, offset: int = 0, ended: Callable[[], bool] = lambda: False) -> None:
    """Wait until libvirt answers.

    Args:
        step: told about it.
        offset: size of the log before the start.
        ended: whether the daemon is gone again.
    """
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline:
        if answers(step):
            return
        if ended():
            break
        step.tick("waiting for libvirt to answer")
        time.sleep(0.2)
    raise HostError(
        what=f"libvirt doesn't answer at {LIBVIRT_URI}",
        why=last_words(_said_since(offset)),
        remedy=f"look at {_log('libvirtd')}, or at the service's log, then run this again",
    )


def _said_since(offset: int) -> str:
    try:
        return _log("libvirtd").read_bytes()[offset:].decode(errors="replace")
    except OSError:
        return ""


def _end_libvirtd() -> None:
    """End the libvirtd that was started here: domains run on without it."""
    pid = _own_pid("libvirtd")
    if pid is None:
        return
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + STOP_TIMEOUT_S
    while program_of(pid) == "libvirtd":
        if time.monotonic() > deadline:
            raise HostError(
                what=f"libvirtd (process {pid}) still runs after {STOP_TIMEOUT_S:.0f} s",
                why="it is busy with a call that doesn't end",
                remedy=f"look at {_log('libvirtd')}, end it by hand, then run this again",
            )
        time.sleep(0.1)


def stop(step: Step) -> None:
    """Stop the daemons, if this module started them and no domain is running.

    Raises:
        HostError: domains are running, or libvirtd doesn't end.
    """
    if _own_pid("libvirtd") is None:
        step.done("no libvirtd that abox started is running")
        return
    listed = shell.run(
        ["virsh", "--quiet", "--connect", LIBVIRT_URI, "list", "--name"], timeout_s=ANSWER_TIMEOUT_S
    )
    running = listed.stdout.split()
    if running:
        raise HostError(
            what="libvirtd is not stopped",
            why=f"{len(running)} domains are running, among them {running[0]}",
            remedy="end them first: `make down STACK=name` for sandboxes",
        )
    _end_libvirtd()
    log_daemon = _own_pid("virtlogd")
    if log_daemon is not None:
        os.kill(log_daemon, signal.SIGTERM)
    step.done("libvirt's daemons are stopped")
