"""Header lists of HTTP/2 that become another request when somebody writes them as HTTP/1.1.

``@H`` stands for the host, ``@P`` for the path. A value is a list of fields that replace or follow
the usual ones; a name that begins with ``+`` is added even if the usual list has it, one with ``-``
is left out.
"""

from __future__ import annotations

Change = list[tuple[str, str]]

_INSIDE = "\r\n\r\nGET /inside HTTP/1.1\r\nHost: evil.test\r\n\r\n"

REFUSED: dict[str, Change] = {
    "value-return-line-feed": [("x-a", "b\r\nTransfer-Encoding: chunked")],
    "value-line-feed": [("x-a", "b\nhost: evil.test")],
    "value-return": [("x-a", "b\rhost: evil.test")],
    "value-zero": [("x-a", "b\0c")],
    "value-whole-request": [("x-a", "b" + _INSIDE)],
    "name-line-feed": [("x-a\nhost", "evil.test")],
    "name-return-line-feed": [("x-a: b\r\nhost", "evil.test")],
    "name-colon": [("x-a: b", "c")],
    "name-blank": [("x a", "b")],
    "name-blank-last": [("transfer-encoding ", "chunked")],
    "name-upper-case": [("X-A", "b")],
    "name-empty": [("", "b")],
    "name-zero": [("x-a\0", "b")],
    "coding-chunked": [("transfer-encoding", "chunked")],
    "coding-identity": [("transfer-encoding", "identity")],
    "connection-close": [("connection", "close")],
    "connection-keep-alive": [("connection", "keep-alive, x-hop")],
    "keep-alive": [("keep-alive", "timeout=5")],
    "proxy-connection": [("proxy-connection", "keep-alive")],
    "upgrade-h2c": [("upgrade", "h2c")],
    "upgrade-websocket": [("upgrade", "websocket")],
    "te-gzip": [("te", "gzip")],
    "path-return-line-feed": [(":path", "@P HTTP/1.1" + _INSIDE)],
    "path-line-feed": [(":path", "@P\nhost: evil.test")],
    "path-blank": [(":path", "@P HTTP/1.1")],
    "path-zero": [(":path", "@P\0")],
    "path-high-bytes": [(":path", "@P\xc3\xa4")],
    "method-lower-case": [(":method", "get")],
    "path-empty": [(":path", "")],
    "path-absent": [("-:path", "")],
    "path-twice": [("+:path", "/inside")],
    "path-asterisk": [(":path", "*")],
    "path-absolute": [(":path", "http://evil.test/inside")],
    "path-without-slash": [(":path", "s")],
    "method-return-line-feed": [(":method", "GET /inside HTTP/1.1\r\nHost: evil.test\r\n\r\nGET")],
    "method-blank": [(":method", "GET /inside HTTP/1.1 ")],
    "method-absent": [("-:method", "")],
    "method-twice": [("+:method", "POST")],
    "method-empty": [(":method", "")],
    "scheme-absent": [("-:scheme", "")],
    "scheme-twice": [("+:scheme", "http")],
    "scheme-odd": [(":scheme", "https://evil.test/inside?")],
    "authority-other": [(":authority", "evil.test")],
    "authority-absent-host-other": [("-:authority", ""), ("host", "evil.test")],
    "authority-twice": [("+:authority", "evil.test")],
    "authority-return-line-feed": [(":authority", "@H\r\nx-a: b")],
    "authority-blank": [(":authority", "@H evil.test")],
    "authority-user": [(":authority", "@H@evil.test")],
    "authority-user-before": [(":authority", "evil.test@@H")],
    "authority-path": [(":authority", "@H/evil.test")],
    "authority-port": [(":authority", "@H:8443")],
    "authority-port-80": [(":authority", "@H:80")],
    "authority-two-ports": [(":authority", "@H:443:80")],
    "authority-zero": [(":authority", "@H\0.evil.test")],
    "authority-list": [(":authority", "@H, evil.test")],
    "authority-empty": [(":authority", "")],
    "authority-empty-host-other": [(":authority", ""), ("host", "evil.test")],
    "pseudo-last": [("-:authority", ""), ("x-a", "b"), (":authority", "@H")],
    "pseudo-unknown": [(":abxt", "1")],
    "pseudo-of-an-answer": [(":status", "200")],
    "length-twice": [("content-length", "0"), ("+content-length", "5")],
    "length-too-long": [("content-length", "5")],
    "length-odd": [("content-length", "+0")],
    "length-letters": [("content-length", "0x0")],
    "connect-other": [(":method", "CONNECT"), (":authority", "evil.test:443"), ("-:path", ""),
                      ("-:scheme", "")],
    "connect-same": [(":method", "CONNECT"), (":authority", "@H:443"), ("-:path", ""),
                     ("-:scheme", "")],
    "connect-with-path": [(":method", "CONNECT"), (":authority", "evil.test:443")],
    "protocol-unknown": [(":method", "CONNECT"), ("+:protocol", "abxt")],
    "protocol-connect-udp": [(":method", "CONNECT"), ("+:protocol", "connect-udp")],
    "protocol-without-connect": [("+:protocol", "websocket")],
}  # fmt: skip
"""Refused by the gateway; no origin hears of them."""

NORMALISED: dict[str, Change] = {
    "plain": [("x-a", "b")],
    "scheme-http": [(":scheme", "http")],
    "host-other": [("host", "evil.test")],
    "host-same": [("host", "@H")],
    "host-twice-other": [("host", "evil.test"), ("+host", "other.test")],
    "authority-absent-host-same": [("-:authority", ""), ("host", "@H")],
    "authority-upper-case": [(":authority", "NODE.WILD.TEST")],
    "authority-root-dot": [(":authority", "@H.")],
    "authority-own-port": [(":authority", "@H:443")],
    "length-zero": [("content-length", "0")],
    "length-same-list": [("content-length", "0, 0")],
    "te-trailers": [("te", "trailers")],
    "cookies": [("cookie", "a=b"), ("+cookie", "c=d")],
    "expect-continue": [("expect", "100-continue")],
    "path-fragment": [(":path", "@P#x")],
    "path-slashes": [(":path", "//evil.test@P")],
    "value-blanks-around": [("x-a", " b ")],
    "value-tab": [("x-a", "b\tc")],
    "value-high-bytes": [("x-a", "\xff\xfe")],
    "name-underscore": [("content_length", "49")],
    "name-underscore-coding": [("transfer_encoding", "chunked")],
    "trace": [(":method", "TRACE")],
    "mark-forged": [("x-abox-judged", "tls"), ("x-abox-port", "443")],
    "steering": [("x-envoy-original-dst-host", "198.51.100.66:80")],
    "forwarded": [("x-forwarded-host", "evil.test"), ("forwarded", "host=evil.test")],
}
"""Refused, or passed on in a form that has one reading."""


def fields(change: Change, host: str, path: str) -> list[tuple[bytes, bytes]]:
    """The header list of a shape for a host and a path."""
    usual = {":method": "GET", ":scheme": "https", ":authority": host, ":path": path}
    left_out = {name[1:] for name, _ in change if name.startswith("-")}
    replaced = {name: value for name, value in change if name in usual and name not in left_out}
    pairs = [(n, replaced.get(n, v)) for n, v in usual.items() if n not in left_out]
    for name, value in change:
        if name.startswith("+"):
            added = (name[1:], value)
            pairs.insert(4, added) if name.startswith("+:") else pairs.append(added)
        elif not name.startswith("-") and not (name in usual and name not in left_out):
            pairs.append((name, value))
    filled = [(n, v.replace("@H", host).replace("@P", path)) for n, v in pairs]
    return [(n.encode("latin-1"), v.encode("latin-1")) for n, v in filled]
