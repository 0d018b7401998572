"""The `abox` command: its subcommands, and how every one of them ends.

Exit codes: 0 fine, 1 a check failed, 2 usage or configuration, 7 drift.
"""

import os
import sys
from collections.abc import Sequence
from typing import Annotated, NoReturn

import typer
from typer.exceptions import TyperException

from abox.errors import AboxError, ExitCode
from cli.check import check
from cli.copy import copy
from cli.doctor import doctor
from cli.drift import drift
from cli.edit import allow, deny
from cli.execute import open_shell, open_ssh, run_in_agent
from cli.explain import explain
from cli.listing import ls
from cli.logs import logs
from cli.monitor import app as monitor
from cli.output import complain, say
from cli.profile import profile
from cli.snapshot import app as snapshot
from cli.tap import tap
from cli.version import VERSION

NAME = "abox"

INTERRUPTED = 130
"""Exit code after an interrupt from the keyboard, as shells have it."""

app = typer.Typer(
    name=NAME,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 fine, 1 a check failed, 2 usage or configuration, 7 drift. "
    "A sandbox is a Pulumi stack: `pulumi up -s STACK` builds it, `pulumi destroy -s STACK` "
    "takes it away.",
)


def _print_version(*, wanted: bool) -> None:
    """Print the version and end."""
    if wanted:
        say(f"abox {VERSION}")
        raise typer.Exit(0)


@app.callback()
def root(
    *,
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            help="Print the version and exit.",
            is_eager=True,
            callback=lambda value: _print_version(wanted=value),
        ),
    ] = False,
) -> None:
    """Sandboxes for AI coding agents: look into them, judge them, change their allowlist."""


app.command("check", short_help="Try from inside that everything else is closed.")(check)
app.command("drift", short_help="Tell what differs from what was applied.")(drift)
app.command(
    "exec",
    short_help="Run a command in the agent.",
    context_settings={"ignore_unknown_options": True},
)(run_in_agent)
app.command("shell", short_help="Open a shell in the agent.")(open_shell)
app.command(
    "ssh",
    short_help="Log in to a VM by ssh.",
    context_settings={"ignore_unknown_options": True},
)(open_ssh)
app.command("cp", short_help="Copy files into the agent or out of it.")(copy)
app.command("logs", short_help="Show what was asked for, allowed and denied.")(logs)
app.command("profile", short_help="Turn what passive mode saw into allowlist lines.")(profile)
app.command("explain", short_help="Tell which rule allows or denies a URL.")(explain)
app.command("allow", short_help="Put a name on the allowlist, live.")(allow)
app.command("deny", short_help="Put a name on the denylist, live.")(deny)
app.add_typer(monitor, name="monitor", short_help="Signs of life from inside a VM.")
app.add_typer(snapshot, name="snapshot", short_help="Keep a VM's disks, and go back.")
app.command("tap", short_help="Show or keep packets, with their TLS keys.")(tap)
app.command("ls", short_help="List sandboxes and stacks.")(ls)
app.command("doctor", short_help="Tell what this host lacks, with remedies.")(doctor)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; errors are told on standard error."""
    try:
        words = sys.argv[1:] if arguments is None else list(arguments)
        code = app(args=words or ["--help"], prog_name=NAME, standalone_mode=False)
    except AboxError as error:
        complain(error)
        return int(error.exit_code)
    except TyperException as error:
        complain(usage_error(error))
        return int(ExitCode.USAGE)
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except BrokenPipeError:  # the reader of a pipe has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return int(ExitCode.OK)
    return code if isinstance(code, int) else int(ExitCode.OK)


def usage_error(error: TyperException) -> AboxError:
    """A mistake on the command line, in three lines."""
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "abox"
    said = getattr(error, "format_message", lambda: str(error))()
    return AboxError(
        what=f"{command}: {said}",
        why="the command line does not fit the command",
        remedy=f"see `{command} --help`",
    )


def main() -> NoReturn:
    """Entry of the installed command."""
    sys.exit(run())
