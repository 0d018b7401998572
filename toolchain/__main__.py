"""`python3 -m toolchain COMMAND`: the steps behind the targets of the Makefile."""

import argparse
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from abox.errors import AboxError, ExitCode
from toolchain import (
    engine,
    environment,
    hypervisor,
    packages,
    pulumi_cli,
    resource_plugins,
    stack,
    venv,
    virtual_machines,
)
from toolchain.layout import Checkout, this_checkout, user_cache
from toolchain.progress import Step

ABOX_LAUNCHER = """\
#!{python}
\"\"\"The abox command, from the checkout's own sources.\"\"\"
import sys

sys.path.insert(0, {root!r})
from cli.main import main

main()
"""

TEST_LIST = "packages-test.txt"
"""What the tests need besides."""

INTERRUPTED = 130
"""Exit code after an interrupt from the keyboard, as shells report it."""


def _packages(checkout: Checkout, arguments: argparse.Namespace) -> int:
    """Install missing Debian packages; only those that sandboxes need may start services."""
    machines = [virtual_machines.PACKAGES] if arguments.test else []
    lists = [checkout.toolchain / name for name in ("packages.txt", *machines)]
    packages.install(lists, Step("packages"))
    tests = [checkout.toolchain / TEST_LIST] if arguments.test else []
    if further := [*tests, *map(Path, arguments.lists)]:
        packages.install(further, Step("packages"), services=False)
    return ExitCode.OK


def _venv(checkout: Checkout, arguments: argparse.Namespace) -> int:
    """Make the virtual environment."""
    venv.install(checkout, Step("venv"), dev=arguments.dev)
    return ExitCode.OK


def _pulumi(checkout: Checkout, _: argparse.Namespace) -> int:
    """Provide the CLI, the language host, the plugins and the abox command."""
    environment.prepare(checkout)
    cli = pulumi_cli.provide(checkout, Step("pulumi"))
    launcher = ABOX_LAUNCHER.format(python=checkout.python, root=str(checkout.root))
    pulumi_cli.write_executable(checkout.bin / "abox", launcher)
    variables = environment.process_environment(checkout, os.environ)
    resource_plugins.install(checkout, cli, variables, Step("plugins"))
    return ExitCode.OK


def _engine(_: Checkout, arguments: argparse.Namespace) -> int:
    """Start an engine if none answers, or stop the one that was started here."""
    action: Callable[..., None] = engine.stop if arguments.stop else engine.ensure
    action(Step("engine"), os.environ)
    return ExitCode.OK


def _vm(checkout: Checkout, arguments: argparse.Namespace) -> int:
    """Provide what virtual machines need, if the stack is one; or stop libvirt's daemons."""
    if arguments.stop:
        hypervisor.stop(Step("vm"))
    elif arguments.stack is None or virtual_machines.is_wanted(checkout, arguments.stack):
        virtual_machines.provide(checkout, Step("vm"))
    return ExitCode.OK


def _env(checkout: Checkout, arguments: argparse.Namespace) -> int:
    """Print the variables for a shell."""
    path = arguments.path or os.environ.get("PATH", "")
    sys.stdout.write(environment.export_lines(checkout, {**os.environ, "PATH": path}))
    return ExitCode.OK


def _up(checkout: Checkout, arguments: argparse.Namespace) -> int:
    """Bring a stack up."""
    return stack.Stacks(checkout, Step("up")).up(arguments.stack)


def _down(checkout: Checkout, arguments: argparse.Namespace) -> int:
    """Take a stack down."""
    return stack.Stacks(checkout, Step("down")).down(arguments.stack)


def _stack_exists(checkout: Checkout, arguments: argparse.Namespace) -> int:
    """Refuse an unknown stack before anything is touched."""
    stack.Stacks(checkout, Step("stack")).require_file(arguments.stack)
    return ExitCode.OK


def _clean(checkout: Checkout, arguments: argparse.Namespace) -> int:
    """Remove the checkout's state, and with --cache what checkouts share."""
    stack.clean(checkout, Step("clean"), force=arguments.force)
    if arguments.cache:
        shutil.rmtree(user_cache(), ignore_errors=True)
    return ExitCode.OK


def _parser() -> argparse.ArgumentParser:
    """All commands and their options."""
    parser = argparse.ArgumentParser(prog="python3 -m toolchain")
    commands = parser.add_subparsers(required=True)

    def command(name: str, run: Callable[..., int]) -> argparse.ArgumentParser:
        added = commands.add_parser(name, help=run.__doc__)
        added.set_defaults(run=run)
        return added

    listing = command("packages", _packages)
    listing.add_argument("--test", action="store_true", help="with what the tests need")
    listing.add_argument("lists", nargs="*", help="further lists of packages")
    command("venv", _venv).add_argument("--dev", action="store_true", help="with test tools")
    command("pulumi", _pulumi)
    command("engine", _engine).add_argument("--stop", action="store_true", help="stop it")
    machines = command("vm", _vm)
    machines.add_argument("--stack", help="do nothing unless this stack is a virtual machine")
    machines.add_argument("--stop", action="store_true", help="stop the daemons started here")
    command("env", _env).add_argument("--path", help="the PATH to extend")
    command("up", _up).add_argument("stack")
    command("down", _down).add_argument("stack")
    command("stack", _stack_exists).add_argument("stack")
    cleaning = command("clean", _clean)
    cleaning.add_argument("--force", action="store_true", help="destroy stacks that still stand")
    cleaning.add_argument("--cache", action="store_true", help="also what all checkouts share")
    return parser


def main() -> int:
    """Run one command; errors as three lines."""
    arguments = _parser().parse_args()
    try:
        code: int = arguments.run(this_checkout(), arguments)
    except AboxError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        return INTERRUPTED
    return code


if __name__ == "__main__":
    sys.exit(main())
