"""Removes what crashed test runs left on the host: only things of dead runs, found by prefix."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

from tests import host
from tests.world import cables

NUMBERED = re.compile(rf"{cables.PREFIX}([0-9a-f]{{4}})")
SANDBOX_LABEL = "abox.sandbox"
STATES = Path("/var/lib/abox")


def _docker(*args: str) -> list[str]:
    done = host.run(["docker", *args], check=False)
    return done.stdout.split("\n") if done.code == 0 else []


def _dead(name: str, living: set[str]) -> bool:
    found = NUMBERED.search(name)
    return found is not None and found.group(1) not in living


def _sweep_docker(living: set[str]) -> list[str]:
    swept = []
    for line in _docker("ps", "-a", "--format", '{{.ID}}\t{{.Names}}\t{{.Label "abox.sandbox"}}'):
        identity, _, names = line.partition("\t")
        if identity and _dead(names, living):
            _docker("rm", "-f", "-v", identity)
            swept.append(f"container {names.partition(chr(9))[0]}")
    for kind in ("network", "volume"):
        for line in _docker(kind, "ls", "--format", '{{.Name}}\t{{.Label "abox.sandbox"}}'):
            name = line.partition("\t")[0]
            if name and _dead(line, living):
                _docker(kind, "rm", name)
                swept.append(f"{kind} {name}")
    return swept


def _sweep_tables(living: set[str]) -> list[str]:
    listed = json.loads(host.run(["nft", "-j", "list", "tables"]).stdout)["nftables"]
    names = [e["table"]["name"] for e in listed if e.get("table", {}).get("family") == "inet"]
    dead = [name for name in names if _dead(name, living)]
    for name in dead:
        host.run(["nft", "delete", "table", "inet", name], check=False)
    return [f"table {name}" for name in dead]


def _sweep_state(living: set[str]) -> list[str]:
    swept = []
    for folder in (STATES / "leases", STATES / "sandboxes"):
        for path in folder.glob(f"{cables.PREFIX}*"):
            if _dead(path.name, living):
                shutil.rmtree(path) if path.is_dir() else path.unlink()
                swept.append(f"state {path.name}")
    return swept


def _sweep_links(living: set[str]) -> list[str]:
    spaces = [e["name"] for e in json.loads(host.run(["ip", "-j", "netns", "list"]).stdout or "[]")]
    for name in filter(lambda n: _dead(n, living), spaces):
        host.run(["ip", "netns", "del", name], check=False)
    links = [e["ifname"] for e in json.loads(host.run(["ip", "-j", "link", "show"]).stdout)]
    for name in filter(lambda n: _dead(n, living), links):
        host.run(["ip", "link", "del", name], check=False)
    return [f"link {name}" for name in (*spaces, *links) if _dead(name, living)]


def _dead_worlds(living: set[str]) -> set[str]:
    numbers = set()
    for family in ("-4", "-6"):
        rules = json.loads(host.run(["ip", "-j", family, "rule", "show"]).stdout or "[]")
        tables = [str(r.get("table", "")) for r in rules if r.get("priority") == cables.PREFERENCE]
        numbers |= {
            f"{int(t) - cables.TABLE_BASE:04x}"
            for t in tables
            if t.isdigit() and 0 <= int(t) - cables.TABLE_BASE <= 0xFFFF
        }
    numbers |= {record.stem for record in cables.RUNS.glob("*.json")}
    return numbers - living


def sweep() -> list[str]:
    """Remove leftovers of runs whose process is gone; what was removed, in words."""
    living = cables.living_runs()
    worlds = sorted(_dead_worlds(living))
    swept = _sweep_docker(living) + _sweep_tables(living) + _sweep_state(living)
    swept += _sweep_links(living)
    for number in worlds:
        run = cables.Run(number)
        cables.remove(run)
        cables.unregister(run)
        swept.append(f"world {number}")
    return swept
