"""Why something was denied or failed: the codes that every part of the gateway gives.

A module of its own without imports, so that small processes can use it.
"""

from __future__ import annotations

from enum import StrEnum

RULE_PASSIVE = "mode: passive"
"""Rule of a verdict that passive mode alone allows."""


class Reason(StrEnum):
    """Why a request was denied: one code for the 403's body, the verdict log and `explain`."""

    NOT_ALLOWED = "not_allowed"
    DENIED = "denied"
    PORT = "port_not_allowed"
    METHOD = "method_not_allowed"
    PATH = "path_not_allowed"
    AMBIGUOUS_PATH = "ambiguous_path"
    MALFORMED_NAME = "malformed_name"
    RESERVED_NAME = "reserved_name"
    NAME_TOO_LONG = "name_too_long"
    QUERY_BUDGET = "query_budget_spent"
    ADDRESS_LITERAL = "address_literal"
    SPECIAL_ADDRESS = "special_purpose_address"
    NAME_MISMATCH = "name_mismatch"
    NOT_TLS = "not_tls"
    TLS_REQUIRED = "tls_required"
    NO_POLICY = "no_policy"
    MALFORMED_REQUEST = "malformed_request"
    HEAD_TOO_LARGE = "head_too_large"
    SWITCH = "switch_not_allowed"
    SECRET_MISSING = "secret_missing"  # noqa: S105  # a reason code
    UPSTREAM_NAME = "upstream_name"
    UPSTREAM_CERTIFICATE = "upstream_certificate"
    UPSTREAM_EXPIRED = "upstream_certificate_expired"
    UPSTREAM_SELF_SIGNED = "upstream_certificate_self_signed"
    UPSTREAM_OTHER_NAME = "upstream_certificate_name"
    CLIENT_CERTIFICATE = "client_certificate"
    UPSTREAM_UNREACHABLE = "upstream_unreachable"

    @property
    def text(self) -> str:
        """The reason in words."""
        return _TEXTS[self]


_TEXTS = {
    Reason.NOT_ALLOWED: "the name is not on the allowlist",
    Reason.DENIED: "the name is on the denylist, which beats the allowlist",
    Reason.PORT: "the name is allowed, but not on this port",
    Reason.METHOD: "the name is allowed, but not with this method",
    Reason.PATH: "the name is allowed, but not with this path",
    Reason.AMBIGUOUS_PATH: "servers could read this path in different ways, so no rule matches it",
    Reason.MALFORMED_NAME: "this is not a host name",
    Reason.RESERVED_NAME: "the name stands for the gateway or for the host",
    Reason.NAME_TOO_LONG: "the name is longer than what a wildcard covers",
    Reason.QUERY_BUDGET: "the entry's names were asked for more often than dns_queries_per_minute",
    Reason.ADDRESS_LITERAL: "an address was asked for instead of a name",
    Reason.SPECIAL_ADDRESS: "the address is private, local or otherwise special-purpose",
    Reason.NAME_MISMATCH: "CONNECT, TLS server name and Host do not name the same origin",
    Reason.NOT_TLS: "the tunnel carries something other than TLS",
    Reason.TLS_REQUIRED: "the gateway puts a secret on these requests, so they pass over TLS only",
    Reason.NO_POLICY: "the gateway has no policy yet",
    Reason.MALFORMED_REQUEST: "this is not HTTP as the standard has it",
    Reason.HEAD_TOO_LARGE: "the request's head is longer, or has more fields, than is passed on",
    Reason.SWITCH: "the request asks for a switch to a protocol that is not passed on",
    Reason.SECRET_MISSING: "the gateway lacks the secret that belongs on these requests",
    Reason.UPSTREAM_NAME: "the name could not be resolved",
    Reason.UPSTREAM_CERTIFICATE: "no trusted authority vouches for the origin's certificate",
    Reason.UPSTREAM_EXPIRED: "the origin's certificate has expired",
    Reason.UPSTREAM_SELF_SIGNED: "the origin's certificate is signed by itself alone",
    Reason.UPSTREAM_OTHER_NAME: "the origin's certificate is for another name",
    Reason.CLIENT_CERTIFICATE: (
        "the origin broke the handshake off, as those do that want a client's certificate"
    ),
    Reason.UPSTREAM_UNREACHABLE: "the origin could not be reached",
}

# How Envoy reports what has a reason of its own: the 403's body and the verdict log read it.

TLS_FAILURES = {
    "self signed certificate in certificate chain": Reason.UPSTREAM_CERTIFICATE,
    "self signed certificate": Reason.UPSTREAM_SELF_SIGNED,
    "certificate has expired": Reason.UPSTREAM_EXPIRED,
    "verify SAN list": Reason.UPSTREAM_OTHER_NAME,
    "SAN matcher": Reason.UPSTREAM_OTHER_NAME,
    "CERTIFICATE_VERIFY_FAILED": Reason.UPSTREAM_CERTIFICATE,
    "ALERT_HANDSHAKE_FAILURE": Reason.CLIENT_CERTIFICATE,
    "CERTIFICATE_REQUIRED": Reason.CLIENT_CERTIFICATE,
}
"""Parts of the TLS library's errors towards an origin, the first that fits counts.

Servers that miss a client's certificate say the last but one in TLS 1.2 and the last in TLS 1.3.
"""

UPGRADE_FAILED = "upgrade_failed"
"""Details of a request for a protocol that no rule passes on."""

NOT_INJECTED = "failed_to_inject_credential"
"""Details of a request whose secret the gateway lacks."""

HEAD_TOO_LARGE = 431
"""Status of a request whose head is too large."""
