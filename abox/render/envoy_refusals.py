"""What the proxy says when it refuses: one JSON object, the same fields whatever the reason.

Nothing of the request is repeated but a name that has the shape of a name.
"""

from __future__ import annotations

from collections.abc import Iterator

from abox.reasons import HEAD_TOO_LARGE, NOT_INJECTED, TLS_FAILURES, UPGRADE_FAILED, Reason
from abox.render.envoy_lua import MARK
from abox.render.envoy_types import Json, any_of

BAD_REQUEST = 400
FORBIDDEN = 403
BAD_GATEWAY = 502
MALFORMED = (BAD_REQUEST, 404, 413, 426, 501, 505)
"""What Envoy itself answers to requests that it can't read; an origin's answers aren't meant."""

MARKED_REASONS = (
    Reason.MALFORMED_REQUEST,
    Reason.MALFORMED_NAME,
    Reason.ADDRESS_LITERAL,
    Reason.NOT_TLS,
    Reason.NAME_MISMATCH,
)
"""Denials that the Lua filter finds: the routes only see its mark."""

_RBAC = "response.code_details.startsWith('rbac_access_denied')"
_SWITCH = f"response.code_details == '{UPGRADE_FAILED}'"
_NOT_INJECTED = f"response.code_details == '{NOT_INJECTED}'"
_TLS_FAILED = (
    "has(upstream.transport_failure_reason) && upstream.transport_failure_reason.contains('{}')"
)


def local_replies(sandbox: str) -> Json:
    """The ``local_reply_config`` of both listeners.

    Args:
        sandbox: its name, for the command that would allow the name.
    """
    return {"mappers": list(_mappers()), "body_format": _by_route(sandbox)}


def _mappers() -> Iterator[Json]:
    yield {"filter": _status(200), "body_format_override": _UNCHANGED}
    for reason in MARKED_REASONS:
        header = {"name": MARK, "string_match": {"exact": reason.value}}
        status = BAD_REQUEST if reason is Reason.MALFORMED_REQUEST else FORBIDDEN
        yield _mapper({"header_filter": {"header": header}}, status, reason)
    yield _mapper(_expression(_SWITCH), FORBIDDEN, Reason.SWITCH)
    yield _mapper(_expression(_RBAC), FORBIDDEN, Reason.SPECIAL_ADDRESS)
    yield _mapper(_expression(_NOT_INJECTED), BAD_GATEWAY, Reason.SECRET_MISSING)
    for text, reason in TLS_FAILURES.items():
        yield _mapper(_expression(_TLS_FAILED.format(text)), BAD_GATEWAY, reason)
    yield _mapper(_flags("DF"), BAD_GATEWAY, Reason.UPSTREAM_NAME)
    yield _mapper(
        _flags("UF", "UC", "UH", "UR", "UO", "UPE", "URX"),
        BAD_GATEWAY,
        Reason.UPSTREAM_UNREACHABLE,
    )
    yield _mapper(_status(BAD_GATEWAY), BAD_GATEWAY, Reason.UPSTREAM_UNREACHABLE)
    yield _mapper(_status(HEAD_TOO_LARGE), HEAD_TOO_LARGE, Reason.HEAD_TOO_LARGE)
    for status in MALFORMED:
        yield _mapper(_status(status), BAD_REQUEST, Reason.MALFORMED_REQUEST)


_UNCHANGED: Json = {"text_format_source": {"inline_string": "%LOCAL_REPLY_BODY%"}}
"""The health name's answer is no refusal."""


def _status(code: int) -> Json:
    value = {"default_value": code, "runtime_key": f"abox.status.{code}"}
    return {"status_code_filter": {"comparison": {"op": "EQ", "value": value}}}


def _expression(text: str) -> Json:
    """A filter in the Common Expression Language."""
    filter_ = any_of("extensions.access_loggers.filters.cel.v3.ExpressionFilter", expression=text)
    name = "envoy.access_loggers.extension_filters.cel"
    return {"extension_filter": {"name": name, "typed_config": filter_}}


def _flags(*flags: str) -> Json:
    return {"response_flag_filter": {"flags": list(flags)}}


def _mapper(filter_: Json, status: int, reason: Reason) -> Json:
    body = _body(reason.value, reason.text, _REMEDIES[reason])
    return {"filter": filter_, "status_code": status, "body_format_override": body}


def _by_route(sandbox: str) -> Json:
    """The body of a denial by a route, which carries its reason as metadata."""
    return _body(
        "%METADATA(ROUTE:abox:reason)%",
        "%METADATA(ROUTE:abox:message)%",
        _ask_for_it(sandbox),
        rule="%METADATA(ROUTE:abox:rule)%",
    )


def _body(reason: str, message: str, remedy: str, *, rule: str | None = None) -> Json:
    fields: Json = {
        "error": "refused by the sandbox's gateway",
        "reason": reason,
        "message": message,
        "name": _NAME,
        "remedy": remedy,
    }
    return {"json_format": fields | ({"rule": rule} if rule else {})}


_NAME = "%DYNAMIC_METADATA(abox:name)%"
"""The host name as the script found it; empty unless it has the shape of one."""


def _ask_for_it(sandbox: str) -> str:
    return f"on the host, if this is wanted: abox allow {sandbox} {_NAME}"


_REMEDIES = {
    Reason.MALFORMED_REQUEST: "check what the client sends",
    Reason.HEAD_TOO_LARGE: "send fewer or shorter header fields",
    Reason.SWITCH: "speak HTTP; WebSocket alone may take a connection over",
    Reason.MALFORMED_NAME: "ask for a host name of letters, digits, '-' and '.'",
    Reason.ADDRESS_LITERAL: "ask for the host by its name",
    Reason.NOT_TLS: "use CONNECT for https",
    Reason.NAME_MISMATCH: "send the request to the name that the tunnel was opened for",
    Reason.SPECIAL_ADDRESS: "on the host, if wanted: add the network to allow_private_cidrs",
    Reason.UPSTREAM_EXPIRED: "tell whoever runs the origin to renew it",
    Reason.UPSTREAM_SELF_SIGNED: "on the host, if it is yours: add it to trusted_cas",
    Reason.UPSTREAM_OTHER_NAME: "ask for a name that the certificate is for",
    Reason.UPSTREAM_CERTIFICATE: "on the host, if it is yours: add its authority to trusted_cas",
    Reason.CLIENT_CERTIFICATE: (
        "no client's certificate passes interception; on the host, if wanted: tls: passthrough"
    ),
    Reason.SECRET_MISSING: "on the host: pulumi up, which hands the gateway its secrets again",
    Reason.UPSTREAM_NAME: "check the name, and upstream_dns on the host",
    # Over TLS 1.3 an origin that misses a client's certificate just closes the connection.
    Reason.UPSTREAM_UNREACHABLE: (
        "try again later; if the origin wants a client's certificate: none passes interception"
    ),
}
"""What to do about a refusal that more allowing doesn't cure."""
