"""A log that can't be written: the spools are full, and the collector's writes fail."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from abox.render.paths import SPOOL_DIR
from tests import host

FILL_BYTES = 64 * 1024 * 1024
"""More than any spool holds."""
COLLECTOR = "gateway collect"

LIMIT = """
import pathlib, resource, sys
for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
    if b"gateway\\0collect" in path.read_bytes():
        pid, kind = int(path.parent.name), resource.RLIMIT_FSIZE
        _, hard = resource.prlimit(pid, kind)
        resource.prlimit(pid, kind, (int(sys.argv[1]) if len(sys.argv) > 1 else hard, hard))
        break
else:
    sys.exit("no collector runs")
"""
"""Sets the size above which the collector may write no file; run as its user."""

NameOf = Callable[[str], str]


@contextlib.contextmanager
def full_log_volume(container: NameOf) -> Iterator[None]:
    """Nobody in a pod can write a line of the log.

    Args:
        container: gives the name of the pod's container of a role.
    """
    fills = {role: f"{SPOOL_DIR}/{role}/full" for role in ("dns", "proxy")}
    limit = ["docker", "exec", container("control"), "python3", "-c", LIMIT]
    try:
        host.run([*limit, "0"])
        for role, file in fills.items():
            script = f"head -c {FILL_BYTES} /dev/zero > {file}"
            done = host.run(["docker", "exec", container(role), "sh", "-c", script], check=False)
            assert "No space left" in done.stderr, done.stderr
        yield
    finally:
        for role, file in fills.items():
            host.run(["docker", "exec", container(role), "rm", "-f", file])
        host.run(limit)


def collector_pid(control: str) -> int:
    """The collector's process, as the host counts."""
    listed = host.run(["docker", "top", control, "-eo", "pid,args"]).stdout
    return next(int(line.split()[0]) for line in listed.splitlines() if COLLECTOR in line)
