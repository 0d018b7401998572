"""Parameters that several commands share, described once."""

from typing import Annotated

import typer

from cli.checkout import current_checkout


def complete_stack(incomplete: str) -> list[str]:
    """Stack names for the shell's completion."""
    return [name for name in current_checkout().stacks() if name.startswith(incomplete)]


Stack = Annotated[
    str,
    typer.Argument(
        help="Name of the stack, which is the sandbox's name.",
        metavar="STACK",
        show_default=False,
        autocompletion=complete_stack,
    ),
]

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
