r"""Paths of requests: one normal form, and patterns that match it.

A path rule is only worth something if the origin reads the path as we do. So a path that servers
are known to read differently (an encoded slash, a backslash, an empty segment, `..;`) has no normal
form, and no path rule matches it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
"""RFC 3986, 2.3: encoded or not, they mean the same."""

_DIVIDERS = frozenset("/\\;?#")
"""What changes the path's structure once a server has decoded it."""

_ESCAPE = re.compile(r"%([0-9A-Fa-f]{2})")
_TWICE_ENCODED = re.compile(r"%25[0-9A-Fa-f]{2}")


class AmbiguousPathError(ValueError):
    """Two servers could read the path differently; the message says why."""


def normalise_path(path: str) -> str:
    """Normal form of a path (RFC 3986, 6.2.2), without its query.

    Escapes of unreserved characters are decoded, the others get upper-case digits, dot segments
    are removed. Equal resources have equal normal forms, and normalising twice changes nothing.

    Raises: AmbiguousPathError if servers are known to differ on it.
    """
    bare = path.split("?", 1)[0]
    if not bare.startswith("/"):
        raise AmbiguousPathError("it doesn't start with '/'")
    if any(not "!" <= char <= "~" or char in "\\#" for char in bare):
        raise AmbiguousPathError("it holds a backslash, a '#', a blank or a byte outside ASCII")
    segments = _decode(bare)[1:].split("/")
    if "" in segments[:-1]:
        raise AmbiguousPathError("it holds an empty segment ('//')")
    if any(";" in segment and segment.split(";")[0] in (".", "..") for segment in segments):
        raise AmbiguousPathError("it holds a dot segment with parameters ('..;')")
    return "/" + "/".join(_without_dots(segments))


@dataclass(frozen=True)
class PathPattern:
    """A path of an entry: literal, with `*` as a whole segment.

    At the end `/*` stands for everything below, in the middle `*` for exactly one segment:
    `/repos/*/pulls/*` covers `/repos/one/pulls/7/files`, not `/repos/one/two/pulls/7`.
    """

    text: str

    @classmethod
    def parse(cls, text: str) -> PathPattern:
        """The pattern.

        Raises: ValueError with the reason if it could never match, or more than it says.
        """
        if "?" in text:
            raise ValueError("a query can't be part of a path rule")
        try:
            normal = normalise_path(text)
        except AmbiguousPathError as error:
            raise ValueError(f"it can't match: {error}") from error
        if normal != text:
            raise ValueError(f"it can't match: requests are compared in the form {normal!r}")
        if any("*" in segment and segment != "*" for segment in text.split("/")):
            raise ValueError("'*' stands for a whole segment, as in '/v1/*' or '/repos/*/pulls'")
        return cls(text)

    @cached_property
    def regex(self) -> str:
        """The pattern for a whole normalised path, in the common subset of `re` and RE2."""
        *heads, last = self.text[1:].split("/")
        parts = ["[^/]+" if head == "*" else _quote(head) for head in heads]
        parts.append(".*" if last == "*" else _quote(last))
        return "/" + "/".join(parts)

    def matches(self, normalised: str) -> bool:
        """Whether the pattern covers a path that `normalise_path` returned."""
        return re.fullmatch(self.regex, normalised) is not None


def _decode(path: str) -> str:
    decoded = "".join(_decoded_pieces(path))
    if _TWICE_ENCODED.search(decoded):
        raise AmbiguousPathError("it is percent-encoded twice")
    return decoded


def _decoded_pieces(path: str) -> Iterator[str]:
    position = 0
    while (found := path.find("%", position)) >= 0:
        yield path[position:found]
        escape = _ESCAPE.match(path, found)
        if escape is None:
            raise AmbiguousPathError("it holds a '%' without two hexadecimal digits")
        position = escape.end()
        yield _decode_escape(chr(int(escape[1], 16)))
    yield path[position:]


def _decode_escape(char: str) -> str:
    if char in _UNRESERVED:
        return char
    if char < " " or char == "\x7f" or char in _DIVIDERS:
        raise AmbiguousPathError(f"it holds the escape %{ord(char):02X}")
    return f"%{ord(char):02X}"


def _without_dots(segments: list[str]) -> list[str]:
    """RFC 3986, 5.2.4; a dot segment at the end leaves the slash before it."""
    kept: list[str] = []
    for segment in segments:
        if segment == "..":
            del kept[-1:]
        elif segment != ".":
            kept.append(segment)
    return [*kept, ""] if segments[-1] in (".", "..") else kept


def _quote(literal: str) -> str:
    return re.sub(r"([.*+?()|\[\]{}^$\\])", r"\\\1", literal)
