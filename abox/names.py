"""Host names: one normal form, what is no name, what covers what.

Two readers, one result: `normalise_name` takes what a person writes (IDNA 2008), and
`normalise_request_name` what arrives on the wire, where anything but plain ASCII is refused.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import cache
from importlib import resources

import idna
import publicsuffixlist
from publicsuffixlist import PublicSuffixList

from abox.name_shape import LABEL_MAX, NAME_MAX, NAME_REGEX, RESERVED_SUFFIXES

_NAME = re.compile(NAME_REGEX)
_LABEL = re.compile(r"[a-z0-9_-]{1,63}")


class MalformedNameError(ValueError):
    """The text is no host name; the message says why."""


def normalise_request_name(name: str) -> str:
    """Normal form of a name as it stands in a request: lower case, without its root dot.

    Raises: MalformedNameError for anything that two parsers could read differently: characters
        outside ASCII, percent escapes, zero bytes, empty labels, addresses, single labels.
    """
    if not name.isascii():
        raise MalformedNameError("it holds characters outside ASCII")
    normal = name.lower().removesuffix(".")
    _check_lengths(normal)
    if not _NAME.fullmatch(normal):
        raise MalformedNameError(
            "a name is two or more labels of letters, digits, '-' and '_', the last one starting "
            "with a letter"
        )
    return normal


def normalise_name(text: str) -> str:
    """Normal form of a name as a person writes it: IDNA 2008, lower case, without its root dot.

    Raises: MalformedNameError if it is no host name.
    """
    lowered = unicodedata.normalize("NFC", text.lower())
    if lowered.isascii() and not text.isascii():
        raise MalformedNameError("it holds a look-alike of an ASCII letter")
    labels = [_normalise_label(label) for label in lowered.split(".")]
    return normalise_request_name(".".join(labels))


def normalise_suffix(text: str) -> str:
    """Like `normalise_name`, but a single label (a top-level domain) passes too."""
    return normalise_name(f"x.{text}").removeprefix("x.")


def hosts_covering(name: str) -> Iterator[str]:
    """Every host of an entry that would cover a normalised name, the most exact first."""
    yield name
    while "." in name:
        name = name.split(".", 1)[1]
        yield f"*.{name}"


def hosts_covering_all_of(host: str) -> Iterator[str]:
    """Hosts of entries that cover every name that an entry's host covers, the most exact first."""
    covers = hosts_covering(host.removeprefix("*."))
    if host.startswith("*."):
        next(covers)
        yield host
    yield from covers


def in_authority(host: str) -> str:
    """A host as it stands in an authority: an IPv6 address in brackets."""
    return f"[{host}]" if ":" in host else host


def is_reserved(name: str) -> bool:
    """Whether a normalised name stands for the gateway or for the host."""
    return any(name == suffix or name.endswith(f".{suffix}") for suffix in RESERVED_SUFFIXES)


def is_public_suffix(name: str) -> bool:
    """Whether anybody can register or publish below a normalised name (`com`, `co.uk`)."""
    return bool(_suffixes_for(name, only_icann=False).is_public(name))


def is_registry_suffix(name: str) -> bool:
    """Whether the name belongs to a registry (`co.uk`), not to a company that rents out names."""
    return bool(_suffixes_for(name, only_icann=True).is_public(name))


def public_suffix_below(name: str) -> str | None:
    """A public suffix that lies below a normalised name, as `s3.amazonaws.com` does; else None."""
    return _suffixes_below().get(name)


def _normalise_label(label: str) -> str:
    if label.isascii() and not label.startswith("xn--"):
        return label
    try:
        encoded: bytes = idna.alabel(label)
    except idna.IDNAError as error:
        raise MalformedNameError(f"label {label!r} is not valid in IDNA 2008: {error}") from error
    return encoded.decode("ascii")


def _check_lengths(normal: str) -> None:
    labels = normal.split(".")
    if "" in labels:
        raise MalformedNameError("it has an empty label")
    if len(normal) > NAME_MAX:
        raise MalformedNameError(f"it is longer than {NAME_MAX} characters")
    if any(len(label) > LABEL_MAX for label in labels):
        raise MalformedNameError(f"a label is longer than {LABEL_MAX} characters")


@cache
def _suffixes_below() -> dict[str, str]:
    """Names that have public suffixes below them, each with one of those."""
    text = resources.files(publicsuffixlist).joinpath("public_suffix_list.dat").read_text("utf-8")
    below: dict[str, str] = {}
    for line in text.splitlines():
        # A rule may be a wildcard or an exception of one; what follows a blank is no part of it.
        rule = line.split("//")[0].strip().removeprefix("*.").removeprefix("!")
        above = rule.split(".")[1:]
        while len(above) > 1:
            below.setdefault(".".join(above), rule)
            above = above[1:]
    return below


def _suffixes_for(name: str, *, only_icann: bool) -> PublicSuffixList:
    """The list to look a normalised name up in."""
    return _suffixes(only_icann=only_icann, encoded="xn--" in name)


@cache
def _suffixes(*, only_icann: bool, encoded: bool) -> PublicSuffixList:
    """The public suffix list that the library bundles: no look-up, no download.

    Encoding its names takes the library most of the time, and every process reads it: so only
    where a name could match an encoded one.
    """
    return PublicSuffixList(only_icann=only_icann, accept_encoded_idn=encoded)
