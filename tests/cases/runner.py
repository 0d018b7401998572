"""Hands each case to the layer it belongs to; makes world and sandboxes when first needed."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from types import TracebackType

from abox.settings import CONTAINER, VM
from tests import host
from tests.cases.drift_layer import DriftRunner
from tests.cases.live import LiveRunner
from tests.cases.machine_layer import run_machine
from tests.cases.model import Case
from tests.cases.outcome import NotRunError
from tests.cases.policy_layer import PolicyRunner
from tests.cases.sandbox import Sandbox
from tests.cases.settings_layer import run_settings
from tests.stacks import Project
from tests.world import World

POLICY_STACK = "abxt-policy"
CASE_S = 300
VM_CASE_S = 1500
"""A machine boots within one case, emulated where the host has no virtualisation."""

FIRST = {"allow": ["allowed.test"], "allow_private_cidrs": ["2001:db8::/32"]}
"""What sandboxes come up with: the egress leg has IPv6, whether the policy of a case needs it or
not, since a case's policy goes live in place."""


class Runner:
    """Everything that cases run on; a context manager that leaves nothing behind."""

    def __init__(self, folder: Path, *, backend: str = "", spare_host: bool) -> None:
        """Nothing is made yet.

        Args:
            folder: for the logs of what runs in agents.
            backend: where cases for any backend run, and then no case for the other one; empty
                for containers, and machines for the cases that name them.
            spare_host: leave out what shakes the whole host.
        """
        self._folder, self._backend, self._spare_host = folder, backend, spare_host
        self._stack = contextlib.ExitStack()
        self._world: World | None = None
        self._project: Project | None = None
        self._main: dict[str, Sandbox] = {}
        self._second: Sandbox | None = None
        self._attached: Sandbox | None = None
        self._live: dict[str, LiveRunner] = {}
        self._drift: dict[str, DriftRunner] = {}
        self._policy = PolicyRunner(POLICY_STACK)
        self._failures: dict[str, str] = {}

    def __enter__(self) -> Runner:
        """The runner; nothing is made yet."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Take sandboxes and world away, the last made first."""
        self._stack.close()

    @property
    def world(self) -> World:
        """The upstream world."""
        if self._world is None:
            self._world = self._stack.enter_context(World())
        return self._world

    def escaped(self) -> int:
        """Packets that would have left the machine."""
        return self._world.escaped() if self._world else 0

    def make(self, letter: str, backend: str = CONTAINER) -> Sandbox:
        """A sandbox that doesn't stand yet."""
        world = self.world
        if self._project is None:
            self._project = self._stack.enter_context(Project())
        if backend == VM:
            self._project.limit_s = VM_CASE_S
        name = world.run.stack(f"{letter}v" if backend == VM else letter)
        sandbox = Sandbox(world, self._project, name, self._folder, backend=backend)
        self._stack.callback(sandbox.down)
        return sandbox

    def main(self, backend: str) -> Sandbox:
        """The sandbox that most cases of a backend run on."""
        if backend not in self._main:
            self._main[backend] = self._stand("a", backend)
        sandbox = self._main[backend]
        if self._attached is not sandbox:
            self._attach(sandbox)
        return sandbox

    def _attach(self, sandbox: Sandbox) -> None:
        """Let the world watch this sandbox, and the second one if there is one."""
        sandbox.attach()
        self._attached = sandbox
        if self._second is not None:
            self.world.watch_pod(self._second.pid("agent"))
            self.world.watch_pod(self._second.pid("pause"))

    def _stand(self, letter: str, backend: str = CONTAINER) -> Sandbox:
        """A sandbox that stands; one that didn't come up isn't tried for every case again."""
        place = f"{letter} {backend}"
        if place in self._failures:
            raise RuntimeError(self._failures[place])
        sandbox = self.make(letter, backend)
        done = sandbox.up(FIRST, check=False)
        if done.code != 0:
            told = done.stdout + done.stderr
            cause = told.partition("Diagnostics:")[2] or told
            self._failures[place] = f"the sandbox didn't come up: {cause[:800]}"
            raise RuntimeError(self._failures[place])
        self._attached = sandbox
        return sandbox

    def other(self) -> Sandbox:
        """A second sandbox on the host: what is sent to it has to pass the first one's filters."""
        if self._second is None:
            before = self._attached
            self._second = self._stand("b")
            if before is not None:
                self._attach(before)
        return self._second

    def backend_of(self, case: Case) -> str:
        """The backend that a case runs on.

        Raises: NotRunError if it is about another one than the chosen one.
        """
        if case.backend not in (CONTAINER, VM):
            return self._backend or CONTAINER
        if self._backend not in ("", case.backend):
            raise NotRunError(f"they are about the {case.backend} backend")
        return case.backend

    def limit_s(self, case: Case) -> int:
        """A case that takes longer has failed."""
        return VM_CASE_S if VM in (case.backend, self._backend) else CASE_S

    def run(self, case: Case) -> list[str]:
        """What of a case doesn't hold.

        Raises: NotRunError if this run has nothing to run it on.
        """
        backend = self.backend_of(case)
        if case.action == "config" and case.layer not in ("config", "policy"):
            return run_machine(case)
        if case.layer == "config" and case.action == "config":
            return run_settings(case)
        if case.layer == "policy":
            return self._policy.run(case)
        if case.layer == "drift":
            return self._drifting(backend).run(case)
        return self._living(backend).run(case)

    def _living(self, backend: str) -> LiveRunner:
        sandbox = self.main(backend)
        if backend not in self._live:
            self._live[backend] = LiveRunner(self.world, sandbox, self.other)
        return self._live[backend]

    def _drifting(self, backend: str) -> DriftRunner:
        self._attached = None  # it has a sandbox of its own
        if backend not in self._drift:
            self._drift[backend] = DriftRunner(
                self.world,
                lambda letter: self.make(letter, backend),
                self.other,
                spare_host=self._spare_host,
            )
        return self._drift[backend]

    def recover(self, case: Case) -> None:
        """After a case that broke: let the next one begin with a sandbox that stands."""
        backend = self.backend_of(case)
        if backend not in self._live:
            return
        self._live[backend].unclean()
        try:
            self._main[backend].up(FIRST, check=False)
        except (host.CommandError, host.TimeLimitError, RuntimeError, OSError, KeyError) as error:
            sys.stderr.write(f"the sandbox can't be repaired: {error}\n")
