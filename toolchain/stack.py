"""Brings the stacks of a checkout up and down with Pulumi."""

import json
import os
import re
import shutil
import signal
import socket
from pathlib import Path
from typing import Any

from abox.errors import ExitCode, HostError, SettingsError
from abox.naming import check_name
from toolchain import environment, shell
from toolchain.engine import program_of
from toolchain.layout import Checkout
from toolchain.progress import Step

PROJECT = "abox"
"""Name of the project in Pulumi.yaml."""

INTERRUPT_GRACE_S = 60.0
"""Seconds that Pulumi gets to finish the step it is at when the user interrupts it."""

NOISE = re.compile(r"\s*$|@ | ~  \S+ \S+ refresh(ing)? |    [\w-]+:[\w/]+:\w+ \S+( running)? *$")
"""Lines of Pulumi that aren't shown: signs of life, reads, and resources that stay as they are."""

SALT = re.compile(r"^encryptionsalt:.*\n?", re.MULTILINE)


class Stacks:
    """The stacks of a checkout."""

    def __init__(self, checkout: Checkout, step: Step) -> None:
        self._checkout = checkout
        self._step = step
        self._environment = environment.process_environment(checkout, os.environ)

    def require_file(self, stack: str) -> None:
        """Refuse a name that can't be a stack's, or that has no configuration.

        Raises:
            SettingsError: the name is malformed or unknown.
        """
        check_name(stack)
        if self._checkout.stack_file(stack).is_file():
            return
        pattern = self._checkout.stack_file("*")
        known = sorted(path.name[7:-5] for path in pattern.parent.glob(pattern.name))
        raise SettingsError(
            what=f"stack {stack!r} is unknown",
            why=f"{self._checkout.stack_file(stack)} doesn't exist; there are: {', '.join(known)}",
            remedy=f"use one of these names, or write that file (copy {known[0]})"
            if known
            else "write that file; README.md explains its keys",
        )

    def up(self, stack: str) -> int:
        """Make or repair a sandbox; the exit code of Pulumi."""
        self.require_file(stack)
        self._release_stale_locks(stack)
        self._init(stack)
        return self._pulumi("up", "-s", stack, "--yes", "--skip-preview")

    def down(self, stack: str) -> int:
        """Take a sandbox away, and its stack; the exit code of Pulumi."""
        check_name(stack)
        if stack not in self.names():
            self._step.done(f"stack {stack} doesn't exist: nothing to take away")
            return ExitCode.OK
        self._release_stale_locks(stack)
        code = self._pulumi("destroy", "-s", stack, "--yes", "--skip-preview")
        if code != 0:
            return code
        code = self._pulumi("stack", "rm", stack, "--yes", "--preserve-config")
        if code == 0:
            self._remove_salt(stack)
        return code

    def names(self) -> dict[str, int]:
        """The stacks of the backend, each with the number of its resources.

        Raises:
            HostError: Pulumi can't list them.
        """
        if not self._checkout.backend.is_dir():
            return {}
        listed = shell.require(
            shell.run(
                ["pulumi", "stack", "ls", "--json"],
                environment=self._environment,
                directory=self._checkout.root,
            ),
            what="the stacks can't be listed",
            remedy="run `make toolchain`, then try again",
        )
        entries: list[dict[str, Any]] = json.loads(listed.stdout)
        return {entry["name"]: entry.get("resourceCount") or 0 for entry in entries}

    def _init(self, stack: str) -> None:
        """Make the stack if the backend doesn't have it."""
        if stack in self.names():
            return
        self._remove_salt(stack)
        code = self._pulumi("stack", "init", stack)
        if code != 0:
            raise HostError(
                what=f"stack {stack} can't be made",
                why="Pulumi refuses, see above",
                remedy="repair what it names, then run this again",
            )

    def _remove_salt(self, stack: str) -> None:
        """Take the salt of a passphrase that no longer counts out of a stack's configuration.

        Pulumi writes it there when it makes the stack. It belongs to the passphrase of one
        checkout: in another one it would only say "incorrect passphrase".

        Raises:
            SettingsError: the file holds secrets, which that passphrase alone can read.
        """
        path = self._checkout.stack_file(stack)
        if not path.is_file():
            return
        text = path.read_text()
        if not SALT.search(text):
            return
        if re.search(r"^\s*(- )?secure:", text, re.MULTILINE):
            raise SettingsError(
                what=f"{path}: its secrets were encrypted elsewhere",
                why="this checkout has no stack of that name, hence not their passphrase",
                remedy="remove the secrets and the line encryptionsalt, run `make up`, then set "
                "them again with `pulumi config set --secret`",
            )
        path.write_text(SALT.sub("", text))

    def _release_stale_locks(self, stack: str) -> None:
        """Remove the locks of Pulumi processes of this host that are gone."""
        folder = self._checkout.backend / ".pulumi" / "locks" / "organization" / PROJECT / stack
        for path in folder.glob("*.json"):
            if is_stale_lock(path):
                self._step.say(f"an earlier command on {stack} was killed: its lock is removed")
                path.unlink(missing_ok=True)

    def _pulumi(self, *arguments: str) -> int:
        """Run Pulumi, its output as it comes; on failure the causes stand once more at the end."""
        output: list[str] = []

        def show(line: str) -> None:
            output.append(line)
            if not NOISE.match(line):
                self._step.say(line)

        shown = " ".join(arguments[:3])
        finished = shell.stream(
            ["pulumi", *arguments, "--non-interactive", "--color", "never"],
            show,
            on_tick=lambda: self._step.tick(f"pulumi {shown} is working"),
            stop=signal.SIGINT,  # SIGTERM would cut off the step that Pulumi is at
            grace_s=INTERRUPT_GRACE_S,
            environment=self._environment,
            directory=self._checkout.root,
        )
        if finished.code != 0:
            self._step.say(f"pulumi {shown} failed:")
            for cause in causes(output):
                self._step.say(cause)
        return finished.code


def causes(output: list[str]) -> list[str]:
    """The lines of Pulumi's output that say why it failed, each once.

    A failed program also prints the traceback of the SDK: of that, nothing is repeated.
    """
    found = [line.strip() for line in output if line.strip().startswith("error:")]
    specific = [line for line in found if "update failed" not in line]
    return list(dict.fromkeys(specific or found)) or ["no reason given; see above"]


def is_stale_lock(path: Path) -> bool:
    """Whether a lock of the file backend belongs to a process of this host that is gone."""
    try:
        lock = json.loads(path.read_text())
        host, pid = lock["hostname"], int(lock["pid"])
    except (OSError, ValueError, KeyError):
        return False
    return host == socket.gethostname() and program_of(pid) != "pulumi"


def clean(checkout: Checkout, step: Step, *, force: bool) -> None:
    """Remove `.abox/`, unless stacks in it still have resources.

    Args:
        checkout: whose state is removed.
        step: told what happens.
        force: destroy such stacks first, and go on even if that fails.

    Raises:
        HostError: there are such stacks, and no force.
    """
    if not checkout.state.exists():
        step.done("nothing to remove")
        return
    stacks = Stacks(checkout, step)
    standing = _standing(checkout, stacks)
    if standing and not force:
        raise HostError(
            what=f".abox holds the state of {', '.join(standing)}",
            why="without it nobody knows what stands on the host",
            remedy=f"run `make down STACK={standing[0]}` first, or `make clean FORCE=1`",
        )
    for stack in standing:
        if stacks.down(stack) != 0:
            step.say(f"{stack} could not be destroyed: parts of it stay on this host")
    shutil.rmtree(checkout.state)
    step.done("removed .abox")


def _standing(checkout: Checkout, stacks: Stacks) -> list[str]:
    """Stacks that have resources; without a CLI, those that the backend has a file for."""
    if shutil.which("pulumi", path=str(checkout.bin) + os.pathsep + os.environ["PATH"]):
        return [name for name, resources in stacks.names().items() if resources]
    folder = checkout.backend / ".pulumi" / "stacks" / PROJECT
    return sorted(path.stem for path in folder.glob("*.json"))
