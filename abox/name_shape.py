"""What a normalised host name looks like, and the names that mean something by themselves.

A module of its own without imports, so that small processes can use it.
"""

from __future__ import annotations

HEALTH_NAME = "healthcheck.abox.local"
"""Answered by the gateway itself, in every mode, whatever the lists say."""

NAME_MAX = 253
"""Longest host name in characters (RFC 1035: 255 bytes on the wire)."""

WILDCARD_NAME_MAX = 160
"""Longest name in characters that a wildcard, or passive mode, covers.

A name that somebody made up can carry anything, and every character of it is one that its zone's
server reads. Names that people and platforms give are shorter; an exact entry may be as long as
names can be.
"""

LABEL_MAX = 63
"""Longest label in characters (RFC 1035)."""

NAME_REGEX = r"(?:[a-z0-9_-]{1,63}\.)+[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?"
"""A normalised name of two labels or more, in the common subset of Python's `re` and RE2.

The last label starts with a letter, as every top-level domain does: so no address in any spelling
is a name (the WHATWG URL standard takes a name whose last label is a number for an IPv4 address).
"""

RESERVED_SUFFIXES = ("abox.local", "docker.internal", "localhost")
"""These names and all below them stand for the gateway or for the host, so no list opens them."""
