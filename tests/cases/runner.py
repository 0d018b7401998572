"""Hands each case to the layer it belongs to; makes world and sandboxes when first needed."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from types import TracebackType

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

FIRST = {"allow": ["allowed.test"], "allow_private_cidrs": ["2001:db8::/32"]}
"""What sandboxes come up with: the egress leg has IPv6, whether the policy of a case needs it or
not, since a case's policy goes live in place."""


class Runner:
    """Everything that cases run on; a context manager that leaves nothing behind."""

    def __init__(self, folder: Path, *, spare_host: bool) -> None:
        self._folder, self._spare_host = folder, spare_host
        self._stack = contextlib.ExitStack()
        self._world: World | None = None
        self._project: Project | None = None
        self._main: Sandbox | None = None
        self._second: Sandbox | None = None
        self._live: LiveRunner | None = None
        self._drift: DriftRunner | None = None
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

    def make(self, letter: str) -> Sandbox:
        """A sandbox that doesn't stand yet."""
        world = self.world
        if self._project is None:
            self._project = self._stack.enter_context(Project())
        sandbox = Sandbox(world, self._project, world.run.stack(letter), self._folder)
        self._stack.callback(sandbox.down)
        return sandbox

    @property
    def main(self) -> Sandbox:
        """The sandbox that most cases run on."""
        if self._main is None:
            self._main = self._stand("a")
        return self._main

    def _stand(self, letter: str) -> Sandbox:
        """A sandbox that stands; one that didn't come up isn't tried for every case again."""
        if letter in self._failures:
            raise RuntimeError(self._failures[letter])
        sandbox = self.make(letter)
        done = sandbox.up(FIRST, check=False)
        if done.code != 0:
            told = done.stdout + done.stderr
            cause = told.partition("Diagnostics:")[2] or told
            self._failures[letter] = f"the sandbox didn't come up: {cause[:800]}"
            raise RuntimeError(self._failures[letter])
        return sandbox

    def other(self) -> Sandbox:
        """A second sandbox on the host."""
        if self._second is None:
            self._second = self._stand("b")
            self.main.attach()
            self.world.watch_pod(self._second.pid("agent"))
            self.world.watch_pod(self._second.pid("pause"))
        return self._second

    def run(self, case: Case) -> list[str]:
        """What of a case doesn't hold.

        Raises: NotRunError if this version of the project has nothing to run it on.
        """
        if case.backend == "vm":
            raise NotRunError(
                "the cases run on the container backend; tests/e2e/test_vm.py has VMs"
            )
        if case.action == "config" and case.layer not in ("config", "policy"):
            return run_machine(case)
        if case.layer == "config" and case.action == "config":
            return run_settings(case)
        if case.layer == "policy":
            return self._policy.run(case)
        if case.layer == "drift":
            return self._drifting().run(case)
        return self._living().run(case)

    def _living(self) -> LiveRunner:
        if self._live is None:
            self._live = LiveRunner(self.world, self.main, self.other)
        return self._live

    def _drifting(self) -> DriftRunner:
        if self._drift is None:
            self._drift = DriftRunner(
                self.world, self.make, self.other, spare_host=self._spare_host
            )
        return self._drift

    def recover(self) -> None:
        """After a case that broke: let the next one begin with a sandbox that stands."""
        if self._main is None or self._live is None:
            return
        self._live.unclean()
        try:
            self._main.up(FIRST, check=False)
        except (host.CommandError, host.TimeLimitError, RuntimeError, OSError, KeyError) as error:
            sys.stderr.write(f"the sandbox can't be repaired: {error}\n")
