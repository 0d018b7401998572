"""Messages whose end, host or fields two readers could see differently.

``@T`` stands for what comes before the path in the request line (scheme and host, or nothing
inside TLS), ``@H`` for the host, ``@P`` for the path, ``@L`` for the length of ``_INSIDE``: a
request that is denied, which some readers take for a request and others for the body.
"""

from __future__ import annotations

_INSIDE = "GET @E/inside HTTP/1.1\r\nHost: evil.test\r\n\r\n"


def fill(shape: str, host: str, path: str, *, absolute: bool) -> bytes:
    """A shape as it is sent for a host and path: in absolute form, or as it stands inside TLS."""
    base = {"@T": f"http://{host}", "@E": "http://evil.test"} if absolute else {"@T": "", "@E": ""}
    inside = _INSIDE.replace("@E", base["@E"])
    for mark, text in {**base, "@H": host, "@P": path, "@L": str(len(inside))}.items():
        shape = shape.replace(mark, text)
    return shape.encode("latin-1")


def _post(fields: str, body: str = "") -> str:
    return f"POST @T@P HTTP/1.1\r\nHost: @H\r\n{fields}\r\n\r\n{body}"


def _get(fields: str) -> str:
    return f"GET @T@P HTTP/1.1\r\nHost: @H\r\n{fields}\r\n\r\n"


def _chunked(body: str) -> str:
    return _post("Transfer-Encoding: chunked", body)


_LAST = "0\r\n\r\n"
_TWO_READINGS = _LAST + _INSIDE
"""After the fields: the end for who reads chunks, a body for who reads a length."""

_LENGTHS = {
    "length-plus": "+4",
    "length-minus": "-4",
    "length-hex": "0x4",
    "length-fraction": "4.0",
    "length-exponent": "4e0",
    "length-list-of-two": "4, 5",
    "length-list-of-the-same": "4, 4",
    "length-blank-within": "4 4",
    "length-empty": "",
    "length-letters": "four",
    "length-wide-digits": "\xef\xbc\x94",
    "length-wraps-64-bit": "18446744073709551620",
    "length-quoted": '"4"',
    "length-underscore": "1_0",
    "length-vertical-tab": "\x0b4",
}

_CODINGS = {
    "coding-unknown": "chunkedx",
    "coding-prefix": "xchunked",
    "coding-then-identity": "chunked, identity",
    "coding-twice-in-list": "chunked, chunked",
    "coding-identity": "identity",
    "coding-gzip-chunked": "gzip, chunked",
    "coding-quoted": '"chunked"',
    "coding-parameter": "chunked;q=1",
    "coding-comma-first": ",chunked",
    "coding-comma-last": "chunked,",
    "coding-vertical-tab": "\x0bchunked",
    "coding-form-feed": "chunked\x0c",
    "coding-zero": "chunked\0",
    "coding-high-byte": "chun\xffked",
    "coding-blank-within": "chun ked",
    "coding-empty": "",
    "coding-semicolon": "chunked;",
}

_FIELD_NAMES = {
    "field-blank-before-colon": "Transfer-Encoding : chunked",
    "field-tab-before-colon": "Transfer-Encoding\t: chunked",
    "field-no-break-space": "Transfer-Encoding\xa0: chunked",
    "field-zero-in-name": "Transfer-\0Encoding: chunked",
    "field-second-colon": "Transfer-Encoding:: chunked",
    "field-without-colon": "Transfer-Encoding chunked",
    "field-empty-name": ": chunked",
    "field-bracket": "Transfer-Encoding]: chunked",
    "field-slash": "Transfer/Encoding: chunked",
    "field-bare-return-first": "X-A: b\r\r\nTransfer-Encoding: chunked",
    "field-zero": "X-A: a\0b",
}

REFUSED: dict[str, str] = {
    "length-and-chunked": _post("Content-Length: 5\r\nTransfer-Encoding: chunked", _TWO_READINGS),
    "chunked-and-length": _post("Transfer-Encoding: chunked\r\nContent-Length: 5", _TWO_READINGS),
    "length-and-chunked-empty": _post("Content-Length: 0\r\nTransfer-Encoding: chunked", _LAST),
    "two-lengths": _post("Content-Length: 4\r\nContent-Length: 5", "abcde"),
    "two-lengths-the-same": _post("Content-Length: 4\r\nContent-Length: 4", "abcd"),
    "two-lengths-zero": _post("Content-Length: 0\r\nContent-Length: @L", _INSIDE),
    **{name: _post(f"Content-Length: {value}", "abcd") for name, value in _LENGTHS.items()},
    **{name: _post(f"Transfer-Encoding: {v}", _TWO_READINGS) for name, v in _CODINGS.items()},
    "coding-two-lines": _post(
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity", _TWO_READINGS
    ),
    "coding-two-lines-chunked": _post(
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", _TWO_READINGS
    ),
    **{name: _post(f"{v}\r\nContent-Length: 5", _TWO_READINGS) for name, v in _FIELD_NAMES.items()},
    "version-lower-case": "GET @T@P http/1.1\r\nHost: @H\r\n\r\n",
    "version-long": "GET @T@P HTTP/1.10\r\nHost: @H\r\n\r\n",
    "line-two-targets": "GET @T@P @T/inside HTTP/1.1\r\nHost: @H\r\n\r\n",
    "line-zero-in-target": "GET @T/sh\0ape HTTP/1.1\r\nHost: @H\r\n\r\n",
    "line-return-in-target": "GET @T/sh\rape HTTP/1.1\r\nHost: @H\r\n\r\n",
    "line-odd-method": "GE(T @T@P HTTP/1.1\r\nHost: @H\r\n\r\n",
    "line-two-versions": "GET @T@P HTTP/1.1 HTTP/1.1\r\nHost: @H\r\n\r\n",
    "preface": "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
}
"""Refused by the gateway; no origin hears of them."""

NORMALISED: dict[str, str] = {
    "plain": _post("Content-Length: 4", "abcd"),
    "chunk-size-hex-prefix": _chunked("0x4\r\nabcd\r\n0\r\n\r\n"),
    "chunk-size-plus": _chunked("+4\r\nabcd\r\n0\r\n\r\n"),
    "chunk-size-minus": _chunked("-1\r\nabcd\r\n0\r\n\r\n"),
    "chunk-size-wraps": _chunked("10000000000000004\r\nabcd\r\n0\r\n\r\n"),
    "chunk-size-empty": _chunked("\r\nabcd\r\n0\r\n\r\n"),
    "chunk-size-letters": _chunked("4g\r\nabcd\r\n0\r\n\r\n"),
    "chunk-too-long": _chunked("4\r\nabcdefgh\r\n0\r\n\r\n"),
    "chunk-zero-in-size": _chunked("4\0\r\nabcd\r\n0\r\n\r\n"),
    "coding-http-1-0": _post("Transfer-Encoding: chunked", _TWO_READINGS).replace("1.1", "1.0", 1),
    "host-twice": _get("Host: @H"),
    "host-twice-other": _get("Host: evil.test"),
    "host-twice-other-first": "GET @T@P HTTP/1.1\r\nHost: evil.test\r\nHost: @H\r\n\r\n",
    "version-2": "GET @T@P HTTP/2.0\r\nHost: @H\r\n\r\n",
    "version-1-2": "GET @T@P HTTP/1.2\r\nHost: @H\r\n\r\n",
    "version-none": "GET @T@P\r\n\r\n",
    "line-tab-separated": "GET\t@T@P\tHTTP/1.1\r\nHost: @H\r\n\r\n",
    "expect-unknown": _post("Expect: magic\r\nContent-Length: 4", "abcd"),
    "field-leading-blank": _post(" Transfer-Encoding: chunked\r\nContent-Length: 5", _TWO_READINGS),
    "field-bare-return": _post(
        "X-A: b\rTransfer-Encoding: chunked\r\nContent-Length: 5", _TWO_READINGS
    ),
    "field-value-return": _post("X-A: a\rb\r\nContent-Length: 5", _TWO_READINGS),
    "length-large": _post("Content-Length: 4294967300", "abcd"),
    "length-leading-zeros": _post("Content-Length: 004", "abcd"),
    "length-with-get": _get("Content-Length: 4").replace("\r\n\r\n", "\r\n\r\nabcd"),
    "length-short": _post("Content-Length: 10", "abcd"),
    "length-hides-a-request": _post("Content-Length: @L", _INSIDE),
    "coding-upper-case": _post("Transfer-Encoding: CHUNKED", "4\r\nabcd\r\n0\r\n\r\n"),
    "coding-blanks": _post("Transfer-Encoding:  chunked \t", "4\r\nabcd\r\n0\r\n\r\n"),
    "field-underscore": _post("Transfer_Encoding: chunked\r\nContent-Length: 5", _LAST),
    "field-underscore-length": _post("Content_Length: @L\r\nContent-Length: 0"),
    "field-folded": _get("X-A: 1\r\n b: 2"),
    "field-folded-coding": _post("Transfer-Encoding:\r\n chunked", "4\r\nabcd\r\n0\r\n\r\n"),
    "field-folded-length": _post("Content-Length:\r\n 4", "abcd"),
    "field-folded-host": "GET @T@P HTTP/1.1\r\nHost:\r\n @H\r\n\r\n",
    "field-bare-line-feed": _post("X-A: b\nContent-Length: 4", "abcd"),
    "all-bare-line-feeds": "GET @T@P HTTP/1.1\nHost: @H\n\n",
    "empty-lines-first": "\r\n\r\nGET @T@P HTTP/1.1\r\nHost: @H\r\n\r\n",
    "chunk-extension": _chunked("4;name=value\r\nabcd\r\n0;last\r\n\r\n"),
    "chunk-extension-quoted": _chunked('4;a="\r\n\r\n"\r\nabcd\r\n0\r\n\r\n'),
    "chunk-extension-line-feed": _chunked("4;a\nb\r\nabcd\r\n0\r\n\r\n"),
    "chunk-extension-hides-size": _chunked("4;\n@L\r\nabcd\r\n0\r\n\r\n"),
    "chunk-size-leading-zeros": _chunked("0000000004\r\nabcd\r\n0\r\n\r\n"),
    "chunk-size-blank": _chunked("4 \r\nabcd\r\n0\r\n\r\n"),
    "chunk-bare-line-feeds": _chunked("4\nabcd\n0\n\n"),
    "chunk-data-without-end": _chunked("4\r\nabcd0\r\n\r\n" + _INSIDE),
    "chunk-cut": _chunked("8\r\nabcd"),
    "chunk-last-missing": _chunked("4\r\nabcd\r\n"),
    "trailer-plain": _chunked("4\r\nabcd\r\n0\r\nX-Sum: 1\r\n\r\n"),
    "trailer-host": _chunked("4\r\nabcd\r\n0\r\nHost: evil.test\r\n\r\n"),
    "trailer-length": _chunked("4\r\nabcd\r\n0\r\nContent-Length: @L\r\n\r\n"),
    "trailer-coding": _chunked("4\r\nabcd\r\n0\r\nTransfer-Encoding: gzip\r\n\r\n"),
    "trailer-authorization": _chunked("4\r\nabcd\r\n0\r\nAuthorization: Basic eA==\r\n\r\n"),
    "trailer-mark": _chunked("4\r\nabcd\r\n0\r\nx-abox-judged: http\r\n\r\n"),
    "trailer-steering": _chunked("4\r\nabcd\r\n0\r\nx-envoy-retry-on: 5xx\r\n\r\n"),
    "trailer-without-colon": _chunked("4\r\nabcd\r\n0\r\nabcd\r\n\r\n"),
    "trailer-line-feed": _chunked("4\r\nabcd\r\n0\r\nX-Sum: 1\n\r\n"),
    "host-empty": "GET @T@P HTTP/1.1\r\nHost:\r\n\r\n",
    "host-missing": "GET @T@P HTTP/1.1\r\nX-A: b\r\n\r\n",
    "host-other": "GET @T@P HTTP/1.1\r\nHost: evil.test\r\n\r\n",
    "host-list": "GET @T@P HTTP/1.1\r\nHost: @H, evil.test\r\n\r\n",
    "host-user": "GET @T@P HTTP/1.1\r\nHost: evil.test@@H\r\n\r\n",
    "host-path": "GET @T@P HTTP/1.1\r\nHost: @H/evil.test\r\n\r\n",
    "host-blank-within": "GET @T@P HTTP/1.1\r\nHost: @H evil.test\r\n\r\n",
    "host-blank-before-colon": "GET @T@P HTTP/1.1\r\nHost : @H\r\n\r\n",
    "host-port": "GET @T@P HTTP/1.1\r\nHost: @H:81\r\n\r\n",
    "host-zero": "GET @T@P HTTP/1.1\r\nHost: @H\0.evil.test\r\n\r\n",
    "host-override-fields": _get("X-Forwarded-Host: evil.test\r\nX-Original-URL: /inside"),
    "target-other-host": "GET http://evil.test/inside HTTP/1.1\r\nHost: @H\r\n\r\n",
    "target-https": "GET https://@H@P HTTP/1.1\r\nHost: @H\r\n\r\n",
    "target-user": "GET http://evil.test@@H@P HTTP/1.1\r\nHost: @H\r\n\r\n",
    "target-fragment": "GET @T@P#/../inside HTTP/1.1\r\nHost: @H\r\n\r\n",
    "target-blank": "GET @T@P inside HTTP/1.1\r\nHost: @H\r\n\r\n",
    "target-high-bytes": "GET @T@P\xc3\xa4 HTTP/1.1\r\nHost: @H\r\n\r\n",
    "target-slashes": "GET //evil.test@P HTTP/1.1\r\nHost: @H\r\n\r\n",
    "target-asterisk": "OPTIONS * HTTP/1.1\r\nHost: @H\r\n\r\n",
    "target-authority": "CONNECT evil.test:443 HTTP/1.1\r\nHost: @H\r\n\r\n",
    "line-two-blanks": "GET  @T@P HTTP/1.1\r\nHost: @H\r\n\r\n",
    "line-leading-blank": " GET @T@P HTTP/1.1\r\nHost: @H\r\n\r\n",
    "line-trailing-blank": "GET @T@P HTTP/1.1 \r\nHost: @H\r\n\r\n",
    "line-lower-case-method": "get @T@P HTTP/1.1\r\nHost: @H\r\n\r\n",
    "connection-names-length": _post("Content-Length: 4\r\nConnection: content-length", "abcd"),
    "connection-names-coding": _post(
        "Transfer-Encoding: chunked\r\nConnection: transfer-encoding", "4\r\nabcd\r\n0\r\n\r\n"
    ),
    "connection-names-host": _get("Connection: close, host"),
    "upgrade-h2c": _get(
        "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__"
    )
    + _INSIDE,
    "upgrade-websocket-then-request": _get(
        "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
        "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA=="
    )
    + _INSIDE,
    "upgrade-websocket-with-length": _get(
        "Connection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: @L"
    )
    + _INSIDE,
    "upgrade-other": _get("Connection: Upgrade\r\nUpgrade: abxt") + _INSIDE,
    "expect-continue": _post("Expect: 100-continue\r\nContent-Length: 4", "abcd"),
    "expect-continue-list": _post("Expect: 100-continue, magic\r\nContent-Length: 4", "abcd"),
    "expect-obfuscated": _post("Expect: y 100-continue\r\nContent-Length: 4", "abcd"),
    "expect-with-get": _get("Expect: 100-continue\r\nContent-Length: 4") + "abcd",
    "te-trailers": _get("TE: trailers\r\nConnection: TE"),
    "te-gzip": _get("TE: gzip;q=1, chunked\r\nConnection: TE"),
    "head-with-body": _post("Content-Length: 4", "abcd").replace("POST", "HEAD", 1),
}
"""Refused, or passed on in a form that has one reading."""

PATHLESS = frozenset({"target-asterisk"})
"""What passes without a path of its own: it is tried alone."""
