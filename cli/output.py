"""How commands speak: rows and JSON on standard output, errors of three lines on standard error.

Nothing that comes from a sandbox reaches the terminal with its control characters.
"""

import json
import shutil
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from abox.errors import AboxError, printable

PLAIN_WIDTH = 160
"""Columns of a table that goes into a file or a pipe, where nobody's window sets a limit."""


def say(text: str) -> None:
    """Print text on standard output: line breaks are kept, other control characters escaped."""
    sys.stdout.write("\n".join(printable(line) for line in text.split("\n")) + "\n")
    sys.stdout.flush()


def say_line(text: str) -> None:
    """Print one line, whatever is in the text: a line break in it can't forge another line."""
    say(printable(text))


def say_json(document: Any) -> None:
    """Print a document as JSON; whatever isn't ASCII is escaped."""
    sys.stdout.write(json.dumps(document, indent=2) + "\n")
    sys.stdout.flush()


def say_json_line(document: Any) -> None:
    """Print a document as one line of JSON, for output that goes on."""
    sys.stdout.write(json.dumps(document) + "\n")
    sys.stdout.flush()


def note(text: str) -> None:
    """Print a remark on standard error, beside the answer that standard output carries."""
    sys.stderr.write(printable(text) + "\n")
    sys.stderr.flush()


def complain(error: AboxError) -> None:
    """Print an error: what, why, what to do."""
    sys.stderr.write(f"{error}\n")
    sys.stderr.flush()


def say_table(columns: Sequence[str], rows: Iterable[Sequence[str | Text]]) -> None:
    """Print rows under headings, as wide as the terminal."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, highlight=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(cell if isinstance(cell, Text) else Text(printable(cell)) for cell in row))
    Console(soft_wrap=False, width=table_width()).print(table)


def table_width() -> int:
    """Columns that a table may have."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else PLAIN_WIDTH


def mark(word: str, *, ok: bool) -> Text:
    """A word in green or red."""
    return Text(word if ok else word.upper(), style="green" if ok else "bold red")
