"""`abox logs`: verdicts of DNS filter and proxy, merged by time."""

from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from typing import Annotated

import typer

from abox.errors import AboxError
from abox.verdict_log import Outcome, RequestVerdict, Source, Verdict
from cli.checkout import current_checkout
from cli.containers import check_known, list_containers
from cli.output import say_json_line, say_line
from cli.parameters import Stack
from cli.verdict_files import VerdictFiles, folder_of


def logs(
    stack: Stack,
    *,
    dns: Annotated[bool, typer.Option("--dns", help="Only the DNS filter's verdicts.")] = False,
    http: Annotated[bool, typer.Option("--http", help="Only the proxy's verdicts.")] = False,
    blocked: Annotated[bool, typer.Option("--blocked", help="Only what was denied.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object a line.")] = False,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on as they come.")] = False,
) -> None:
    """Show what STACK asked for, what was allowed and what was denied, oldest first.

    A line with (xN) stands for N that are alike: what repeats itself often is counted. The fields
    of --json are described in docs/verdict-log.schema.json.
    """
    if dns and http:
        raise AboxError(
            what="--dns and --http exclude each other",
            why="each leaves the other's verdicts out",
            remedy="give one of them, or neither for both",
        )
    check_known(current_checkout(), stack, list_containers())
    sources = [Source.DNS] if dns else [Source.HTTP] if http else list(Source)
    outcomes = [Outcome.DENY] if blocked else list(Outcome)
    streams = [(source, outcome) for source in sources for outcome in outcomes]
    with closing(VerdictFiles(folder_of(stack), streams)) as files:
        for line in _read(files, follow=follow):
            if not is_shown(line):
                continue
            if as_json:
                say_json_line(line.to_document())
            else:
                say_line(in_words(line))


def _read(files: VerdictFiles, *, follow: bool) -> Iterator[Verdict]:
    yield from files.history()
    if follow:
        yield from files.later()


def is_shown(line: Verdict) -> bool:
    """Whether a line says more than others do: a tunnel's requests have lines of their own."""
    return not (isinstance(line, RequestVerdict) and line.tunnel and line.allowed)


def in_words(line: Verdict) -> str:
    """A line for people, in local time."""
    moment = datetime.fromtimestamp(line.time, UTC).astimezone()
    return (
        f"{moment:%Y-%m-%d %H:%M:%S}.{moment.microsecond // 1000:03d} "
        f"{line.source:<4} {line.summary()}"
    )
