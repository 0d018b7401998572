"""Verdicts read back from the gateway's logs: one line in, one verdict or nothing out.

The lines are written by Envoy (JSON, fields of `abox.verdict_log`) and by Unbound (its own reply
log). What isn't a verdict, or was cut off, reads as None; nothing raises.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, ClassVar, Literal

from abox.reasons import HEAD_TOO_LARGE, TLS_FAILURES, UPGRADE_FAILED, Reason

REFUSED_RCODES = ("NXDOMAIN", "REFUSED")
"""Response codes of a name that may not be resolved; an allowed name may also not exist."""

FROM_ORIGIN = "via_upstream"
"""Envoy's details of an answer that the origin gave: such a 403 is no verdict of ours."""

DENIALS = (400, 403, HEAD_TOO_LARGE)
"""Statuses of refusals of ours."""

TUNNEL = "envoy://"
"""Beginning of the address of a tunnel that ends inside the proxy: its requests have own lines."""

SELF_TEST = ".abox-probe.invalid"
"""Names that the gateway asks itself for, to see that nobody answers."""

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

Source = Literal["dns", "http"]

_REPLY = re.compile(
    r"\[(?P<time>\d+)\] unbound\[[^\]]*\] reply: (?P<client>\S+) (?P<name>\S+) "
    r"(?P<type>\S+) (?P<class>\S+) (?P<rcode>[A-Z0-9]+)\b"
)


@dataclass(frozen=True, kw_only=True)
class NameVerdict:
    """What the DNS filter answered."""

    source: ClassVar[Source] = "dns"

    time: float
    """Seconds since the epoch."""
    allowed: bool
    name: str
    """Without its final dot."""
    type: str
    rcode: str
    client: str
    """Address that asked."""

    def to_document(self) -> dict[str, Any]:
        """The verdict as a JSON object."""
        return {
            "source": self.source,
            "allowed": self.allowed,
            "name": self.name,
            "type": self.type,
            "rcode": self.rcode,
        }

    def summary(self) -> str:
        """The verdict on one line."""
        return f"{_word(allowed=self.allowed)} {self.type:<5} {self.name} {self.rcode}"


@dataclass(frozen=True, kw_only=True)
class RequestVerdict:
    """What the proxy did with a request."""

    source: ClassVar[Source] = "http"

    time: float
    """Seconds since the epoch, at the request's start."""
    allowed: bool
    name: str
    port: int | None
    method: str
    path: str
    """Without its query, which is never logged."""
    protocol: str
    status: int
    """0: the connection ended without an answer."""
    reason: str | None
    """Code of the denial, or of the failure upstream."""
    rule: str | None
    address: str | None
    """Address and port of the origin that was dialled."""
    received: int
    """Bytes of the request's body."""
    sent: int
    """Bytes of the answer's body."""
    duration_ms: int
    tunnel: bool
    """A CONNECT whose requests have lines of their own."""

    def to_document(self) -> dict[str, Any]:
        """The verdict as a JSON object."""
        return {
            "source": self.source,
            "allowed": self.allowed,
            "name": self.name,
            "port": self.port,
            "method": self.method,
            "path": self.path,
            "protocol": self.protocol,
            "status": self.status,
            "reason": self.reason,
            "rule": self.rule,
            "address": self.address,
            "received": self.received,
            "sent": self.sent,
            "duration_ms": self.duration_ms,
        }

    def summary(self) -> str:
        """The verdict on one line."""
        port = "" if self.port is None else f":{self.port}"
        why = f" {self.reason}" if self.reason else ""
        rule = f" ({self.rule})" if self.rule else ""
        target = f"{self.name or '-'}{port}{self.path}"
        return f"{_word(allowed=self.allowed)} {self.method:<5} {target} {self.status}{why}{rule}"


Verdict = NameVerdict | RequestVerdict


def parse_dns_line(line: str) -> NameVerdict | None:
    """The DNS filter's verdict in a line of Unbound, None if it holds none.

    What the proxy asks over loopback, and the gateway's questions to itself, are none.
    """
    found = _REPLY.match(line)
    if found is None or found["client"].startswith("127."):
        return None
    name = found["name"].removesuffix(".") or "."
    if name.endswith(SELF_TEST):
        return None
    rcode = found["rcode"]
    return NameVerdict(
        time=float(found["time"]),
        allowed=rcode not in REFUSED_RCODES,
        name=name,
        type=found["type"],
        rcode=rcode,
        client=found["client"],
    )


def parse_http_line(line: str) -> RequestVerdict | None:
    """The proxy's verdict in a line of Envoy, None if it holds none."""
    try:
        fields = json.loads(line)
        time = datetime.fromisoformat(fields["time"].replace("Z", "+00:00"))
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
    status = _number(fields.get("status"))
    denied = status in DENIALS and fields.get("details") != FROM_ORIGIN
    address = _text(fields.get("address")) or None
    tunnel = address is not None and address.startswith(TUNNEL)
    return RequestVerdict(
        time=time.replace(tzinfo=time.tzinfo or UTC).timestamp(),
        allowed=not denied,
        name=_text(fields.get("name")),
        port=_number(fields.get("port")) or None,
        method=_text(fields.get("method")),
        path=_text(fields.get("path")),
        protocol=_text(fields.get("protocol")),
        status=status,
        reason=_reason(fields, denied=denied),
        rule=_text(fields.get("rule")) or None,
        address=None if tunnel else address,
        received=_number(fields.get("received")),
        sent=_number(fields.get("sent")),
        duration_ms=_number(fields.get("duration_ms")),
        tunnel=tunnel,
    )


def _reason(fields: Mapping[str, Any], *, denied: bool) -> str | None:
    """Why a request was denied, or why an allowed one failed; None if neither.

    The order is that of the refusals in the proxy's own configuration.
    """
    if denied:
        return _denial(fields)
    details = _text(fields.get("details"))
    if details == FROM_ORIGIN or _number(fields.get("status")) < 500:
        return None
    failure = _text(fields.get("tls_failure"))
    for text, reason in TLS_FAILURES.items():
        if text in failure:
            return reason.value
    if "DF" in _text(fields.get("flags")).split(","):
        return Reason.UPSTREAM_NAME.value
    return Reason.UPSTREAM_UNREACHABLE.value


def _denial(fields: Mapping[str, Any]) -> str:
    mark, details = _text(fields.get("mark")), _text(fields.get("details"))
    if mark in OWN_REASONS:
        return mark
    if details.startswith("rbac_access_denied"):
        return Reason.SPECIAL_ADDRESS.value
    if details == UPGRADE_FAILED:
        return Reason.SWITCH.value
    if _number(fields.get("status")) == HEAD_TOO_LARGE:
        return Reason.HEAD_TOO_LARGE.value
    return _text(fields.get("reason")) or Reason.MALFORMED_REQUEST.value


def _word(*, allowed: bool) -> str:
    return "allow" if allowed else "DENY "


def _text(value: object) -> str:
    """A field as text; absent fields of Envoy are null."""
    return value if isinstance(value, str) else ""


def _number(value: object) -> int:
    """A field as a number; 0 if it is none."""
    if isinstance(value, int):
        return value
    return int(value) if isinstance(value, str) and value.isdecimal() and value.isascii() else 0
