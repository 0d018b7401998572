"""Runs cases of the layer drift: real Pulumi beside somebody who changes the host by hand."""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests import host
from tests.cases import mapping, tampering
from tests.cases.model import Case
from tests.cases.outcome import NotRunError
from tests.cases.placeholders import Placeholders
from tests.cases.sandbox import Sandbox
from tests.world import World
from tests.world.world import EVIL

ALLOWED = "198.51.100.10"
RECOVERY_S = 90
POD = ("proxy", "dns", "control", "pause")
"""What a case can mean by the gateway's container, where any of them will do."""


class DriftRunner:
    """Tampers with a sandbox of its own and looks what Pulumi says and does."""

    def __init__(
        self,
        world: World,
        make: Callable[[str], Sandbox],
        other: Callable[[], Sandbox],
        *,
        spare_host: bool,
    ) -> None:
        self._world, self._make, self._other = world, make, other
        self._spare_host = spare_host
        self._sandbox: Sandbox | None = None

    def run(self, case: Case) -> list[str]:
        """What of the case doesn't hold."""
        tamper = case.do["tamper"]
        commands = [[str(a) for a in command] for command in tamper["run"]]
        if self._spare_host and tampering.shakes_host(commands):
            raise NotRunError("it would shake the whole host (--spare-host)")
        if tamper.get("before_up"):
            return self._before_up(case, commands)
        if any(command[:2] == ["pulumi", "destroy"] for command in commands):
            return self._removal(case)
        faults = []
        for role in _roles(commands):
            found = self._tampered(case, role)
            faults += [
                f"{role}: {fault}" if len(_roles(commands)) > 1 else fault for fault in found
            ]
        return faults

    def _standing(self, case: Case) -> Sandbox:
        """The sandbox, standing as the case's settings say, and the world around it."""
        if self._sandbox is None:
            self._sandbox = self._make("d")
        self._world.reset()
        self._world.dns.set({"allowed.test": [ALLOWED], "evil.test": [EVIL]})
        for address in (ALLOWED, EVIL):
            self._world.origin(at=f"{address}:80", speaks="http")
            self._world.origin(at=f"{address}:443", speaks="https")
        settings = mapping.settings_of_given(case.given)
        settings.setdefault("allow_private_cidrs", ["198.51.100.0/24"])
        self._sandbox.up(settings)
        if not _works(self._sandbox):
            raise RuntimeError("the sandbox doesn't work before anything was changed")
        return self._sandbox

    # --- one tampering --------------------------------------------------------------------

    def _tampered(self, case: Case, role: str) -> list[str]:
        sandbox = self._standing(case)
        tamper = case.do["tamper"]
        with (
            tempfile.TemporaryDirectory(prefix="abxt-tamper-") as folder,
            contextlib.ExitStack() as undo,
        ):
            places = Placeholders(sandbox, Path(folder), self._other, role)
            for name, content in (tamper.get("files") or {}).items():
                Path(folder, name).write_text(places.fill(content))
            undo.callback(self._settle)
            for command in places.fill(tamper["run"]):
                undo.enter_context(tampering.undone(command, keep=sandbox.table))
                done = tampering.perform(command)
                if done.code != 0:
                    if case.expect.get("or_tamper_fails"):
                        return []
                    return [f"the tampering failed: {done.stderr.strip() or done.stdout.strip()}"]
            return self._consequences(case, sandbox)

    def _settle(self) -> None:
        """Whatever happened, the next case begins with a sandbox that stands or with a new one."""
        sandbox = self._sandbox
        if sandbox is None:
            return
        try:
            done = sandbox.stack.up(check=False)
            if done.code == 0:
                sandbox.attach()
                return
        except (host.CommandError, host.TimeLimitError, RuntimeError):
            pass
        sandbox.down()
        self._sandbox = None

    def _consequences(self, case: Case, sandbox: Sandbox) -> list[str]:
        faults: list[str] = []
        expect = case.expect
        if expect.get("stays_closed"):
            faults += [f"stays_closed: {way}" for way in _open_ways(self._world, sandbox)]
        if expect.get("recovers_or_drift"):
            faults += _recovers_or_drift(sandbox)
        if "drift" in expect and (drifted := sandbox.stack.drifted()) is not expect["drift"]:
            faults.append(f"drift: {drifted}")
        if expect.get("repaired"):
            faults += self._repaired(sandbox)
        known = {"stays_closed", "recovers_or_drift", "drift", "repaired", "or_tamper_fails"}
        return faults + [f"{key}: nobody can judge this for drift" for key in set(expect) - known]

    def _repaired(self, sandbox: Sandbox) -> list[str]:
        done = sandbox.stack.up(check=False)
        if done.code != 0:
            return [f"repaired: up failed: {(done.stderr or done.stdout)[-500:]}"]
        sandbox.attach()
        faults = []
        if sandbox.stack.drifted():
            faults.append("repaired: a preview after the repair still reports changes")
        if not _works(sandbox):
            faults.append("repaired: the sandbox doesn't work after the repair")
        return faults + [f"repaired: {way}" for way in _open_ways(self._world, sandbox)]

    # --- first run, last run --------------------------------------------------------------

    def _before_up(self, case: Case, commands: list[list[str]]) -> list[str]:
        """The first run with something made to fail."""
        sandbox = self._make("f")
        failing = [command[1] for command in commands if command[0] == "{make_fail}"]
        settings = sandbox.full_settings(mapping.settings_of_given(case.given))
        sandbox.stack.configure(settings)
        with tempfile.TemporaryDirectory(prefix="abxt-fail-") as folder:
            for name in failing:
                tool = Path(folder, name)
                tool.write_text(f"#!/bin/sh\necho {name}: made to fail >&2\nexit 1\n")
                tool.chmod(0o755)
            try:
                done = sandbox.stack.up(check=False, path_first=Path(folder))
                running = sandbox.running()
            finally:
                sandbox.stack.remove()
        faults = []
        output = done.stdout + done.stderr
        wanted = case.expect.get("error_contains", "")
        if done.code == 0 or wanted.lower() not in output.lower():
            faults.append(f"error_contains: exit {done.code}: {output[-400:]}")
        if running is not case.expect.get("agent_running", False):
            faults.append(f"agent_running: {running}")
        return faults

    def _removal(self, case: Case) -> list[str]:
        """Destroy a sandbox and look what is left."""
        sandbox = self._standing(case)
        sandbox.detach()
        done = sandbox.stack.destroy(check=False)
        left = tampering.leftovers(sandbox.name)
        sandbox.down()
        self._sandbox = None
        faults = [] if done.code == 0 else [f"destroy failed: {done.stderr[-400:]}"]
        if left != case.expect["leftovers"]:
            faults.append(f"leftovers: {left}")
        return faults

    def close(self) -> None:
        """Take the sandbox away."""
        if self._sandbox is not None:
            self._sandbox.down()
            self._sandbox = None


def _roles(commands: list[list[str]]) -> tuple[str, ...]:
    """Which containers of the pod stand in turn for ``{gateway_container}``."""
    text = str(commands)
    if "{gateway_container}" not in text:
        return ("proxy",)
    if "unbound" in text:
        return ("dns",)
    return ("control",) if "{ca_cert}" in text else POD


def _page(sandbox: Sandbox, url: str, via: str = "proxy") -> Any:
    (response,) = sandbox.agent.ask("http", {"method": "GET", "url": url, "via": via})
    return response["status"]


def _works(sandbox: Sandbox) -> bool:
    """Whether an allowed request is answered and a denied one refused, with and without TLS."""
    return (
        sandbox.alive()
        and _page(sandbox, "http://allowed.test/") == 200
        and _page(sandbox, "https://allowed.test/", "connect") == 200
        and _page(sandbox, "http://evil.test/") == 403
    )


def _open_ways(world: World, sandbox: Sandbox) -> Iterator[str]:
    """Ways past the filters that the agent finds, if it still runs."""
    if not sandbox.running():
        return
    world.clear_records()
    try:
        yield from _direct_ways(sandbox)
        for url, via in (("http://evil.test/", "proxy"), ("https://evil.test/", "connect")):
            if _page(sandbox, url, via) == 200:
                yield f"{url} is answered"
    except (RuntimeError, OSError) as error:
        yield f"the agent can't be asked: {error}"
        return
    for packet in world.packets():
        if packet["destination"] == EVIL:
            yield f"a packet reached {EVIL}"
    if world.dns.queries("evil.test"):
        yield "evil.test was asked outside"


def _direct_ways(sandbox: Sandbox) -> Iterator[str]:
    targets = [
        ("tcp", EVIL, 80),
        ("tcp", ALLOWED, 443),
        ("udp", "198.51.100.53", 53),
        ("tcp", sandbox.gateway, 53),
        ("tcp", sandbox.gateway, 9901),
        ("tcp", sandbox.host_address, 22),
        ("icmp", EVIL, 0),
    ]
    for proto, to, port in targets:
        result = sandbox.agent.ask("socket", {"proto": proto, "to": to, "port": port})
        if result["outcome"] in ("connected", "answered"):
            yield f"{proto} {to}:{port} is {result['outcome']}"


def _recovers_or_drift(sandbox: Sandbox) -> list[str]:
    """All works again by itself, or a preview says that it doesn't."""
    deadline = time.monotonic() + RECOVERY_S
    last = ""
    while time.monotonic() < deadline:
        try:
            if sandbox.running():
                sandbox.attach()
                if _works(sandbox):
                    return []
            if sandbox.stack.drifted():
                return []
        except (RuntimeError, OSError, host.CommandError) as error:
            last = str(error)
        time.sleep(2)
    return [f"recovers_or_drift: neither within {RECOVERY_S} s: {last}"]
