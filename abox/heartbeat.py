"""What comes out of a VM's monitor port: lines of a guest that nobody trusts, and what they prove.

A heartbeat says that something in the guest ran at that moment, and in which boot. Whoever is root
in there can write the same line, so it is a sign of life and no evidence of anything else.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Annotated

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

PERIOD_S = 5
"""Seconds between two heartbeats."""

LINE_MAX = 256
"""Bytes of the longest line that is looked at, without its end."""

SEQUENCE_MAX = 2**53
BOOT_PATTERN = r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\z"
"""The kernel's id of a boot: a UUID in lower case."""


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True, extra="forbid", hide_input_in_errors=True)


class Heartbeat(_Strict):
    """One line of the sensor."""

    sequence: Annotated[int, Field(ge=1, le=SEQUENCE_MAX)]
    """Counts the periods since the sensor began, whether anybody listened or not."""
    boot: Annotated[str, Field(pattern=BOOT_PATTERN)]
    """The guest's boot id."""


class Seen(_Strict):
    """A heartbeat, and when the host saw it."""

    heartbeat: Heartbeat
    at: AwareDatetime


def parse_heartbeat(line: bytes) -> Heartbeat:
    """The heartbeat that a line is.

    Raises: ValueError if it is anything else; the error doesn't repeat the line.
    """
    if len(line) > LINE_MAX:
        raise ValueError(f"longer than {LINE_MAX} bytes")
    try:
        return Heartbeat.model_validate_json(line)
    except ValidationError as error:
        raise ValueError(f"no heartbeat: {error.error_count()} faults") from error


def parse_seen(text: str) -> Seen | None:
    """What `render_seen` wrote; None for anything else."""
    try:
        return Seen.model_validate_json(text)
    except ValidationError:
        return None


def render_seen(heartbeat: Heartbeat, at: datetime) -> str:
    """A heartbeat and its time as one line of JSON.

    Args:
        heartbeat: what was read.
        at: when; with a time zone.
    """
    return Seen(heartbeat=heartbeat, at=at).model_dump_json() + "\n"


class Lines:
    """Splits what comes in pieces; however much comes without an end, it keeps one line's worth."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The lines that this piece completes, without their ends.

        A line that is too long comes as its first ``LINE_MAX + 1`` bytes, which nothing accepts.
        """
        *ended, rest = data.split(b"\n")
        for part in ended:
            yield (self._rest + part)[: LINE_MAX + 1]
            self._rest = b""
        self._rest = (self._rest + rest)[: LINE_MAX + 1]
