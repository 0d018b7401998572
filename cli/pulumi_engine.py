"""Runs Pulumi on a stack and reads what its engine reports, event by event.

The engine writes its events into a file (`--event-log`, as the Automation API uses it); they say
which resource is meant and what changes, which the text on the terminal doesn't always.
"""

import json
import re
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from abox.errors import ExitCode, HostError
from cli import host
from cli.checkout import Checkout
from cli.output import note

UNCHANGED = frozenset({"same", "read", "refresh", "read-discard", "discard"})
"""Operations that change nothing."""

GENERIC_CAUSES = ("update failed", "preview failed", "resource plugin", "Program exited with")
"""Messages that only say that something failed."""

Event = Mapping[str, Any]


@dataclass(frozen=True)
class Step:
    """What the engine does, or would do, to one resource."""

    urn: str
    operation: str
    old: Mapping[str, Any] = field(default_factory=dict)
    """State before: `inputs`, `outputs`."""
    new: Mapping[str, Any] = field(default_factory=dict)
    """State asked for; in a refresh, the state found."""
    changed: frozenset[str] = frozenset()
    """Names of the properties that differ."""

    @property
    def type(self) -> str:
        """The resource's own type token, without its parents'."""
        return self.urn.split("::")[2].rpartition("$")[2]

    @property
    def name(self) -> str:
        """The resource's name in the program."""
        return self.urn.split("::", 3)[3]


@dataclass(frozen=True)
class Report:
    """How a command of Pulumi ended, and what the engine said meanwhile."""

    code: int
    events: Sequence[Event]
    lines: Sequence[str]

    def planned(self) -> list[Step]:
        """Steps that change something, in order; those of the refresh aren't among them."""
        found = [_step(event, "resourcePreEvent") for event in self.events]
        return [one for one in found if one is not None and one.operation not in UNCHANGED]

    def refreshed(self) -> list[Step]:
        """What a refresh found: one step a resource that was read."""
        reading: set[str] = set()
        found = []
        for event in self.events:
            before = _step(event, "resourcePreEvent")
            if before is not None and before.operation == "refresh":
                reading.add(before.urn)
            after = _step(event, "resOutputsEvent")
            if after is not None and after.urn in reading:
                reading.discard(after.urn)
                found.append(after)
        return found

    def changes(self) -> Counter[str]:
        """Number of changed resources by operation."""
        for event in reversed(self.events):
            summary = event.get("summaryEvent")
            if summary:
                counts = summary.get("resourceChanges") or {}
                return Counter({op: n for op, n in counts.items() if op not in UNCHANGED})
        return Counter()

    def failure(self, command: str) -> HostError:
        """Why the command failed, as an error."""
        return to_error(command, find_cause(error_messages(self.events), self.lines))


def up(checkout: Checkout, stack: str) -> str:
    """Run `pulumi up` and return its summary; its progress goes to standard error.

    Raises:
        HostError: it failed; the cause is the reason.
    """
    report = _pulumi(checkout, ["up", "--yes", "--skip-preview"], stack, progress=True)
    if report.code != 0:
        raise report.failure(f"pulumi up -s {stack}")
    changes = report.changes()
    return ", ".join(f"{number} {op}d" for op, number in sorted(changes.items())) or "no changes"


def preview(checkout: Checkout, stack: str) -> Report:
    """Compare the stack with the host and the settings; changes nothing.

    Raises:
        HostError: the comparison failed.
    """
    report = _pulumi(checkout, ["preview", "--refresh", "--expect-no-changes"], stack)
    drifted = report.code == ExitCode.DRIFT or (report.code != 0 and report.planned())
    failed = report.code != 0 and (not drifted or error_messages(report.events))
    if failed and report.code != ExitCode.DRIFT:
        raise report.failure(f"pulumi preview -s {stack}")
    return report


def _pulumi(
    checkout: Checkout, words: Sequence[str], stack: str, *, progress: bool = False
) -> Report:
    """Run one command on a stack, without questions and colours."""
    environment = {**checkout.environment(), "PULUMI_DEBUG_COMMANDS": "true"}
    with tempfile.TemporaryDirectory(prefix="abox-") as folder:
        log = Path(folder) / "events"
        arguments = ["pulumi", *words, "--stack", stack, "--cwd", str(checkout.root)]
        arguments += ["--non-interactive", "--color", "never", "--event-log", str(log)]
        lines = []
        with host.running(arguments, environment=environment) as process:
            for line in process.lines():
                lines.append(line)
                if progress and tells_progress(line):
                    note(line)
            code = process.wait()
        events = parse_events(log.read_text() if log.exists() else "")
    return Report(code, events, lines)


def tells_progress(line: str) -> bool:
    """Whether a line of the engine's output is about a change; a refresh reads everything."""
    return line.startswith((" +", " ~", " -")) and " refresh" not in line


def parse_events(text: str) -> list[Event]:
    """Events in the engine's log, one JSON object a line; a line cut off at the end is dropped."""
    found: list[Event] = []
    for line in text.splitlines():
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if isinstance(event, dict):
            found.append(event)
    return found


def _step(event: Event, kind: str) -> Step | None:
    """The step that an event of this kind is about."""
    metadata = (event.get(kind) or {}).get("metadata")
    if not metadata:
        return None
    named = [
        *(metadata.get("detailedDiff") or {}),
        *(metadata.get("diffs") or []),
        *(metadata.get("keys") or []),
    ]
    return Step(
        urn=metadata["urn"],
        operation=metadata["op"],
        old=metadata.get("old") or {},
        new=metadata.get("new") or {},
        changed=frozenset(re.split(r"[.\[]", path, maxsplit=1)[0] for path in named),
    )


def error_messages(events: Iterable[Event]) -> list[str]:
    """Messages of severity error, in order, each without the engine's markup."""
    found = []
    for event in events:
        diagnostic = event.get("diagnosticEvent") or {}
        if diagnostic.get("severity") == "error":
            found.append(_plain(str(diagnostic.get("message", ""))))
    return [text for text in found if text]


def find_cause(messages: Sequence[str], lines: Sequence[str]) -> str:
    """The first message that names a cause; where there is none, the last line printed."""
    printed = [line.strip() for line in lines if line.strip()]
    told = [line.removeprefix("error:").strip() for line in printed if line.startswith("error:")]
    candidates = [*messages, *told]
    specific = [one for one in candidates if not one.startswith(GENERIC_CAUSES)]
    for text in [*specific, *candidates]:
        return _without_traceback(text)
    return printed[-1] if printed else "it said nothing"


def to_error(command: str, cause: str) -> HostError:
    """An error in three lines; what our own program and provider say has them already."""
    lines = [line.strip() for line in cause.splitlines() if line.strip()]
    parts = {
        key: line.removeprefix(f"{key}:").strip()
        for key in ("why", "do")
        for line in lines
        if line.startswith(f"{key}:")
    }
    if len(parts) == 2:
        return HostError(
            what=f"`{command}` failed: {lines[0]}", why=parts["why"], remedy=parts["do"]
        )
    return HostError(
        what=f"`{command}` failed",
        why=" | ".join(lines),
        remedy=f"repair that, then run `{command}`; `abox doctor` tells what this host lacks",
    )


def _without_traceback(text: str) -> str:
    """A message up to the traceback that may follow it."""
    kept = text.partition("Traceback (most recent call last)")[0].strip()
    return kept or text.strip().splitlines()[-1].strip()


def _plain(text: str) -> str:
    """Text without the engine's colour marks such as `<{%reset%}>`."""
    while "<{%" in text and "%}>" in text:
        start = text.index("<{%")
        end = text.find("%}>", start)
        if end < 0:
            break
        text = text[:start] + text[end + 3 :]
    return text.strip()
