"""The verdict log: what a line holds, and how it is written and read.

One JSON object a line. ``schema`` describes it for other programs (docs/verdict-log.schema.json);
``NameVerdict`` and ``RequestVerdict`` are the same for ours. Whatever an agent may choose is
printable ASCII here, cut where it is long, and ``cut`` says so: no value can forge a line, drive a
terminal, or pass for whole. Queries of URLs, userinfo and header values have no field.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, ClassVar, Self

from abox.reasons import Reason

NAME_CHARS, PATH_CHARS, RULE_CHARS, METHOD_CHARS = 255, 256, 320, 32
"""Longest texts of a line in characters; what is longer is cut."""

WORD_CHARS = 64
"""The same for what the gateway itself chooses from few values."""

MAX_LINE_BYTES = 4096
"""Longer than any line: a reader may take a longer one for damage."""


class Source(StrEnum):
    """Which filter judged."""

    DNS = "dns"
    HTTP = "http"


class Outcome(StrEnum):
    """The verdict."""

    ALLOW = "allow"
    DENY = "deny"


class Kind(StrEnum):
    """What a line stands for."""

    SINGLE = "single"
    """One query or request."""
    REPEATS = "repeats"
    """``count`` more that differ only in what is null, between ``time`` and ``until``."""
    OMITTED = "omitted"
    """``count`` more of this source and verdict about which nothing else is told; ``cause``."""


class Cause(StrEnum):
    """Why lines were omitted."""

    RATE = "rate"
    """There were too many to write."""
    VOLUME_FULL = "volume_full"
    """They could not be written."""
    SPOOL_FULL = "spool_full"
    """They could not be collected; nobody counted them."""


FILES: Mapping[tuple[Source, Outcome], str] = {
    (source, outcome): f"{source}-{outcome}.jsonl" for source in Source for outcome in Outcome
}
"""File of each source and verdict, so that a flood of one pushes out nothing of another."""


@dataclass(frozen=True, kw_only=True)
class VerdictLine:
    """What every line holds."""

    source: ClassVar[Source]

    time: float
    """Seconds since the epoch: of the query or request, or of the first one."""
    until: float | None = None
    """The same of the last one; None in a single line."""
    sandbox: str
    kind: Kind = Kind.SINGLE
    count: int | None = 1
    """Queries or requests that the line stands for; None: nobody knows."""
    cause: Cause | None = None
    """Why lines were omitted; None in other lines."""
    verdict: Outcome | None
    """None where it was not read any more."""
    name: str | None = None
    """Lower case, without its final dot; None if what was asked for has no shape of a name.

    In repeats, ``*.`` and a name stand for several names below it.
    """
    reason: str | None = None
    """Code of the denial, or of the failure upstream of what was allowed."""
    rule: str | None = None
    """What decided: an entry of a list, or passive mode."""
    sent: int = 0
    """Bytes towards the agent."""
    duration_ms: int | None = None
    """None in a line that stands for several."""
    cut: tuple[str, ...] = ()
    """Fields that were too long to be written whole."""

    @property
    def allowed(self) -> bool:
        """Whether it was allowed."""
        return self.verdict is Outcome.ALLOW

    @property
    def outcome(self) -> Outcome:
        """The verdict; a denial where it isn't known."""
        return self.verdict or Outcome.DENY

    def to_document(self) -> dict[str, Any]:
        """The line as a JSON object."""
        document = {"source": self.source.value, **vars(self)}
        until = None if self.until is None else stamp(self.until)
        return document | {"time": stamp(self.time), "until": until, "cut": list(self.cut)}

    def to_line(self) -> str:
        """The line as it stands in the log, with its line break."""
        return json.dumps(self.to_document(), separators=(",", ":")) + "\n"

    def cleaned(self) -> Self:
        """The same with every text fit for the log."""
        changes: dict[str, Any] = {}
        cut = []
        for field, limit in LIMITS.items():
            value = getattr(self, field, None)
            if isinstance(value, str):
                changes[field] = text = clean(value)
                if len(text) > limit:
                    changes[field] = text[:limit]
                    cut.append(field)
        return replace(self, **changes, cut=tuple(sorted({*cut, *self.cut})))

    def _times(self) -> str:
        """How often, for people; empty in a single line."""
        if self.kind is Kind.SINGLE:
            return ""
        return f" (x{'?' if self.count is None else self.count})"

    def _omission(self) -> str:
        """An omission on one line, for people."""
        number = "an unknown number of" if self.count is None else str(self.count)
        return f"{_word(self.verdict)} {number} more, not told one by one ({self.cause})"


@dataclass(frozen=True, kw_only=True)
class NameVerdict(VerdictLine):
    """What the DNS filter answered."""

    source: ClassVar[Source] = Source.DNS

    type: str | None = None
    """Record type; None in a line that stands for several."""
    rcode: str | None = None
    """The answer's code."""

    def summary(self) -> str:
        """The verdict on one line, for people."""
        if self.kind is Kind.OMITTED:
            return self._omission()
        why = f" {self.reason}" if self.reason else ""
        rule = f" ({self.rule})" if self.rule else ""
        asked = f"{self.type or 'any':<5} {self.name or '-'}"
        return f"{_word(self.verdict)} {asked} {self.rcode}{why}{rule}{self._times()}"


@dataclass(frozen=True, kw_only=True)
class RequestVerdict(VerdictLine):
    """What the proxy did with a request."""

    source: ClassVar[Source] = Source.HTTP

    port: int | None = None
    method: str | None = None
    path: str | None = None
    """Without its query, which is never logged; None for CONNECT and in repeats."""
    protocol: str | None = None
    status: int | None = None
    """0: the connection ended without an answer."""
    address: str | None = None
    """Address and port of the origin that was dialled; None for requests in the clear."""
    received: int = 0
    """Bytes from the agent."""
    tunnel: bool = False
    """A CONNECT whose requests have lines of their own."""

    def summary(self) -> str:
        """The verdict on one line, for people."""
        if self.kind is Kind.OMITTED:
            return self._omission()
        port = "" if self.port is None else f":{self.port}"
        why = f" {self.reason}" if self.reason else ""
        rule = f" ({self.rule})" if self.rule else ""
        target = f"{self.name or '-'}{port}{self.path or ''}"
        asked = f"{self.method or 'any':<5} {target}"
        status = "" if self.status is None else f" {self.status}"
        return f"{_word(self.verdict)} {asked}{status}{why}{rule}{self._times()}"


Verdict = NameVerdict | RequestVerdict
CLASSES: Mapping[str, type[NameVerdict] | type[RequestVerdict]] = {
    one.source.value: one for one in (NameVerdict, RequestVerdict)
}

LIMITS = {
    "name": NAME_CHARS,
    "rule": RULE_CHARS,
    "path": PATH_CHARS,
    "method": METHOD_CHARS,
    "reason": WORD_CHARS,
    "type": WORD_CHARS,
    "rcode": WORD_CHARS,
    "protocol": WORD_CHARS,
    "address": WORD_CHARS,
}
"""Fields that hold text, and how many characters of it."""


def clean(text: str) -> str:
    r"""Text in printable ASCII: all else stands as an escape, for example ``\x1b``."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(c if " " <= c <= "~" else _escaped(c) for c in text)


def _escaped(char: str) -> str:
    code = ord(char)
    return f"\\x{code:02x}" if code < 256 else f"\\u{{{code:x}}}"


def stamp(time: float) -> str:
    """A time in ISO 8601, UTC, with milliseconds."""
    seconds, milliseconds = divmod(round(time * 1000), 1000)
    moment = datetime.fromtimestamp(seconds, UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{milliseconds:03d}Z"


def read_stamp(text: str) -> float:
    """Seconds since the epoch.

    Raises: ValueError if it is no time.
    """
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def parse_line(text: str) -> Verdict | None:
    """The verdict in a line of the log; None if it was damaged."""
    try:
        document = json.loads(text)
        kind = CLASSES[document.pop("source")]
        known = {field.name for field in fields(kind)}
        if set(document) != known:
            return None
        until = document["until"]
        return kind(
            **document
            | {
                "time": read_stamp(document["time"]),
                "until": None if until is None else read_stamp(until),
                "kind": Kind(document["kind"]),
                "cause": None if document["cause"] is None else Cause(document["cause"]),
                "verdict": None if document["verdict"] is None else Outcome(document["verdict"]),
                "cut": tuple(document["cut"]),
            }
        )
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def _word(verdict: Outcome | None) -> str:
    return {Outcome.ALLOW: "allow", Outcome.DENY: "DENY ", None: "?    "}[verdict]


# --- the schema -----------------------------------------------------------------------------


def schema() -> dict[str, Any]:
    """The JSON schema of a line (draft 2020-12)."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A line of abox's verdict log",
        "description": "One line for each DNS query and each request of an agent, or for several "
        "that are alike. Texts are printable ASCII; other characters stand as escapes.",
        "oneOf": [{"$ref": f"#/$defs/{source}"} for source in CLASSES],
        "$defs": {source: _object_of(source) for source in CLASSES},
    }


def _object_of(source: str) -> dict[str, Any]:
    names = [field.name for field in fields(CLASSES[source])]
    properties = {"source": {"const": source}} | {name: _PROPERTIES[name] for name in names}
    return {
        "type": "object",
        "properties": properties,
        "required": sorted(properties),
        "additionalProperties": False,
    }


def _text_of(limit: int, meaning: str, pattern: str = "^[ -~]*$") -> dict[str, Any]:
    return {
        "type": ["string", "null"],
        "maxLength": limit,
        "pattern": pattern,
        "description": meaning,
    }


def _number_of(meaning: str, *, null: bool = False, most: int | None = None) -> dict[str, Any]:
    kind: Any = ["integer", "null"] if null else "integer"
    limit = {} if most is None else {"maximum": most}
    return {"type": kind, "minimum": 0, **limit, "description": meaning}


def _one_of(values: type[StrEnum], meaning: str, *, null: bool = False) -> dict[str, Any]:
    found: list[str | None] = [value.value for value in values]
    return {"enum": [*found, None] if null else found, "description": meaning}


_TIME = r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$"

_PROPERTIES: Mapping[str, dict[str, Any]] = {
    "time": {
        "type": "string",
        "pattern": _TIME,
        "description": "Of the query (to the second) or the request's start; of the first one.",
    },
    "until": {
        "type": ["string", "null"],
        "pattern": _TIME,
        "description": "Of the last one that the line stands for; null in a single line.",
    },
    "sandbox": {"type": "string", "pattern": "^[a-zA-Z][a-zA-Z0-9_-]{0,62}$"},
    "kind": _one_of(
        Kind,
        "single: one query or request. repeats: `count` more that differ only in what is null; a "
        "name that begins with `*.` stands for several below it. omitted: `count` more of this "
        "source and verdict, about which nothing else is told.",
    ),
    "count": _number_of("What the line stands for; null: nobody counted.", null=True),
    "cause": _one_of(Cause, "Why lines were omitted; null in other lines.", null=True),
    "verdict": _one_of(Outcome, "null in an omission of which it isn't known.", null=True),
    "name": _text_of(
        NAME_CHARS, "Name asked for; null without the shape of a name, and in an omission."
    ),
    "reason": {
        "enum": [*sorted(reason.value for reason in Reason), None],
        "description": "Why it was denied, or why what was allowed failed; the code of the 403's "
        "body and of the DNS answer's extended error.",
    },
    "rule": _text_of(RULE_CHARS, "The entry that decided, or `mode: passive`."),
    "sent": _number_of("Bytes towards the agent: of the body, or of the DNS answer."),
    "duration_ms": _number_of("null in a line that stands for several.", null=True),
    "cut": {
        "type": "array",
        "items": {"enum": sorted(LIMITS)},
        "uniqueItems": True,
        "description": "Fields that were too long to be written whole.",
    },
    "type": _text_of(WORD_CHARS, "Record type; null in a line that stands for several."),
    "rcode": _text_of(WORD_CHARS, "The answer's code.", "^[A-Z0-9]+$"),
    "port": _number_of("Destination port.", null=True, most=65535),
    "method": _text_of(METHOD_CHARS, "null in a line that stands for several."),
    "path": _text_of(
        PATH_CHARS,
        "Without its query; null for CONNECT and in a line that stands for several.",
        "^[ ->@-~]*$",
    ),
    "protocol": _text_of(WORD_CHARS, "HTTP version."),
    "status": _number_of("Status of the answer; 0: there was none.", null=True, most=999),
    "address": _text_of(
        WORD_CHARS,
        "Address and port of the origin that was dialled; null for requests in the clear.",
    ),
    "received": _number_of("Bytes from the agent: of the body, or of the tunnel."),
    "tunnel": {
        "type": "boolean",
        "description": "A CONNECT whose requests have lines of their own.",
    },
}
