"""`abox exec` and `abox shell`: run a program in the agent, as its user, in its folder."""

import sys
from typing import Annotated

import typer

from abox.naming import Role
from abox.pod import AGENT_WORKSPACE
from cli import host
from cli.checkout import current_checkout
from cli.containers import Container, check_known, list_containers, running_of_role
from cli.parameters import Stack

SHELLS = ("bash", "sh")
"""Tried in this order; the user's own image may have only the second."""


def run_in_agent(
    stack: Stack,
    command: Annotated[
        list[str], typer.Argument(help="Program and its arguments, after `--`.", metavar="CMD...")
    ],
) -> None:
    """Run CMD in the agent: same user, folder and variables as the agent has.

    Standard input, output and the exit code are passed through. There is a terminal inside only
    if there is one outside. Example: abox exec project-a -- npm install
    """
    host.replace(exec_command(find_agent(stack), command, terminal=_has_terminal()))


def open_shell(stack: Stack) -> None:
    """Open a shell in the agent."""
    terminal = _has_terminal()
    flag = " -i" if terminal else ""
    choose = "; ".join(f"command -v {shell} >/dev/null && exec {shell}{flag}" for shell in SHELLS)
    host.replace(exec_command(find_agent(stack), ["sh", "-c", choose], terminal=terminal))


def find_agent(stack: str) -> Container:
    """The running agent of a sandbox.

    Raises:
        SettingsError: there is no such stack.
        HostError: its agent doesn't run.
    """
    containers = list_containers()
    check_known(current_checkout(), stack, containers)
    return running_of_role(containers, stack, Role.AGENT)


def exec_command(agent: Container, command: list[str], *, terminal: bool) -> list[str]:
    """The engine's command line for a program in the agent."""
    flags = ["--interactive", "--tty"] if terminal else ["--interactive"]
    return ["docker", "exec", *flags, "--workdir", AGENT_WORKSPACE, agent.id, *command]


def _has_terminal() -> bool:
    """Whether a person sits at both ends: a terminal inside needs one for input and output."""
    return sys.stdin.isatty() and sys.stdout.isatty()
