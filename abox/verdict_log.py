"""The verdict log: one schema for requests (Envoy) and names (Unbound).

The gateway writes lines, one verdict each; ``parse_http_line`` and ``parse_dns_line`` read them.
Queries of URLs are never logged, and control characters stand escaped in JSON.
"""

from __future__ import annotations

ACCESS_LOG_FIELDS: dict[str, str] = {
    "time": "%START_TIME(%Y-%m-%dT%H:%M:%S.%3fZ)%",
    "mark": "%DYNAMIC_METADATA(abox:mark)%",
    "name": "%DYNAMIC_METADATA(abox:name)%",
    "port": "%DYNAMIC_METADATA(abox:port)%",
    "method": "%REQ(:METHOD)%",
    "path": "%PATH(NQ)%",
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
"""What Envoy writes for a request; names are fields of the line, values its format."""
