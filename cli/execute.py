"""`abox exec`, `abox shell`, `abox ssh`: run a program in the agent, as its user, in its folder."""

import sys
from typing import Annotated

import typer

from abox.errors import HostError
from abox.naming import Role
from abox.pod import AGENT_WORKSPACE
from cli import host
from cli.checkout import current_checkout
from cli.containers import Container, check_known, list_containers, running_of_role
from cli.guests import Guest, guest_of
from cli.parameters import Stack

SHELLS = ("bash", "sh")
"""Tried in this order; the user's own image may have only the second."""


def run_in_agent(
    stack: Stack,
    command: Annotated[
        list[str], typer.Argument(help="Program and its arguments, after `--`.", metavar="CMD...")
    ],
) -> None:
    """Run CMD in the agent, container or VM: same user, folder and variables as the agent has.

    Standard input, output and the exit code are passed through. There is a terminal inside only
    if there is one outside. Example: abox exec project-a -- npm install
    """
    terminal = _has_terminal()
    agent = find_agent(stack)
    if isinstance(agent, Guest):
        host.replace(agent.run(command, terminal=terminal))
    host.replace(exec_command(agent, command, terminal=terminal))


def open_shell(stack: Stack) -> None:
    """Open a shell in the agent, container or VM."""
    terminal = _has_terminal()
    agent = find_agent(stack)
    if isinstance(agent, Guest):
        host.replace(agent.shell() if terminal else agent.run(["sh"]))
    flag = " -i" if terminal else ""
    choose = "; ".join(f"command -v {shell} >/dev/null && exec {shell}{flag}" for shell in SHELLS)
    host.replace(exec_command(agent, ["sh", "-c", choose], terminal=terminal))


def open_ssh(
    stack: Stack,
    arguments: Annotated[
        list[str] | None, typer.Argument(help="What ssh gets as its command.", metavar="ARG...")
    ] = None,
) -> None:
    """Log in to the VM of STACK by ssh, with its own key and its known host key.

    The settings are a file of their own (`ssh_config` in the stack's outputs), which any ssh
    client takes with -F. A container has no ssh: use `abox shell`.
    """
    agent = find_agent(stack)
    if not isinstance(agent, Guest):
        raise HostError(
            what=f"the agent of {stack} has no ssh",
            why="it is a container",
            remedy=f"use `abox shell {stack}`",
        )
    host.replace([*agent.ssh(), *(arguments or [])])


def find_agent(stack: str) -> Container | Guest:
    """The running agent of a sandbox, or its VM.

    Raises:
        SettingsError: there is no such stack.
        HostError: its agent doesn't run.
    """
    checkout = current_checkout()
    containers = list_containers()
    check_known(checkout, stack, containers)
    guest = guest_of(checkout, stack)
    return guest or running_of_role(containers, stack, Role.AGENT)


def exec_command(agent: Container, command: list[str], *, terminal: bool) -> list[str]:
    """The engine's command line for a program in the agent."""
    flags = ["--interactive", "--tty"] if terminal else ["--interactive"]
    return ["docker", "exec", *flags, "--workdir", AGENT_WORKSPACE, agent.id, *command]


def _has_terminal() -> bool:
    """Whether a person sits at both ends: a terminal inside needs one for input and output."""
    return sys.stdin.isatty() and sys.stdout.isatty()
