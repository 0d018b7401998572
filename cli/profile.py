"""`abox profile`: what passive mode let through, as lines for the allowlist."""

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from abox import seen_names
from abox.allowlist import Mode, Policy
from abox.errors import AboxError, HostError
from abox.profile import NotProposed, Profile, Proposal, make_profile
from abox.seen_names import SeenNames
from cli.checkout import Checkout, current_checkout
from cli.containers import check_known, list_containers
from cli.edit import allow_all
from cli.output import note, say, say_json
from cli.parameters import AsJson, Stack
from cli.stack_file import read_settings, scalar
from cli.verdict_files import folder_of

NAMES_SHOWN = 4
"""Names that the comment of a wildcard lists."""

INDENT = "      "
"""As lists of the settings file are indented, so that lines can be pasted."""


def profile(
    stack: Stack,
    *,
    as_json: AsJson = False,
    apply: Annotated[
        bool, typer.Option("--apply", help="Put the lines on the allowlist and make them live.")
    ] = False,
) -> None:
    """Turn what STACK asked for in passive mode into lines for its allowlist.

    The lines name what was seen: names, ports, and `*.` where three names have one parent. What
    the allowlist has is left out; what could not be reached stands apart. Read them before you
    paste them: the agent chose the names.
    """
    checkout = current_checkout()
    check_known(checkout, stack, list_containers())
    record = read_record(stack)
    policy = current_policy(checkout, stack)
    found = make_profile(record.rows, policy)
    if as_json:
        say_json(to_document(stack, found, record))
    else:
        say("\n".join(in_words(stack, found, record)))
    if apply:
        apply_profile(stack, found, policy, quiet=as_json)


def apply_profile(stack: str, found: Profile, policy: Policy, *, quiet: bool) -> None:
    """Put the proposals on the allowlist, as `abox allow` does.

    Args:
        stack: whose allowlist.
        found: what to put there.
        policy: the policy before.
        quiet: standard output is for the document alone.
    """
    if found.proposals:
        tell = note if quiet else say
        allow_all(stack, [one.entry for one in found.proposals], tell=tell)
    if policy.mode is Mode.PASSIVE:
        note(f"{stack} is still passive: set `mode: active` and run `pulumi up -s {stack}`")


def read_record(stack: str) -> SeenNames:
    """What a sandbox has asked for so far.

    Raises:
        HostError: there is no record, or it may not be read.
    """
    file = folder_of(stack) / seen_names.FILE
    try:
        return SeenNames.from_text(file.read_text(encoding="ascii", errors="replace"))
    except FileNotFoundError:
        return SeenNames()
    except OSError as error:
        raise HostError(
            what=f"the record of sandbox {stack} can't be read",
            why=f"{file}: {error.strerror}",
            remedy="run as root",
        ) from error


def current_policy(checkout: Checkout, stack: str) -> Policy:
    """The policy in the stack's settings; an empty one if this checkout has none that is valid."""
    try:
        return read_settings(checkout, stack).policy
    except AboxError as error:
        note(f"the settings of {stack} are left out of account: {error.what}")
        return Policy()


def to_document(stack: str, found: Profile, record: SeenNames) -> dict[str, Any]:
    """The profile for programs."""
    return {
        "stack": stack,
        "entries": [one.to_document() for one in found.proposals],
        "apart": [one.to_document() for one in found.apart],
        "covered": found.covered,
        "missed": record.missed,
    }


def in_words(stack: str, found: Profile, record: SeenNames) -> Iterator[str]:
    """The profile as YAML with comments, to be pasted below `allow:`."""
    names = len({name for one in found.proposals for name in one.names})
    yield f"# {stack}: {_number(names, 'name')} seen by passive mode and not on the allowlist"
    for one in found.proposals:
        yield f"{INDENT}- {scalar(one.entry)}  # {_comment(one)}"
    if found.covered:
        yield f"# on the allowlist already: {_number(found.covered, 'name')}"
    if found.apart:
        yield "# not proposed:"
        yield from (f"#   {_apart(one)}" for one in found.apart)
    if record.missed:
        yield f"# the record is full: {_number(record.missed, 'verdict')} left no trace in it"


def _comment(one: Proposal) -> str:
    counts = [_number(one.requests, "request")] if one.requests else []
    counts += [_number(one.lookups, "look-up")] if one.lookups else []
    if len(one.names) < 2:
        return ", ".join(counts)
    shown = ", ".join(one.names[:NAMES_SHOWN])
    more = "" if len(one.names) <= NAMES_SHOWN else f" and {len(one.names) - NAMES_SHOWN} more"
    return f"{', '.join(counts)}; {shown}{more}"


def _apart(one: NotProposed) -> str:
    port = "" if one.port is None else f":{one.port}"
    return f"{one.name}{port}: {one.reason}, {_number(one.count, 'time')}"


def _number(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
