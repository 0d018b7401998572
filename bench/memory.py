"""Memory of containers, as the kernel accounts it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from tests import host

MEGABYTE = 1024 * 1024
CGROUPS = Path("/sys/fs/cgroup")


def container_memory_mb(containers: Iterable[str]) -> float:
    """Memory of containers in MB, without file pages that can be dropped at once.

    Args:
        containers: full ids.
    """
    return sum(_one(container) for container in containers) / MEGABYTE


def proportional_memory_mb(containers: Iterable[str]) -> float:
    """Memory of all processes of containers in MB, shared pages divided among their users (PSS)."""
    total = 0
    for container in containers:
        for pid in _processes(container):
            total += _pss_kb(pid)
    return total / 1024


def process_memory_mb(pid: int) -> float:
    """Memory of a process and its children in MB, as `proportional_memory_mb` counts."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return _pss_kb(str(pid)) / 1024 + sum(process_memory_mb(int(child)) for child in children)


def parse_inactive_file(text: str) -> int:
    """Bytes of file pages that can be dropped, from memory.stat of either cgroup version."""
    values = dict(line.split(" ", 1) for line in text.splitlines() if " " in line)
    return int(values.get("total_inactive_file", values.get("inactive_file", "0")))


def parse_pss(text: str) -> int:
    """Proportional set size in kB, from smaps_rollup."""
    found = re.search(r"^Pss:\s+(\d+) kB", text, re.MULTILINE)
    return int(found.group(1)) if found else 0


def _one(container: str) -> int:
    """Bytes in use by one container."""
    for folder, usage in (
        (CGROUPS / "memory" / "docker" / container, "memory.usage_in_bytes"),
        (CGROUPS / "system.slice" / f"docker-{container}.scope", "memory.current"),
        (CGROUPS / "docker" / container, "memory.current"),
    ):
        if (folder / usage).exists():
            used = int((folder / usage).read_text())
            return max(0, used - parse_inactive_file((folder / "memory.stat").read_text()))
    raise FileNotFoundError(f"no memory cgroup of container {container}")


def _processes(container: str) -> list[str]:
    """Process ids of a container, on the host."""
    listed = host.run(["docker", "top", container, "-eo", "pid"]).stdout
    return [line.strip() for line in listed.splitlines()[1:] if line.strip().isdigit()]


def _pss_kb(pid: str) -> int:
    """Proportional set size of a process; 0 if it has ended."""
    try:
        return parse_pss(Path("/proc", pid, "smaps_rollup").read_text())
    except OSError:
        return 0
