"""`abox allow` and `abox deny`: one entry into a list of the stack's settings, and live.

The whole settings are judged before the file is touched. If `pulumi up` then fails, the file is
put back. One edit at a time: a lock is held until the end.
"""

import fcntl
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml

from abox.allowlist import Allow, Deny, Mode, Policy, Request, verdict
from abox.errors import AboxError, HostError, PolicyError
from cli.checkout import Checkout, current_checkout
from cli.output import note, say
from cli.parameters import Stack
from cli.pulumi_engine import up
from cli.stack_file import (
    ListKey,
    append_entries,
    raw_settings,
    read_text,
    remove_entry,
    settings_of,
    shown,
    write_atomically,
)

Entry = Annotated[
    str,
    typer.Argument(
        help="A name (example.com), a wildcard ('*.example.org'), or a mapping in braces "
        "('{host: api.example.net, ports: [443]}').",
        metavar="ENTRY",
        show_default=False,
    ),
]
NoApply = Annotated[
    bool, typer.Option("--no-apply", help="Only edit the file; `pulumi up` makes it live.")
]


@dataclass(frozen=True)
class Edit:
    """What one command changes in the settings file."""

    text: str
    """The new content; the old one if nothing changes."""
    words: tuple[str, ...]
    """Each change, for people; empty: nothing changes."""


def allow(stack: Stack, entry: Entry, *, no_apply: NoApply = False) -> None:
    """Put ENTRY on the allowlist of STACK and make it live.

    The same entry is taken off the denylist. Nothing restarts and no open connection of another
    name is cut.
    """
    _edit(stack, "allow", entry, apply=not no_apply)


def deny(stack: Stack, entry: Entry, *, no_apply: NoApply = False) -> None:
    """Put ENTRY on the denylist of STACK and make it live.

    Entries for the same name are taken off the allowlist. New requests are refused at once.
    """
    _edit(stack, "deny", entry, apply=not no_apply)


def allow_all(stack: str, entries: Sequence[Any], *, tell: Callable[[str], None] = say) -> None:
    """Put several entries on the allowlist of a stack, in one go, and make them live.

    Args:
        stack: its name.
        entries: as they stand in the settings.
        tell: prints what is done.
    """
    edits = _Edits(current_checkout(), stack, tell)
    edits.perform(lambda text: plan_additions(text, edits.checkout, stack, entries), apply=True)


def _edit(stack: str, key: ListKey, entry: str, *, apply: bool) -> None:
    """Edit a list and apply it."""
    edits = _Edits(current_checkout(), stack, say)
    value = parse_entry(entry)
    if not edits.perform(
        lambda text: plan_edit(text, edits.checkout, stack, key, value), apply=apply
    ):
        say(f"{shown(edits.file)}: {entry} is already in `{key}`; nothing changed")


@dataclass(frozen=True)
class _Edits:
    """Changes of one stack's file."""

    checkout: Checkout
    stack: str
    tell: Callable[[str], None]

    @property
    def file(self) -> Path:
        """The settings file."""
        return self.checkout.stack_file(self.stack)

    def perform(self, plan: Callable[[str], Edit], *, apply: bool) -> bool:
        """Edit the file and apply it, with the file put back if that fails.

        Returns: whether anything changed.
        """
        read_text(self.checkout, self.stack)  # an unknown stack is told before a lock file is made
        with edit_lock(self.checkout.root / ".abox"):
            before = read_text(self.checkout, self.stack)
            edit = plan(before)
            if not edit.words:
                return False
            write_atomically(self.file, edit.text)
            for words in edit.words:
                self.tell(f"{shown(self.file)}: {words}")
            if apply:
                self.tell(f"live: {_apply(self.checkout, self.stack, before, edit.text)}")
            else:
                self.tell(f"not live yet: run `pulumi up -s {self.stack}`")
        return True


def _apply(checkout: Checkout, stack: str, before: str, after: str) -> str:
    """Run `pulumi up`, whose summary is returned; put the settings file back if it fails."""
    file = checkout.stack_file(stack)
    try:
        return str(up(checkout, stack))
    except (AboxError, KeyboardInterrupt):
        if read_text(checkout, stack) == after:
            write_atomically(file, before)
            note(f"{shown(file)} is put back as it was")
        else:
            note(f"{shown(file)} was changed meanwhile and is left alone")
        raise


def parse_entry(text: str) -> Any:
    """An entry as it stands in the settings: a name, or a mapping if written in braces.

    Raises:
        PolicyError: braces that hold no YAML mapping.
    """
    if not text.lstrip().startswith("{"):
        return text
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError:
        value = None
    if not isinstance(value, dict):
        raise PolicyError(
            what=f"entry {text!r} is refused",
            why="what stands in braces is no YAML mapping",
            remedy="write for example '{host: api.example.net, ports: [443], methods: [GET]}'",
        )
    return value


def plan_edit(before: str, checkout: Checkout, stack: str, key: ListKey, entry: Any) -> Edit:
    """Decide what to change so that an entry is allowed or denied.

    Raises:
        AboxError: the settings would be refused, or the entry would have no effect.
    """
    other: ListKey = "deny" if key == "allow" else "allow"
    text, words = before, []
    settings = raw_settings(before, shown(checkout.stack_file(stack)))
    for index in reversed(_same_host(settings.get(other), entry)):
        text = remove_entry(text, other, index)
        words.append(f"`{other}` loses {_in_words(settings[other][index])}")
    if not any(_same(one, entry) for one in settings.get(key) or []):
        text = append_entries(text, key, [entry])
        words.append(f"`{key}` gains {_in_words(entry)}")
    policy = settings_of(text, checkout, stack).policy
    _check_effect(policy, key, entry)
    return Edit(text, tuple(words))


def plan_additions(before: str, checkout: Checkout, stack: str, entries: Sequence[Any]) -> Edit:
    """Decide what to add so that several entries are allowed.

    Raises:
        AboxError: the settings would be refused, or an entry would have no effect.
    """
    listed = raw_settings(before, shown(checkout.stack_file(stack))).get("allow") or []
    fresh = [entry for entry in entries if not any(_same(one, entry) for one in listed)]
    if not fresh:
        return Edit(before, ())
    text = append_entries(before, "allow", fresh)
    policy = settings_of(text, checkout, stack).policy
    for entry in fresh:
        _check_effect(policy, "allow", entry)
    return Edit(text, tuple(f"`allow` gains {_in_words(entry)}" for entry in fresh))


def _check_effect(policy: Policy, key: ListKey, entry: Any) -> None:
    """See that the entry does what it was written for.

    Raises:
        PolicyError: another entry undoes it.
    """
    host = _host_of(entry)
    name = f"any-name.{host[2:]}" if host.startswith("*.") else host
    port = next(iter(_ports_of(entry)), 443)
    judged = verdict(policy, Request(name=name, port=port, method="CONNECT"))
    if key == "allow" and isinstance(judged, Deny) and judged.reason == "denied":
        raise PolicyError(
            what=f"{host} would stay denied",
            why=f"the denylist holds {judged.rule}, and deny beats allow",
            remedy=f"take {judged.rule} out of `deny` first",
        )
    if key == "deny" and isinstance(judged, Allow) and policy.mode is Mode.ACTIVE:
        raise PolicyError(
            what=f"{host} would stay allowed",
            why=f"it is allowed by {judged.rule}, which no entry of the denylist can take back",
            remedy="choose another name",
        )


def _host_of(entry: Any) -> str:
    """Name or wildcard of an entry, in lower case and without its final dot."""
    host = entry.get("host") if isinstance(entry, dict) else entry
    return str(host).lower().rstrip(".")


def _ports_of(entry: Any) -> list[int]:
    """Ports that an entry names."""
    ports = entry.get("ports") if isinstance(entry, dict) else None
    return [port for port in ports if isinstance(port, int)] if isinstance(ports, list) else []


def _same(one: Any, other: Any) -> bool:
    """Whether two entries say the same."""
    if isinstance(one, str) and isinstance(other, str):
        return _host_of(one) == _host_of(other)
    return bool(one == other)


def _same_host(entries: Any, entry: Any) -> list[int]:
    """Positions of the entries that are about the same name."""
    if not isinstance(entries, list):
        return []
    return [number for number, one in enumerate(entries) if _host_of(one) == _host_of(entry)]


def _in_words(entry: Any) -> str:
    """An entry for people."""
    if isinstance(entry, dict):
        return str(yaml.safe_dump(entry, default_flow_style=True, width=1_000_000)).strip()
    return str(entry)


@contextmanager
def edit_lock(folder: Path) -> Iterator[None]:
    """Wait for other edits of the same checkout to end.

    Raises:
        HostError: the folder can't be written.
    """
    try:
        folder.mkdir(exist_ok=True)
        lock = (folder / "edit.lock").open("w")
    except OSError as error:
        raise HostError(
            what=f"{folder.name}/edit.lock can't be made",
            why=str(error),
            remedy="see that the checkout can be written and the disk isn't full",
        ) from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            note("waiting for another `abox allow` or `abox deny` to end")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
