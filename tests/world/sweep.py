"""Removes what crashed test runs left on the host: only things of dead runs, found by prefix."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterable
from pathlib import Path

from tests import host
from tests.world import cables

NUMBERED = re.compile(rf"{cables.PREFIX}([0-9a-f]{{4}})(?![0-9a-f]{{2}})")
"""Names of a run's things; a longer hexadecimal number is somebody else's."""
SANDBOX_LABEL = "abox.sandbox"
STATES = Path("/var/lib/abox")
DISKS = Path("/var/lib/libvirt/images/abox")


def _docker(*args: str) -> list[str]:
    done = host.run(["docker", *args], check=False)
    return done.stdout.split("\n") if done.code == 0 else []


def _dead(names: Iterable[str]) -> list[str]:
    """Names of things whose run is gone.

    The names come first and the look at the runs second: a run is registered before it makes
    anything, so a run that begins meanwhile loses nothing.
    """
    listed = [(name, found.group(1)) for name in names if (found := NUMBERED.search(name))]
    living = cables.living_runs() if listed else set()
    return [name for name, number in listed if number not in living]


def _sweep_docker() -> list[str]:
    swept = []
    form = '{{.ID}}\t{{.Names}}\t{{.Label "abox.sandbox"}}'
    for line in _dead(_docker("ps", "-a", "--format", form)):
        identity, _, names = line.partition("\t")
        _docker("rm", "-f", "-v", identity)
        swept.append(f"container {names.split()[0]}")
    for kind in ("network", "volume"):
        form = '{{.Name}}\t{{.Label "abox.sandbox"}}'
        for line in _dead(_docker(kind, "ls", "--format", form)):
            name = line.partition("\t")[0]
            _docker(kind, "rm", name)
            swept.append(f"{kind} {name}")
    return swept


def _sweep_tables() -> list[str]:
    listed = json.loads(host.run(["nft", "-j", "list", "tables"]).stdout)["nftables"]
    names = [e["table"]["name"] for e in listed if e.get("table", {}).get("family") == "inet"]
    dead = _dead(names)
    for name in dead:
        host.run(["nft", "delete", "table", "inet", name], check=False)
    return [f"table {name}" for name in dead]


def _virsh(*args: str) -> list[str]:
    if shutil.which("virsh") is None:
        return []
    done = host.run(["virsh", "-q", "-c", "qemu:///system", *args], check=False)
    return done.stdout.split() if done.code == 0 else []


def _sweep_libvirt() -> list[str]:
    """Domains first: filters and disks can't go while a machine has them."""
    swept = []
    for name in _dead(_virsh("list", "--all", "--name")):
        _virsh("destroy", name)
        _virsh("undefine", name, "--managed-save", "--snapshots-metadata")
        swept.append(f"domain {name}")
    for name in _dead(_virsh("pool-list", "--all", "--name")):
        _virsh("pool-destroy", name)
        _virsh("pool-undefine", name)
        swept.append(f"pool {name}")
    names = _dead(_virsh("nwfilter-list"))
    # The one that refers to another goes before that.
    for name in sorted(names):
        _virsh("nwfilter-undefine", name)
        swept.append(f"nwfilter {name}")
    for name in _dead([path.name for path in DISKS.glob(f"{cables.PREFIX}*")]):
        shutil.rmtree(DISKS / name)
        swept.append(f"disks {name}")
    return swept


def _sweep_state() -> list[str]:
    swept = []
    for folder in (STATES / "leases", STATES / "sandboxes"):
        for name in _dead([path.name for path in folder.glob(f"{cables.PREFIX}*")]):
            path = folder / name
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
            swept.append(f"state {name}")
    return swept


def _sweep_links() -> list[str]:
    spaces = [e["name"] for e in json.loads(host.run(["ip", "-j", "netns", "list"]).stdout or "[]")]
    dead_spaces = _dead(spaces)
    for name in dead_spaces:
        host.run(["ip", "netns", "del", name], check=False)
    links = [e["ifname"] for e in json.loads(host.run(["ip", "-j", "link", "show"]).stdout)]
    dead_links = _dead(links)
    for name in dead_links:
        host.run(["ip", "link", "del", name], check=False)
    return [f"link {name}" for name in (*dead_spaces, *dead_links)]


def _dead_worlds() -> set[str]:
    """Numbers of runs that left routing rules or a record."""
    numbers = {record.stem for record in cables.RUNS.glob("*.json")}
    for family in ("-4", "-6"):
        rules = json.loads(host.run(["ip", "-j", family, "rule", "show"]).stdout or "[]")
        tables = [str(r.get("table", "")) for r in rules if r.get("priority") == cables.PREFERENCE]
        numbers |= {
            f"{int(t) - cables.TABLE_BASE:04x}"
            for t in tables
            if t.isdigit() and 0 <= int(t) - cables.TABLE_BASE <= 0xFFFF
        }
    return numbers - cables.living_runs()


def sweep() -> list[str]:
    """Remove leftovers of runs whose process is gone; what was removed, in words.

    One process at a time: two would find the same things and trip over each other.
    """
    with cables.alone("sweeping"):
        swept = _sweep_libvirt() + _sweep_docker() + _sweep_tables()
        swept += _sweep_state() + _sweep_links()
        for number in sorted(_dead_worlds()):
            run = cables.Run(number)
            cables.remove(run)
            cables.unregister(run)
            swept.append(f"world {number}")
    return swept
