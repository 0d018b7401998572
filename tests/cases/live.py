"""Runs cases of the layers dns, proxy, forward and substrate against a standing sandbox."""

from __future__ import annotations

import contextlib
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from abox.errors import AboxError
from abox.settings import VM
from tests import host
from tests.cases import mapping, sockets
from tests.cases.boot_flood import flood_at_boot
from tests.cases.judge import Evidence, judge_all
from tests.cases.log_volume import full_log_volume
from tests.cases.model import Case
from tests.cases.outcome import NotRunError, Outcome
from tests.cases.placeholders import Placeholders
from tests.cases.sandbox import PROBE, Sandbox
from tests.world import World
from tests.world.capture import Capture
from tests.world.world import EVIL

SETTLE_S = 0.15
"""After an action, for packets that are still on their way."""
AGAIN_S = 0.5
"""Pause before an action is tried again within its time."""
EXEC_S = 300


class LiveRunner:
    """One sandbox, many cases: the policy is changed in place from case to case."""

    def __init__(self, world: World, sandbox: Sandbox, other: Callable[[], Sandbox]) -> None:
        self._world, self._sandbox, self._other = world, sandbox, other
        self._clean = False

    def unclean(self) -> None:
        """Something broke: caches may hold anything."""
        self._clean = False

    def run(self, case: Case) -> list[str]:
        """What of the case doesn't hold.

        Raises: NotRunError if there is nothing to run it on.
        """
        with tempfile.TemporaryDirectory(prefix="abxt-case-") as folder:
            places = Placeholders(self._sandbox, Path(folder), self._other, _role_of(case))
            filled = replace(
                case,
                given=places.fill(case.given),
                do=places.fill(case.do),
                expect=places.fill(case.expect),
            )
            self._prepare_world(filled)
            try:
                faults = self._with_policy(filled)
            finally:
                self._sandbox.agent.ask("forget", {})
                self._clean = self._world.dns.queries() == 0 and "allow_before" not in case.given
        return faults

    # --- the world ------------------------------------------------------------------------

    def _prepare_world(self, case: Case) -> None:
        given = case.given
        used = any(given.get(key) for key in ("dns", "records", "dns_fail", "dns_sequence"))
        if not self._clean and (used or given.get("origins") or case.layer in ("dns", "proxy")):
            self._sandbox.forget_answers()
        self._world.reset()
        names = {name: list(addresses) for name, addresses in (given.get("dns") or {}).items()}
        names.setdefault("evil.test", [EVIL])
        self._world.dns.set(
            names,
            records=given.get("records") or (),
            fail=given.get("dns_fail"),
            sequence=given.get("dns_sequence"),
        )
        for origin in given.get("origins") or []:
            self._world.origin(
                at=str(origin["at"]),
                speaks=origin["speaks"],
                cert=origin.get("cert"),
                answer=origin.get("answer"),
            )

    # --- policy, then action --------------------------------------------------------------

    def _with_policy(self, case: Case) -> list[str]:
        settings = mapping.settings_of_given(case.given)
        try:
            if "allow_before" in case.given:
                self._sandbox.apply({**settings, "allow": case.given["allow_before"]})
                self._establish(case.given.get("established"))
                self._world.clear_records()
            self._sandbox.apply(settings)
        except AboxError as error:
            if case.expect.get("or_config_error"):
                return []
            return [f"the settings were refused: {' / '.join(str(error).splitlines())}"]
        with self._listening(case), self._log(case), self._reloading(case, settings):
            return self._within_time(case)

    def _establish(self, action: Mapping[str, Any] | None) -> None:
        if not action:
            return
        responses = self._sandbox.agent.ask("http", {**action["http"], "keep": True})
        if any(r["status"] != 200 for r in responses):
            raise RuntimeError(f"the connection to begin with: {responses}")

    @contextlib.contextmanager
    def _listening(self, case: Case) -> Iterator[None]:
        """What the host itself listens on."""
        from tests.cases.listeners import listening

        wanted = (case.given.get("host") or {}).get("listens") or []
        with listening(self._sandbox.host_address, wanted):
            yield

    def _log(self, case: Case) -> contextlib.AbstractContextManager[None]:
        """The log's volume, full where the case says so."""
        wanted = case.given.get("log_volume")
        if wanted not in (None, "full"):
            raise NotRunError(f"a log volume that is {wanted!r}")
        if wanted is None:
            return contextlib.nullcontext()
        return full_log_volume(self._sandbox.facts.container)

    @contextlib.contextmanager
    def _reloading(self, case: Case, settings: Mapping[str, Any]) -> Iterator[None]:
        """Apply the policy again and again meanwhile."""
        every_ms = case.given.get("reload_every_ms")
        if not every_ms:
            yield
            return
        apply, over, failures = self._sandbox.applier(settings), threading.Event(), []

        def reload() -> None:
            try:
                while not over.wait(float(every_ms) / 1000):
                    apply()
            except (AboxError, host.CommandError) as error:
                failures.append(error)

        thread = threading.Thread(target=reload, daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()
        if failures:
            raise RuntimeError(f"the policy could not be applied again: {failures[0]}")

    def _within_time(self, case: Case) -> list[str]:
        """Act and judge; where the case gives time, try until it holds."""
        limit_s = case.expect.get("within_s")
        start = time.monotonic()
        while True:
            self._world.clear_records()
            outcome = self._act(case)
            faults = judge_all(Evidence(case, outcome, self._world, self._sandbox))
            spent_s = time.monotonic() - start
            if outcome.worst_s is not None and limit_s is not None:
                if outcome.worst_s > limit_s:
                    faults.append(f"within_s: another client waited {outcome.worst_s:.1f} s")
                return faults
            if limit_s is None:
                return faults
            if not faults:
                late = spent_s > limit_s
                return [f"within_s: it took {spent_s:.1f} s"] if late else []
            if spent_s + AGAIN_S > limit_s:
                return faults
            time.sleep(AGAIN_S)

    # --- actions --------------------------------------------------------------------------

    def _act(self, case: Case) -> Outcome:
        outcome = Outcome(started=time.time())
        start = time.monotonic()
        perform = {
            "http": self._http,
            "raw": self._raw,
            "dns": self._dns,
            "socket": self._socket,
            "exec": self._exec,
            "exec_host": self._exec_host,
        }.get(case.action)
        if perform is None:
            raise NotRunError(f"no {case.action} in the layer {case.layer}")
        if "agrees" in case.expect:
            outcome.verdicts = self._verdicts(case.do["http"]["url"])
        else:
            perform(case, outcome)
        outcome.seconds = time.monotonic() - start
        time.sleep(SETTLE_S)
        return outcome

    def _http(self, case: Case, outcome: Outcome) -> None:
        outcome.responses = self._sandbox.agent.ask("http", case.do["http"])

    def _raw(self, case: Case, outcome: Outcome) -> None:
        answers = len(case.expect.get("statuses") or [0])
        action = {**case.do, "answers": answers, "await_close": "closes" in case.expect}
        result = self._sandbox.agent.ask("raw", action)
        outcome.responses, outcome.closed = result["responses"], result["closed"]
        outcome.alive, outcome.worst_s = result.get("alive"), result.get("worst_s")

    def _dns(self, case: Case, outcome: Outcome) -> None:
        outcome.answers = self._sandbox.agent.ask("dns", case.do["dns"])
        if int(case.do["dns"].get("times") or 1) > 1:
            time.sleep(2)  # the resolver may still be asking

    def _socket(self, case: Case, outcome: Outcome) -> None:
        sockets.perform(self._world, self._sandbox, case.do["socket"], outcome)

    def _exec(self, case: Case, outcome: Outcome) -> None:
        args = [str(argument) for argument in case.do["exec"]]
        command = args
        if args[0] == "{probe}":
            self._sandbox.copy_probe()
            command = ["python3", PROBE, *args[1:]]
        if "boot-flood" in args:
            self._boot_flood(args[2], args[3], outcome)
            return
        if "host_queries" not in case.expect:
            outcome.completed = self._sandbox.exec(command, EXEC_S)
            return
        capture = Capture()
        try:
            outcome.completed = self._sandbox.exec(command, EXEC_S)
            time.sleep(SETTLE_S)
            outcome.host_packets = self._foreign_questions(capture, args[2])
        finally:
            capture.close()

    def _boot_flood(self, address: str, port: str, outcome: Outcome) -> None:
        if self._sandbox.backend != VM:
            raise NotRunError("boot-flood needs a machine that boots")
        if flood_at_boot(self._sandbox, address, port) == 0:
            raise RuntimeError("the guest sent nothing while it booted")
        outcome.packets_seen = sum(
            packet["destination"] == address and packet["port"] == int(port)
            for packet in (*self._world.arrived_in_pods(), *self._world.packets())
        )

    def _foreign_questions(self, capture: Capture, name: str) -> list[str]:
        """DNS questions for a name that left by other devices than the sandbox's bridges."""
        label = name.split(".")[0].encode().hex()
        bridges = {self._sandbox.bridge, self._sandbox.facts.lease["egress_bridge"]}
        return [
            packet.question
            for packet in capture.packets()
            if label in packet.question
            and packet.outgoing
            and packet.interface not in bridges
            and not packet.interface.startswith(("veth", "abxt-"))
        ]

    def _exec_host(self, case: Case, outcome: Outcome) -> None:
        args = [str(argument) for argument in case.do["exec_host"]]
        if args[0] == "pulumi":
            args = [*args[1:], "--stack", self._sandbox.name]
            outcome.completed = self._sandbox.stack.project.pulumi(*args, check=False)
        else:
            outcome.completed = host.run(args, check=False)

    def _verdicts(self, url: str) -> dict[str, bool]:
        """Whether each path allows the name of a URL."""
        name = urlsplit(url).hostname or ""
        ask = self._sandbox.agent.ask
        (answer,) = ask("dns", {"name": name, "type": "A"})
        (plain,) = ask("http", {"method": "GET", "url": f"http://{name}/", "via": "proxy"})
        (tunnel,) = ask("http", {"method": "GET", "url": f"https://{name}/", "via": "connect"})
        return {
            "dns": answer["rcode"] == "NOERROR",
            "http": plain["status"] == 200,
            "connect": tunnel["status"] == 200,
        }


def _role_of(case: Case) -> str:
    """Which container of the pod a case means by ``{gateway_container}``."""
    text = str(case.do)
    if "unbound" in text:
        return "dns"
    return "control" if "{ca_cert}" in text or "ca" in text.split() else "proxy"
