"""`abox logs`: verdicts of DNS filter and proxy, merged by time."""

import heapq
import queue
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from abox.allowlist import Deny, Policy, judge_name
from abox.errors import AboxError
from abox.naming import Role
from abox.verdict_lines import NameVerdict, Verdict, parse_dns_line, parse_http_line
from cli import host
from cli.checkout import current_checkout
from cli.containers import Container, check_known, list_containers, of_role
from cli.output import say_json_line, say_line
from cli.parameters import Stack
from cli.stack_file import read_settings

Parser = Callable[[str], Verdict | None]

SOURCES: dict[Role, Parser] = {Role.DNS: parse_dns_line, Role.PROXY: parse_http_line}
"""Containers that write verdicts, and how a line of theirs is read."""

_STAMP = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?Z ")


@dataclass(frozen=True, order=True)
class Timed:
    """A verdict and when the engine took its line."""

    time: float
    """Seconds since the epoch."""
    order: int
    """Position in its container's log: equal times keep their order."""
    verdict: Verdict


def logs(
    stack: Stack,
    *,
    dns: Annotated[bool, typer.Option("--dns", help="Only the DNS filter's verdicts.")] = False,
    http: Annotated[bool, typer.Option("--http", help="Only the proxy's verdicts.")] = False,
    blocked: Annotated[bool, typer.Option("--blocked", help="Only what was denied.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object a line.")] = False,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on as they come.")] = False,
) -> None:
    """Show what STACK asked for, what was allowed and what was denied, oldest first."""
    containers = list_containers()
    check_known(current_checkout(), stack, containers)
    if dns and http:
        raise AboxError(
            what="--dns and --http exclude each other",
            why="each leaves the other's verdicts out",
            remedy="give one of them, or neither for both",
        )
    roles = [Role.DNS] if dns else [Role.PROXY] if http else list(SOURCES)
    sources = {role: of_role(containers, stack, role).id for role in roles}
    policy = current_policy(stack)
    own = own_addresses(stack, containers)
    for read in _followed(sources) if follow else _merged(sources):
        one = settled(read, policy)
        if not wanted(one.verdict, own, blocked=blocked):
            continue
        if as_json:
            say_json_line(to_document(one))
        else:
            say_line(in_words(one))


def wanted(verdict: Verdict, own: frozenset[str], *, blocked: bool) -> bool:
    """Whether a verdict is shown.

    A tunnel whose requests have lines of their own isn't, nor what the gateway asks itself.

    Args:
        verdict: the verdict.
        own: addresses of the gateway.
        blocked: only denials are wanted.
    """
    inner = verdict.client in own if isinstance(verdict, NameVerdict) else verdict.tunnel
    return not inner and not (blocked and verdict.allowed)


def settled(one: Timed, policy: Policy | None) -> Timed:
    """The verdict with an allowed name that doesn't exist told from a denied one.

    The DNS filter answers both alike. The policy as it is now tells them apart; without one the
    name counts as denied.
    """
    verdict = one.verdict
    if not isinstance(verdict, NameVerdict) or verdict.allowed or policy is None:
        return one
    allowed = not isinstance(judge_name(policy, verdict.name), Deny)
    return replace(one, verdict=replace(verdict, allowed=allowed))


def current_policy(stack: str) -> Policy | None:
    """The policy in the stack's settings; None if this checkout has none or it is refused."""
    try:
        return read_settings(current_checkout(), stack).policy
    except AboxError:
        return None


def own_addresses(stack: str, containers: Iterable[Container]) -> frozenset[str]:
    """Addresses of a sandbox's gateway."""
    return frozenset(
        address
        for one in containers
        if one.sandbox == stack and one.role == Role.PAUSE
        for address in one.addresses.values()
    )


def to_document(one: Timed) -> dict[str, Any]:
    """A verdict for programs."""
    moment = datetime.fromtimestamp(one.time, UTC).isoformat(timespec="milliseconds")
    return {**one.verdict.to_document(), "time": moment.replace("+00:00", "Z")}


def in_words(one: Timed) -> str:
    """A verdict for people, in local time."""
    moment = datetime.fromtimestamp(one.time, UTC).astimezone()
    return (
        f"{moment:%Y-%m-%d %H:%M:%S}.{moment.microsecond // 1000:03d} "
        f"{one.verdict.source:<4} {one.verdict.summary()}"
    )


def read_lines(lines: Iterable[str], parse: Parser) -> Iterator[Timed]:
    """Verdicts in a log with the engine's time stamps; other lines are left out."""
    for order, line in enumerate(lines):
        stamp, rest = split_stamp(line)
        verdict = parse(rest)
        if verdict is not None:
            yield Timed(verdict.time or stamp, order, verdict)


def split_stamp(line: str) -> tuple[float, str]:
    """The engine's time stamp at the start of a line in seconds, 0 if there is none; the rest."""
    match = _STAMP.match(line)
    if match is None:
        return 0.0, line
    moment = datetime.fromisoformat(match[1]).replace(tzinfo=UTC).timestamp()
    return moment + float(f"0.{match[2] or 0}"), line[match.end() :]


def _merged(sources: dict[Role, str]) -> Iterator[Timed]:
    """All verdicts so far, by time."""
    found = []
    for role, container in sources.items():
        with host.running(_arguments(container)) as process:
            found.append(sorted(read_lines(process.lines(), SOURCES[role]), key=_when))
    return heapq.merge(*found, key=_when)


def _when(one: Timed) -> tuple[float, int]:
    """What verdicts are sorted by."""
    return one.time, one.order


def _followed(sources: dict[Role, str]) -> Iterator[Timed]:
    """Verdicts as they come, until the containers are gone or the user has seen enough."""
    yield from _merged(sources)
    arrived: queue.SimpleQueue[Timed | None] = queue.SimpleQueue()
    with ExitStack() as stack:
        for role, container in sources.items():
            process = stack.enter_context(
                host.running(_arguments(container, "--follow", "--tail", "0"))
            )
            threading.Thread(
                target=_pump, args=(process, SOURCES[role], arrived), daemon=True
            ).start()
        ended = 0
        while ended < len(sources):
            one = arrived.get()
            if one is None:
                ended += 1
            else:
                yield one


def _pump(process: host.Running, parse: Parser, into: "queue.SimpleQueue[Timed | None]") -> None:
    """Put each verdict of a log into a queue, None at its end."""
    for one in read_lines(process.lines(), parse):
        into.put(one)
    into.put(None)


def _arguments(container: str, *more: str) -> Sequence[str]:
    """The engine's command line for a container's log."""
    return ["docker", "logs", "--timestamps", *more, container]
