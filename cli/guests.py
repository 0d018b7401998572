"""VMs of sandboxes on this host, reached by the ssh settings that `pulumi up` wrote for each."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from abox.errors import AboxError, HostError
from abox.host_state import ssh_config, state_dir
from abox.pod import AGENT_WORKSPACE
from abox.render.ssh import ALIAS
from abox.settings import VM
from cli.checkout import Checkout
from cli.stack_file import read_settings

_IN_WORKSPACE = f'cd {AGENT_WORKSPACE} && exec "$@"'


@dataclass(frozen=True)
class Guest:
    """The VM of a sandbox."""

    sandbox: str
    config: Path
    """Settings of ssh: address, key and the one known host."""

    def ssh(self, *options: str) -> list[str]:
        """A command line of ssh up to its destination, which is included."""
        return ["ssh", "-F", str(self.config), *options, ALIAS]

    def run(self, command: list[str], *, terminal: bool = False) -> list[str]:
        """The command line for a program in the workspace, with what a login sets."""
        # ssh hands one text to a shell: it is quoted here, so that every argument stays one.
        remote = shlex.join(["sh", "-lc", _IN_WORKSPACE, "abox", *command])
        return [*self.ssh("-tt" if terminal else "-T"), remote]

    def shell(self) -> list[str]:
        """The command line for a login shell in the workspace."""
        remote = shlex.join(["sh", "-c", f'cd {AGENT_WORKSPACE}; exec "$SHELL" -l'])
        return [*self.ssh("-tt"), remote]


def find_guest(sandbox: str) -> Guest | None:
    """The VM of a sandbox, None if there is none on this host."""
    config = ssh_config(Path(state_dir(os.environ)), sandbox)
    return Guest(sandbox, config) if config.is_file() else None


def list_guests(sandboxes: Iterable[str]) -> list[Guest]:
    """The VMs of those sandboxes that have one."""
    return [guest for name in sandboxes if (guest := find_guest(name))]


def guest_of(checkout: Checkout, stack: str) -> Guest | None:
    """The VM of a stack; None if its agent is a container.

    Raises:
        HostError: the agent is a VM, and there is none on this host.
    """
    guest = find_guest(stack)
    if guest is None and _wants_vm(checkout, stack):
        raise HostError(
            what=f"sandbox {stack} has no VM on this host",
            why="it is not up, or its VM was removed",
            remedy=f"run `pulumi up -s {stack}`",
        )
    return guest


def _wants_vm(checkout: Checkout, stack: str) -> bool:
    """Whether a stack of the checkout asks for a VM."""
    try:
        return read_settings(checkout, stack).backend == VM
    except AboxError:
        return False
