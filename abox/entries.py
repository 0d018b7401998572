"""Entries of the allowlist and the denylist: what a person writes, parsed into what is enforced."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any

from abox.addresses import (
    Address,
    Network,
    ends_in_number,
    never_allowed,
    parse_any_literal,
)
from abox.injection import (
    DEFAULT_INJECTION_PORTS,
    ECHOING_METHODS,
    Injection,
    parse_injections,
)
from abox.names import (
    MalformedNameError,
    hosts_covering_all_of,
    is_public_suffix,
    is_registry_suffix,
    is_reserved,
    normalise_name,
    normalise_suffix,
)
from abox.paths import PathPattern
from abox.refusals import UNSHOWN, Refusals, RefusedError, nearest, parse_each

PLAIN_PORT = 80
"""Where HTTP is spoken in the clear."""

DEFAULT_PORTS = (PLAIN_PORT, 443)
"""Ports of an entry that names none."""

PORT_MAX = 65535

SHOWN_KEYS = ("host", "ports", "methods", "paths", "tls")
"""Keys of an entry whose values error texts repeat."""

ENTRY_KEYS = (*SHOWN_KEYS, "inject")
"""Keys of an entry that is a mapping."""

METHODS = ("DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "TRACE")
"""Methods that are common; others that are valid tokens pass too."""

WILDCARD = "*."
"""Begins the host of an entry that covers every name below."""

_TOKEN = re.compile(r"[A-Z0-9!#$%&'*+.^_`|~-]{1,32}")
_NAME_REMEDY = "write a name as in 'api.example.com' or '*.example.com'"


class Way(StrEnum):
    """How the TLS of an entry passes."""

    INTERCEPT = "intercept"
    """Ended at the gateway, so that every request inside is judged."""
    PASSTHROUGH = "passthrough"
    """Unseen: judged by CONNECT name, server name and address alone."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One entry of the allowlist, normalised."""

    host: str
    """An exact name, a wildcard (`*.` and a name), or the canonical text of an address."""
    ports: tuple[int, ...] = DEFAULT_PORTS
    """Destination ports, sorted."""
    methods: tuple[str, ...] = ()
    """HTTP methods in upper case, sorted; empty: all."""
    paths: tuple[str, ...] = ()
    """Path patterns (see `abox.paths`), sorted; empty: all."""
    tls: Way | None = None
    """How its TLS passes; None: as `tls_interception` says."""
    inject: tuple[Injection, ...] = ()
    """Headers that the gateway puts on requests, which then pass over TLS only."""

    @property
    def is_wildcard(self) -> bool:
        """Whether the entry covers the names below its host, and not the host itself."""
        return self.host.startswith(WILDCARD)

    @property
    def name(self) -> str:
        """The host without its `*.`."""
        return self.host.removeprefix(WILDCARD)

    @property
    def literal(self) -> Address | None:
        """The address, if the host is one."""
        return parse_any_literal(self.host)

    def allows_method(self, method: str) -> bool:
        """Whether a request with this method passes."""
        if self.inject and re.fullmatch(ECHOING_METHODS, method):
            return False
        return not self.methods or method in self.methods

    def allows_path(self, normalised: str) -> bool:
        """Whether a request for this normalised path passes."""
        return not self.paths or any(pattern.matches(normalised) for pattern in self.patterns)

    def covers(self, other: Entry) -> bool:
        """Whether every request that the other entry allows is allowed by this one too."""
        return (
            self.host == other.host
            and set(other.ports) <= set(self.ports)
            and (
                not self.methods
                or (bool(other.methods) and set(other.methods) <= set(self.methods))
            )
            and (not self.paths or (bool(other.paths) and set(other.paths) <= set(self.paths)))
        )

    @cached_property
    def patterns(self) -> tuple[PathPattern, ...]:
        """The path patterns, parsed."""
        return tuple(PathPattern.parse(path) for path in self.paths)

    def to_document(self) -> dict[str, Any]:
        """The entry as a JSON object; what isn't limited or set is left out, the ports apart."""
        document: dict[str, Any] = {"host": self.host, "ports": list(self.ports)}
        if self.methods:
            document["methods"] = list(self.methods)
        if self.paths:
            document["paths"] = list(self.paths)
        if self.tls:
            document["tls"] = self.tls.value
        if self.inject:
            document["inject"] = [injection.to_document() for injection in self.inject]
        return document

    def __str__(self) -> str:
        parts = [self.host]
        parts += [f"ports {_joined(self.ports)}"] if self.ports != DEFAULT_PORTS else []
        parts += [_joined(self.methods)] if self.methods else []
        parts += [_joined(self.paths)] if self.paths else []
        parts += [f"tls {self.tls.value}"] if self.tls else []
        return " ".join(parts)


@dataclass(frozen=True, kw_only=True)
class Around:
    """What an entry is judged by beside itself; the defaults judge nothing."""

    cidrs: Sequence[Network] = ()
    """Allowed CIDRs; an address is only an entry if one of them covers it."""
    tls_interception: bool = True
    """Whether anything inside TLS can be seen."""
    denied: Collection[str] = ()
    """Hosts of the denylist."""
    secret_names: Collection[str] | None = None
    """Names below `abox:secrets`; None where they aren't known."""


def parse_entries(
    raw: Sequence[object], path: str, around: Around | None = None
) -> tuple[Entry, ...]:
    """Entries of an allowlist; one that repeats another is dropped.

    Args:
        raw: the list as written.
        path: where it stands, for error texts, for example `abox:sandbox.allow`.
        around: what they are judged by.

    Raises: AboxErrors with every refused entry, positions counted in the list as written.
    """
    injecting: list[Entry] = []

    def parse(item: object) -> Entry:
        entry = _parse_entry(item, around or Around())
        if entry.inject:
            _check_reached(entry, injecting)
            injecting.append(entry)
        return entry

    return parse_each(raw, path, parse, show=_shown)


def _shown(item: object) -> object:
    """An entry for an error text: where it is odd, a secret may stand in it in the wrong place."""
    if not isinstance(item, Mapping):
        return item
    return {key: item[key] if key in SHOWN_KEYS else "…" for key in item}


def parse_denied(raw: Sequence[object], path: str) -> tuple[str, ...]:
    """Hosts of a denylist: exact names and wildcards; one that repeats another is dropped.

    Raises: AboxErrors with every refused entry, positions counted in the list as written.
    """
    return parse_each(raw, path, _parse_denied)


def _parse_entry(item: object, around: Around) -> Entry:
    if isinstance(item, str):
        return Entry(host=_parse_host(item, around.cidrs))
    if not isinstance(item, Mapping):
        raise RefusedError(
            "an entry is a name or a mapping with the key host",
            'write for example "example.com" or {host: example.com, ports: [443]}',
        )
    _check_keys(item)
    if not isinstance(host := item["host"], str):
        raise RefusedError("a host is text", 'write for example "example.com"', key=".host")
    default_ports = DEFAULT_INJECTION_PORTS if "inject" in item else DEFAULT_PORTS
    refusals = Refusals()
    parsed_host = refusals.attempt(lambda: _parse_host(host, around.cidrs))
    ports = refusals.attempt(lambda: _parse_ports(item.get("ports", list(default_ports))))
    methods = refusals.attempt(lambda: _parse_methods(item.get("methods", [])))
    paths = refusals.attempt(lambda: _parse_paths(item.get("paths", [])))
    tls = refusals.attempt(lambda: _parse_tls(item.get("tls")))
    if methods or paths:
        refusals.attempt(lambda: _check_seen(tls, around))
    inject: tuple[Injection, ...] | None = ()
    if "inject" in item:
        inject = refusals.attempt(lambda: parse_injections(item["inject"], around.secret_names))
        refusals.attempt(lambda: _check_injectable(parsed_host or "", tls, around))
        refusals.attempt(lambda: _check_no_plain_port(ports or ()))
        refusals.attempt(lambda: _check_no_echo(methods or ()))
    refusals.raise_all()
    return Entry(
        host=parsed_host or "",
        ports=ports or (),
        methods=methods or (),
        paths=paths or (),
        tls=tls,
        inject=inject or (),
    )


def _parse_tls(raw: object) -> Way | None:
    if raw is None:
        return None
    if isinstance(raw, str) and raw in set(Way):
        return Way(raw)
    raise RefusedError(
        "it says neither that TLS is looked into nor that it passes unseen",
        f"write {' or '.join(f'tls: {way}' for way in Way)}",
        key=".tls",
        value=raw,
    )


def _unseen(tls: Way | None, around: Around) -> str | None:
    """The setting by which the entry's TLS passes unseen, if one does."""
    if tls is Way.PASSTHROUGH:
        return f"tls: {Way.PASSTHROUGH}"
    return "tls_interception: false" if tls is None and not around.tls_interception else None


def _check_seen(tls: Way | None, around: Around) -> None:
    if unseen := _unseen(tls, around):
        raise RefusedError(
            f"methods and paths inside TLS can't be seen with {unseen}",
            f"allow the whole host, or write tls: {Way.INTERCEPT}",
        )


def _check_injectable(host: str, tls: Way | None, around: Around) -> None:
    """Refuse an injection that could never happen."""
    covers = hosts_covering_all_of(host)
    denied = next((cover for cover in covers if cover in around.denied), None)
    if denied:
        raise RefusedError(
            f"the denylist holds {denied!r}, and deny beats allow: no request would get the secret",
            f"take {denied!r} out of deny, or the entry out of allow",
            key=".inject",
            value=UNSHOWN,
        )
    if unseen := _unseen(tls, around):
        raise RefusedError(
            f"with {unseen} the gateway can't put anything on requests inside TLS",
            f"write tls: {Way.INTERCEPT} for the entry, or remove inject",
            key=".inject",
            value=UNSHOWN,
        )
    if parse_any_literal(host) is not None:
        raise RefusedError(
            "a secret goes out over TLS only, and clients name no address in a TLS handshake",
            "write the origin's name",
            key=".inject",
            value=UNSHOWN,
        )


def _check_no_plain_port(ports: Sequence[int]) -> None:
    """Refuse the port at which every client speaks in the clear."""
    if PLAIN_PORT in ports:
        raise RefusedError(
            f"port {PLAIN_PORT} is for HTTP in the clear, and a secret goes out over TLS only",
            f"leave port {PLAIN_PORT} out, or give it to an entry without inject",
            key=".ports",
            value=list(ports),
        )


def _check_no_echo(methods: Sequence[str]) -> None:
    """Refuse methods that would show the secret to the agent."""
    if any(re.fullmatch(ECHOING_METHODS, method) for method in methods):
        raise RefusedError(
            "TRACE has the origin repeat the request, and the secret with it",
            "leave TRACE out, or give it to an entry without inject",
            key=".methods",
            value=list(methods),
        )


def _check_reached(entry: Entry, before: Sequence[Entry]) -> None:
    """Refuse an injection that another always comes before."""
    for other in before:
        if other != entry and other.covers(entry):
            raise RefusedError(
                "an entry above decides on every request that this one allows",
                "put this one above it, or write both headers in one entry: "
                "inject: [{header: …, secret: …}, {header: …, secret: …}]",
                key=".inject",
                value=UNSHOWN,
            )


def _check_keys(item: Mapping[Any, object]) -> None:
    for key in item:
        if key not in ENTRY_KEYS:
            raise RefusedError(f"the key {key!r} is unknown", nearest(str(key), ENTRY_KEYS))
    if "host" not in item:
        raise RefusedError("the key 'host' is missing", "add for example host: example.com")


def _parse_host(text: str, cidrs: Sequence[Network]) -> str:
    if (address := parse_any_literal(text)) is not None:
        return _parse_literal(text, address, cidrs)
    _check_shape(text)
    return _parse_wildcard(text) if text.startswith(WILDCARD) else _parse_exact(text)


def _parse_exact(text: str) -> str:
    name = _parse_name(text, normalise_suffix)
    _check_reserved(name)
    if is_registry_suffix(name) or "." not in name:
        raise RefusedError(
            "it is a top-level domain or a public suffix, not the name of a site",
            f"name the host, for example 'www.example.{name}'",
        )
    return name


def _parse_wildcard(text: str) -> str:
    name = _parse_name(text.removeprefix(WILDCARD), normalise_suffix)
    _check_reserved(name)
    if is_public_suffix(name) or "." not in name:
        raise RefusedError(
            "it covers a public suffix: anybody can get a name below it",
            f"name the domain, for example '*.example.{name}'",
        )
    return f"{WILDCARD}{name}"


def _parse_denied(item: object) -> str:
    if not isinstance(item, str):
        raise RefusedError("an entry of the denylist is a name", 'write for example "example.com"')
    if parse_any_literal(item) is not None:
        raise RefusedError(
            "the denylist judges names; it can't know every name of an address",
            "deny the names; a private address is refused unless allow_private_cidrs has it",
        )
    _check_shape(item)
    if not item.startswith(WILDCARD):
        name = _parse_name(item, normalise_name)
        _check_reserved(name)
        return name
    name = _parse_name(item.removeprefix(WILDCARD), normalise_suffix)
    _check_reserved(name)
    return f"{WILDCARD}{name}"


def _parse_literal(text: str, address: Address, cidrs: Sequence[Network]) -> str:
    if text != str(address):
        raise RefusedError(
            f"it can be read as the address {address} and as something else",
            "write a name, or the address in its usual form",
        )
    if never := never_allowed(address):
        raise RefusedError(f"{address} is {never}, which no setting opens", "write a name")
    if not any(cidr.version == address.version and address in cidr for cidr in cidrs):
        raise RefusedError(
            "an address is only allowed if allow_private_cidrs covers it",
            f"write a name, or add {address}/{address.max_prefixlen} to allow_private_cidrs",
        )
    return str(address)


def _check_shape(text: str) -> None:
    """Refuse with a fitting remedy what people write instead of a name."""
    for wrong, why, remedy in _SHAPES:
        if wrong(text):
            raise RefusedError(why, remedy)


_SHAPES: tuple[tuple[Callable[[str], bool], str, str], ...] = (
    (
        lambda text: text in ("", "*", "*."),
        "it names nothing, or everything",
        "name the hosts; to see which are needed, use mode: passive",
    ),
    (
        lambda text: any(char.isspace() or not char.isprintable() for char in text),
        "a name holds no blanks and no control characters",
        "write one name for each entry",
    ),
    (
        lambda text: "://" in text,
        "it is a URL, not a name",
        "write the name alone; ports and paths have keys of their own",
    ),
    (
        lambda text: "/" in text,
        "a name holds no '/'",
        "write {host: …, paths: [/…]} for a path; networks belong in allow_private_cidrs",
    ),
    (
        lambda text: ":" in text,
        "a name holds no ':'",
        "write {host: example.com, ports: [443]} for a port",
    ),
    (
        lambda text: "*" in text.removeprefix(WILDCARD),
        "'*' is only allowed as the whole first label",
        "write '*.example.com' for every name below example.com",
    ),
    (
        ends_in_number,
        "its last label is a number, so programs take it for an address",
        "write a name",
    ),
)


def _parse_name(text: str, normalise: Callable[[str], str]) -> str:
    try:
        return normalise(text)
    except MalformedNameError as error:
        raise RefusedError(f"it is no host name: {error}", _NAME_REMEDY) from error


def _check_reserved(name: str) -> None:
    if is_reserved(name):
        raise RefusedError(
            "the name stands for the gateway or for the host, which the agent may not reach",
            "remove it; the health name answers without being listed",
        )


def _parse_ports(raw: object) -> tuple[int, ...]:
    ports = _as_list(raw, ".ports", "ports", "[443]")
    parsed = {_parse_port(port) for port in ports}
    return tuple(sorted(parsed))


def _parse_port(raw: object) -> int:
    port = int(raw) if isinstance(raw, float) and raw.is_integer() else raw
    if isinstance(port, bool) or not isinstance(port, int) or not 1 <= port <= PORT_MAX:
        raise RefusedError(
            f"a port is a number from 1 to {PORT_MAX}",
            "write for example ports: [443]",
            key=".ports",
            value=raw,
        )
    return port


def _parse_methods(raw: object) -> tuple[str, ...]:
    if raw == []:
        return ()
    return tuple(
        sorted({_parse_method(m) for m in _as_list(raw, ".methods", "methods", "[GET, HEAD]")})
    )


def _parse_method(raw: object) -> str:
    if not isinstance(raw, str) or not _TOKEN.fullmatch(raw) or raw == "CONNECT":
        raise RefusedError(
            "a method is an HTTP method in upper case; CONNECT is judged by name and port",
            f"write for example {', '.join(METHODS[:3])}",
            key=".methods",
            value=raw,
        )
    return raw


def _parse_paths(raw: object) -> tuple[str, ...]:
    if raw == []:
        return ()
    return tuple(
        sorted({_parse_path(path) for path in _as_list(raw, ".paths", "paths", '["/v1/*"]')})
    )


def _parse_path(raw: object) -> str:
    try:
        return PathPattern.parse(raw if isinstance(raw, str) else "").text
    except ValueError as error:
        raise RefusedError(
            f"as a path pattern {error}", 'write for example "/v1/*"', key=".paths", value=raw
        ) from error


def _as_list(raw: object, key: str, noun: str, example: str) -> Sequence[object]:
    if not isinstance(raw, (list, tuple)) or not raw:
        raise RefusedError(
            f"{noun} are a list with at least one member; leave the key out for the default",
            f"write for example {noun}: {example}",
            key=key,
            value=raw,
        )
    return raw


def _joined(values: Sequence[object]) -> str:
    return ",".join(map(str, values))
