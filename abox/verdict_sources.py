"""What Envoy and Unbound write for each request and query, read in bulk.

A flood makes many thousand lines a second that hardly differ. So lines are read by a few calls for
all of them, put into groups of the same verdict, and only a group's head is looked at one by one.
What isn't a line of the expected form is counted and left out; nothing raises.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from operator import itemgetter
from typing import Any

from abox.name_table import Judged
from abox.reasons import HEAD_TOO_LARGE, NOT_INJECTED, TLS_FAILURES, UPGRADE_FAILED, Reason
from abox.verdict_log import (
    METHOD_CHARS,
    PATH_CHARS,
    WORD_CHARS,
    NameVerdict,
    Outcome,
    RequestVerdict,
    clean,
    read_stamp,
)

Judge = Callable[[str], Sequence[Judged]]
"""The verdict on a name by the policy in force, then by the one that may have been in force."""


def _denial(judged: Sequence[Judged]) -> Judged:
    """The first verdict that denies, else the first."""
    return next((one for one in judged if one.reason is not None), judged[0])


def _allowance(judged: Sequence[Judged]) -> Judged:
    """The first verdict that allows, else the first."""
    return next((one for one in judged if one.reason is None), judged[0])


# --- requests: Envoy ------------------------------------------------------------------------

ACCESS_LOG_FIELDS: Mapping[str, str] = {
    "time": "%START_TIME(%Y-%m-%dT%H:%M:%S.%3fZ)%",
    "client": "%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%",
    "mark": "%DYNAMIC_METADATA(abox:mark)%",
    "name": "%DYNAMIC_METADATA(abox:name)%",
    "port": "%DYNAMIC_METADATA(abox:port)%",
    "method": f"%REQ(:METHOD):{METHOD_CHARS + 1}%",
    "path": f"%PATH(NQ):{PATH_CHARS + 1}%",
    "protocol": "%PROTOCOL%",
    "status": "%RESPONSE_CODE%",
    "reason": "%METADATA(ROUTE:abox:reason)%",
    "rule": "%METADATA(ROUTE:abox:rule)%",
    "details": "%RESPONSE_CODE_DETAILS%",
    "flags": "%RESPONSE_FLAGS%",
    "tls_failure": "%UPSTREAM_TRANSPORT_FAILURE_REASON%",
    "address": "%UPSTREAM_REMOTE_ADDRESS%",
    "received": "%BYTES_RECEIVED%",
    "sent": "%BYTES_SENT%",
    "duration_ms": "%DURATION%",
}
"""What Envoy writes for a request; names are fields of the line, values its format.

Texts are cut one character after their limit, so that a long one is still seen to be long.
"""

FROM_ORIGIN = "via_upstream"
"""Envoy's details of an answer that the origin gave: such a 403 is no verdict of ours."""

INSIDE = "envoy://"
"""Beginning of the address of what goes on inside the proxy.

A tunnel ends there, and its requests have lines of their own. A plain request leaves through the
gate, which hides the address that was judged and dialled.
"""
CONNECT = "CONNECT"

OWN_REASONS = frozenset(
    {
        Reason.MALFORMED_REQUEST,
        Reason.MALFORMED_NAME,
        Reason.ADDRESS_LITERAL,
        Reason.RESERVED_NAME,
        Reason.NAME_MISMATCH,
        Reason.NOT_TLS,
        Reason.AMBIGUOUS_PATH,
    }
)
"""Reasons that stand in the mark of a request, before any route is looked at."""

Fields = Mapping[str, Any]

_same_verdict = itemgetter(
    "address", "client", "details", "flags", "mark", "name", "port", "reason", "rule", "status",
    "tls_failure",
)  # fmt: skip
"""Fields that the verdict depends on."""


def read_requests(data: bytes) -> tuple[list[list[Fields]], int]:
    """Requests in lines of Envoy.

    Args:
        data: whole lines.

    Returns: requests of the same verdict together, unless a damaged line is between them; how many
    lines were none.
    """
    lines = data.splitlines()
    try:
        return list(_grouped(lines).values()), 0
    except (ValueError, TypeError, KeyError, RecursionError):
        return _apart(lines) if len(lines) > 1 else ([], len(lines))


def _grouped(lines: Sequence[bytes]) -> Mapping[Any, list[Fields]]:
    """Requests in lines, none of which may be damaged."""
    groups: dict[Any, list[Fields]] = {}
    documents = json.loads(b"[%s]" % b",".join(lines))
    if len(documents) != len(lines):
        raise ValueError("one line holds several values")
    for document in documents:
        groups.setdefault(_same_verdict(document), []).append(document)
    return groups


def _apart(lines: Sequence[bytes]) -> tuple[list[list[Fields]], int]:
    """The same, where one of the lines is damaged: found by halving."""
    middle = len(lines) // 2
    halves = [read_requests(b"\n".join(part)) for part in (lines[:middle], lines[middle:])]
    return [group for groups, _ in halves for group in groups], sum(bad for _, bad in halves)


def read_request(fields: Fields, sandbox: str, judge: Judge) -> RequestVerdict | None:
    """The verdict on a request; None if a field isn't as Envoy writes it."""
    try:
        time = read_stamp(fields["time"])
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError):
        return None
    mark, denied = _text(fields.get("mark")), is_denied(fields)
    address = _text(fields.get("address"))
    inside = address.startswith(INSIDE)
    tunnel = inside and fields.get("method") == CONNECT
    name = _text(fields.get("name"))
    rule = _text(fields.get("rule"))
    if not rule and name and mark not in OWN_REASONS:
        rule = (_denial if denied else _allowance)(judge(name)).rule or ""
    return RequestVerdict(
        time=time,
        sandbox=sandbox,
        verdict=Outcome.DENY if denied else Outcome.ALLOW,
        name=name or None,
        reason=_reason(fields, denied=denied),
        rule=rule or None,
        port=number(fields.get("port")) or None,
        method=_text(fields.get("method")) or None,
        path=_path(fields) or None,
        protocol=_text(fields.get("protocol")) or None,
        status=number(fields.get("status")),
        address=None if inside else address or None,
        received=number(fields.get("received")),
        sent=number(fields.get("sent")),
        duration_ms=number(fields.get("duration_ms")),
        tunnel=tunnel,
    ).cleaned()


def is_denied(fields: Fields) -> bool:
    """Whether the proxy itself refused a request."""
    refused = 400 <= number(fields.get("status")) < 500
    return refused and fields.get("details") != FROM_ORIGIN


def _reason(fields: Fields, *, denied: bool) -> str | None:
    """Why a request was denied, or why an allowed one failed; None if neither.

    The order is that of the refusals in the proxy's own configuration.
    """
    if denied:
        return _refusal(fields)
    details = _text(fields.get("details"))
    if details == FROM_ORIGIN or number(fields.get("status")) < 500:
        return None
    if details == NOT_INJECTED:
        return Reason.SECRET_MISSING.value
    failure = _text(fields.get("tls_failure"))
    for text, reason in TLS_FAILURES.items():
        if text.replace(" ", "_") in failure:  # as Envoy writes it into a line
            return reason.value
    if "DF" in _text(fields.get("flags")).split(","):
        return Reason.UPSTREAM_NAME.value
    return Reason.UPSTREAM_UNREACHABLE.value


def _refusal(fields: Fields) -> str:
    mark, details = _text(fields.get("mark")), _text(fields.get("details"))
    if mark in OWN_REASONS:
        return mark
    if details.startswith("rbac_access_denied"):
        return Reason.SPECIAL_ADDRESS.value
    if details == UPGRADE_FAILED:
        return Reason.SWITCH.value
    if number(fields.get("status")) == HEAD_TOO_LARGE:
        return Reason.HEAD_TOO_LARGE.value
    return _text(fields.get("reason")) or Reason.MALFORMED_REQUEST.value


def total(group: Iterable[Fields], field: str) -> int:
    """Sum of a field that holds a number."""
    return sum(number(fields.get(field)) for fields in group)


def number(value: object) -> int:
    """A field as a number; 0 if it is none."""
    if isinstance(value, int):
        return max(int(value), 0)
    return int(value) if isinstance(value, str) and value.isdecimal() and value.isascii() else 0


def _text(value: object) -> str:
    """A field as text; absent fields of Envoy are null."""
    return value if isinstance(value, str) else ""


def _path(fields: Fields) -> str:
    """The path alone: Envoy leaves the query out, but not a fragment, where tokens stand too."""
    return _text(fields.get("path")).partition("#")[0]


# --- names: Unbound -------------------------------------------------------------------------

EITHER_RCODES = ("NXDOMAIN", "SERVFAIL")
"""Codes of denials, and of allowed names that don't exist or whose servers fail."""
DENIED_RCODES = ("FORMERR", "NOTIMP", "REFUSED")
"""Codes of denials alone."""

_REPLY = re.compile(
    rb"^\[(\d{1,12})\] unbound\[\d+:[0-9a-f]+\] reply: (\S+) ([a-z0-9?*_.-]{1,255}) "
    rb"([a-z0-9-]{1,32}) [a-z0-9]{1,16} ([a-z0-9]{1,16}) (\d{1,9}\.\d{6}) [01] (\d{1,6})$",
    re.MULTILINE,
)
_CHEAP = (b" NXDOMAIN ", b" REFUSED ")
"""What tells a denial without a closer look; no name holds a blank."""


@dataclass(frozen=True)
class Reply:
    """One answer of the DNS filter."""

    time: bytes
    client: bytes
    name: bytes
    type: bytes
    rcode: bytes
    duration_s: bytes
    size: bytes


def read_replies(data: bytes) -> tuple[list[list[tuple[bytes, ...]]], int]:
    """Answers in lines of Unbound's reply log.

    Args:
        data: whole lines.

    Returns: answers of the same name and code together, each with the fields of ``Reply``; how
    many lines were none.
    """
    found = _REPLY.findall(data.lower())
    groups: dict[tuple[bytes, bytes], list[tuple[bytes, ...]]] = {}
    for one in found:
        groups.setdefault((one[2], one[4]), []).append(one)
    return list(groups.values()), data.count(b"\n") - len(found)


def split_denials(data: bytes) -> tuple[bytes, int]:
    """Lines of Unbound without what is plainly a denial; how many were that."""
    lines = data.splitlines(keepends=True)
    kept = [line for line in lines if _CHEAP[0] not in line and _CHEAP[1] not in line]
    return b"".join(kept), len(lines) - len(kept)


def other_lines(data: bytes, most: int) -> list[str]:
    """The first lines of Unbound that aren't of its reply log: warnings, errors, notices."""
    others = (line for line in data.splitlines() if b" reply: " not in line)
    return [clean(line.decode("latin-1"))[: WORD_CHARS * 4] for line in islice(others, most)]


def read_reply(found: Sequence[bytes], sandbox: str, judge: Judge) -> NameVerdict:
    """The verdict on a name.

    Args:
        found: the fields of a ``Reply``.
        sandbox: name of the sandbox.
        judge: the policies, which tell an allowed name that doesn't exist from a denied one: the
            answer's code is the same. A denial by either policy counts.
    """
    reply = Reply(*found)
    name = reply.name.decode("ascii").removesuffix(".")
    rcode = reply.rcode.decode("ascii").upper()
    judged = (_allowance if rcode == "NOERROR" else _denial)(judge(name))
    denied = judged.reason is not None if rcode in EITHER_RCODES else rcode in DENIED_RCODES
    reason = judged.reason if denied else None
    if denied and reason is None:
        reason = Reason.QUERY_BUDGET if rcode == "REFUSED" else Reason.MALFORMED_REQUEST
    elif not denied and rcode != "NOERROR":
        reason = Reason.UPSTREAM_NAME
    return NameVerdict(
        time=float(reply.time),
        sandbox=sandbox,
        verdict=Outcome.DENY if denied else Outcome.ALLOW,
        name=name or ".",
        reason=reason.value if reason else None,
        rule=judged.rule,
        type=reply.type.decode("ascii").upper(),
        rcode=rcode,
        sent=int(reply.size),
        duration_ms=round(float(reply.duration_s) * 1000),
    ).cleaned()
