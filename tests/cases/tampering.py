"""What a ``tamper`` does to the host, how it is undone, and what a sandbox leaves behind."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

from abox.naming import bridge_name, egress_bridge_name, table_name
from tests import host
from toolchain import engine

ENGINE_PIDS = (engine.PID_FILE, Path("/var/run/docker.pid"))
"""Of an engine that the project started, and of any other."""
STATE = Path("/var/lib/abox")
ENGINE_TABLES = ("iptables", "ip6tables")


def shakes_host(commands: list[list[str]]) -> bool:
    """Whether others on the host would feel it: all rules flushed, a service restarted."""
    return any(c[0] == "{restart}" or c[:3] == ["nft", "flush", "ruleset"] for c in commands)


def perform(command: list[str]) -> host.Completed:
    """Carry out one command of a tampering."""
    if command[0] == "{restart}":
        return _restart(command[1])
    done = host.run(command, check=False)
    spelled = respelled(command, done.stderr)
    return host.run(spelled, check=False) if spelled else done


def respelled(command: list[str], said: str) -> list[str] | None:
    """A command of nft under another name, if a name in it is a word of nft's language.

    Its grammar can't quote: ``fwd``, a chain's name elsewhere, is a statement in Debian 12's nft.

    Args:
        command: what was run.
        said: its standard error.
    """
    reserved = re.search(r"unexpected (\w+), expecting string", said)
    if command[0] != "nft" or not reserved or reserved[1] not in command:
        return None
    return [f"{word}_" if word == reserved[1] else word for word in command]


def _restart(service: str) -> host.Completed:
    if service != "docker":
        raise ValueError(f"nobody knows how to restart {service!r}")
    restart_engine()
    return host.Completed(("restart", service), 0, "", "")


def restart_engine() -> None:
    """End the container engine and start it again with the same arguments."""
    pid = _engine_pid()
    arguments = Path(f"/proc/{pid}/cmdline").read_bytes().decode().rstrip("\0").split("\0")
    os.kill(pid, signal.SIGTERM)
    host.wait_until(
        lambda: engine.program_of(pid) != "dockerd",
        timeout_s=60,
        describe=lambda: f"the engine (process {pid}) is still there",
    )
    host.detach(arguments, engine.LOG)
    host.wait_until(
        lambda: host.run(["docker", "version"], check=False).code == 0,
        timeout_s=60,
        describe=lambda: "the engine doesn't answer",
        every_s=0.5,
    )


def _engine_pid() -> int:
    for file in ENGINE_PIDS:
        pid = engine.read_pid(file)
        if pid is not None and engine.program_of(pid) == "dockerd":
            return pid
    raise RuntimeError(f"no engine runs by any of {', '.join(map(str, ENGINE_PIDS))}")


@contextlib.contextmanager
def undone(command: list[str], *, keep: str) -> Iterator[None]:
    """Undo a command at the end, apart from what the sandbox has to repair itself.

    Args:
        command: about to be carried out.
        keep: the sandbox's own nftables table, which nobody but the project may restore.
    """
    with contextlib.ExitStack() as stack:
        if command[:3] == ["nft", "flush", "ruleset"]:
            _save_rules(stack, keep)
        elif command[:3] == ["nft", "add", "table"]:
            stack.callback(host.run, ["nft", "delete", "table", *command[3:5]], check=False)
        elif command[0] == "sysctl":
            _save_switches(stack, command)
        yield


def _save_rules(stack: contextlib.ExitStack, keep: str) -> None:
    """Remember all rules of the host but the sandbox's own."""
    for tool in ENGINE_TABLES:
        saved = host.run([f"{tool}-save"], check=False)
        if saved.code == 0 and saved.stdout.strip():
            stack.callback(host.run, [f"{tool}-restore"], text=saved.stdout, check=False)
    listed = json.loads(host.run(["nft", "-j", "list", "tables"]).stdout)["nftables"]
    for table in (entry["table"] for entry in listed if "table" in entry):
        if table["family"] == "inet" and table["name"] != keep:
            text = host.run(["nft", "list", "table", "inet", table["name"]]).stdout
            script = f"table inet {table['name']}\ndelete table inet {table['name']}\n{text}"
            stack.callback(host.run, ["nft", "-f", "-"], text=script, check=False)


def _save_switches(stack: contextlib.ExitStack, command: list[str]) -> None:
    for argument in command[1:]:
        if "=" in argument:
            name = argument.partition("=")[0]
            value = host.run(["sysctl", "-n", name]).stdout.strip()
            stack.callback(host.run, ["sysctl", "-qw", f"{name}={value}"], check=False)


def leftovers(sandbox: str) -> list[str]:
    """Everything on the host that carries the sandbox's name or label."""
    found = []
    for kind, listing in (
        ("container", ["docker", "ps", "-a", "--format", "{{.Names}}"]),
        ("network", ["docker", "network", "ls", "--format", "{{.Name}}"]),
        ("volume", ["docker", "volume", "ls", "--format", "{{.Name}}"]),
    ):
        labelled = [*listing, "--filter", f"label=abox.sandbox={sandbox}"]
        found += [f"{kind} {name}" for name in host.run(labelled).stdout.split()]
    links = host.run(["ip", "-o", "link", "show"]).stdout
    names = re.findall(r"^\d+: ([^:@\s]+)", links, re.MULTILINE)
    found += [
        f"link {n}" for n in names if n in (bridge_name(sandbox), egress_bridge_name(sandbox))
    ]
    tables = host.run(["nft", "list", "tables"]).stdout
    found += [f"table {table_name(sandbox)}"] if f"inet {table_name(sandbox)}\n" in tables else []
    for folder in ("leases", "sandboxes"):
        found += [f"state {path.name}" for path in (STATE / folder).glob(f"{sandbox}*")]
    return found
