"""What the proxy says when it refuses: one JSON object, the same fields whatever the reason.

Nothing of the request is repeated but a name that has the shape of a name.
"""

from __future__ import annotations

from collections.abc import Iterator

from abox.allowlist import Reason
from abox.render.envoy_lua import MARK
from abox.render.envoy_types import Json, any_of

_READ = "check what the client sends"

FORBIDDEN = 403
BAD_GATEWAY = 502
GATEWAY_TIMEOUT = 504

MARKED_REASONS = (
    Reason.MALFORMED_NAME,
    Reason.ADDRESS_LITERAL,
    Reason.NOT_TLS,
    Reason.NAME_MISMATCH,
)
"""Denials that the Lua filter finds: the routes only see its mark."""

_RBAC = "response.code_details.startsWith('rbac_access_denied')"
_NOT_INJECTED = "response.code_details == 'failed_to_inject_credential'"
_CERTIFICATE = (
    "has(upstream.transport_failure_reason) && "
    "upstream.transport_failure_reason.contains('CERTIFICATE_VERIFY_FAILED')"
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
        yield _mapper({"header_filter": {"header": header}}, FORBIDDEN, reason)
    yield _mapper(_expression(_RBAC), FORBIDDEN, Reason.SPECIAL_ADDRESS)
    yield _mapper(_expression(_NOT_INJECTED), BAD_GATEWAY, Reason.SECRET_MISSING)
    yield _mapper(_expression(_CERTIFICATE), BAD_GATEWAY, Reason.UPSTREAM_CERTIFICATE)
    yield _mapper(_flags("DF"), BAD_GATEWAY, Reason.UPSTREAM_NAME)
    yield _mapper(
        _flags("UF", "UC", "UH", "UR", "UO", "UPE", "URX"),
        BAD_GATEWAY,
        Reason.UPSTREAM_UNREACHABLE,
    )
    yield _mapper(_status(BAD_GATEWAY), BAD_GATEWAY, Reason.UPSTREAM_UNREACHABLE)
    malformed = Reason.MALFORMED_REQUEST
    body = _body(malformed.value, malformed.text, _READ)
    yield {"filter": _status(400), "body_format_override": body}


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
    Reason.MALFORMED_NAME: "ask for a host name of letters, digits, '-' and '.'",
    Reason.ADDRESS_LITERAL: "ask for the host by its name",
    Reason.NOT_TLS: "use CONNECT for https",
    Reason.NAME_MISMATCH: "send the request to the name that the tunnel was opened for",
    Reason.SPECIAL_ADDRESS: "on the host, if wanted: add the network to allow_private_cidrs",
    Reason.UPSTREAM_CERTIFICATE: "on the host, if it is yours: add its authority to trusted_cas",
    Reason.SECRET_MISSING: "on the host: pulumi up, which hands the gateway its secrets again",
    Reason.UPSTREAM_NAME: "check the name, and upstream_dns on the host",
    Reason.UPSTREAM_UNREACHABLE: "try again later; the gateway let the request pass",
}
"""What to do about a refusal that more allowing doesn't cure."""
