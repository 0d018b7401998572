"""What came of a case's action, before anybody judges it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.host import Completed


class NotRunError(Exception):
    """A case that this version of the project, or this run, has nothing for."""


@dataclass
class Outcome:
    """What the agent, or a program, saw; what the world saw is asked of the world."""

    responses: list[dict[str, Any]] = field(default_factory=list)
    """Answers of the proxy, in their order."""
    closed: bool = False
    """Whether the other side ended the connection."""
    answers: list[dict[str, Any]] = field(default_factory=list)
    """Answers of the name service."""
    attempts: list[dict[str, Any]] = field(default_factory=list)
    """Ways in which a packet was sent, and what came of each."""
    completed: Completed | None = None
    """A program that ran."""
    verdicts: dict[str, bool] = field(default_factory=dict)
    """Path to whether it allows the name."""
    host_packets: list[str] = field(default_factory=list)
    """DNS questions of the host's own resolvers, in hex."""
    packets_seen: int = 0
    """Packets that arrived at the destination."""
    started: float = 0.0
    """Seconds since 1970."""
    seconds: float = 0.0
    """How long the action took."""
    alive: bool | None = None
    """Whether others were served meanwhile, if the action looked; None if it didn't."""
    worst_s: float | None = None
    """The longest that another client waited meanwhile."""
