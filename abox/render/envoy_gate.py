"""Envoy's gate: the internal listener with one filter chain a scope (see ``abox.gates``).

What passes it was judged by the proxy port's routes. The gate copies bytes and is there to be
closed: when a new version of it lacks a chain, Envoy closes that chain's connections and no other.
Where a connection leads on is told by the proxy port with it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from abox.gates import Gates, Scope
from abox.names import in_authority
from abox.narrowing import REST
from abox.render.envoy_lua import CONNECT_NAME_STATE, CONNECT_STATE, PART_STATE, PORT_STATE
from abox.render.envoy_types import Json, any_of, discovery_response, extension

GATE = "gate"
"""Name of the listener and of the cluster that leads to it."""

BUFFER_BYTES = 256 * 1024
"""Bytes buffered per connection and direction before the other side is slowed down."""

_NOWHERE = "none"
"""Where a connection leads that nobody told: there is no such cluster."""


def render_gate(gates: Gates) -> str:
    """The gate as a discovery response in JSON, one line.

    Returns: text whose ``version_info`` is the SHA-256 of the listener; without scopes there is no
        listener, and nothing passes.
    """
    listener = gate_listener(gates)
    resources = [any_of("config.listener.v3.Listener", **listener)] if listener else []
    return discovery_response(resources, listener)


def gate_listener(gates: Gates) -> Json | None:
    """The listener; None if it would have no chain."""
    if not gates.since:
        return None
    names = {scope: f"{scope}@{change}" for scope, change in sorted(gates.since.items())}
    return {
        "name": GATE,
        "internal_listener": {},
        "per_connection_buffer_limit_bytes": BUFFER_BYTES,
        "filter_chain_matcher": _matcher(names),
        "filter_chains": [{"name": name, "filters": [_CHAIN]} for name in names.values()],
    }


_CHAIN = extension(
    "envoy.filters.network.tcp_proxy",
    "extensions.filters.network.tcp_proxy.v3.TcpProxy",
    stat_prefix=GATE,
    cluster=_NOWHERE,
    idle_timeout="0s",
)
"""The streams that a connection carries have time limits of their own."""

_Names = Mapping[Scope, str]


def _matcher(names: _Names) -> Json:
    """Finds the chain: by name and port, by wildcard, by what the name's hash begins with."""
    exact = {scope: name for scope, name in names.items() if not _is_open(scope)}
    wild = {scope: name for scope, name in names.items() if scope.is_wildcard}
    rest = {scope: name for scope, name in names.items() if scope.host == REST}
    found: Json = _by_part(rest) if rest else {}
    if wild:
        domains = [
            {"domains": [host], "on_match": {"matcher": _by_port(members)}}
            for host, members in _grouped(wild).items()
        ]
        found = _tree(CONNECT_NAME_STATE, custom_match=_domains(domains)) | _otherwise(found)
    if exact:
        actions = {f"{in_authority(s.host)}:{s.port}": _chain(name) for s, name in exact.items()}
        found = _tree(CONNECT_STATE, exact_match_map={"map": actions}) | _otherwise(found)
    return found


def _is_open(scope: Scope) -> bool:
    """Whether a scope holds more than one name."""
    return scope.is_wildcard or scope.host == REST


def _grouped(names: _Names) -> Mapping[str, dict[Scope, str]]:
    groups: dict[str, dict[Scope, str]] = defaultdict(dict)
    for scope, name in names.items():
        groups[scope.host][scope] = name
    return groups


def _by_port(names: _Names) -> Json:
    ports: dict[int, dict[Scope, str]] = defaultdict(dict)
    for scope, name in names.items():
        ports[scope.port][scope] = name
    actions = {str(port): {"matcher": _by_part(members)} for port, members in ports.items()}
    return _tree(PORT_STATE, exact_match_map={"map": actions})


def _by_part(names: _Names) -> Json:
    whole = [name for scope, name in names.items() if not scope.part]
    parts = {scope.part: _chain(name) for scope, name in names.items() if scope.part}
    otherwise = {"on_no_match": _chain(whole[0])} if whole else {}
    if not parts:
        return otherwise
    return _tree(PART_STATE, prefix_match_map={"map": parts}) | otherwise


def _tree(state: str, **match: Json) -> Json:
    value = extension(
        state, "extensions.matching.common_inputs.network.v3.FilterStateInput", key=state
    )
    return {"matcher_tree": {"input": value, **match}}


def _otherwise(matcher: Json) -> Json:
    return {"on_no_match": {"matcher": matcher}} if matcher else {}


def _domains(matchers: Iterable[Json]) -> Json:
    kind = "type.googleapis.com/xds.type.matcher.v3.ServerNameMatcher"
    return {
        "name": "domains",
        "typed_config": {"@type": kind, "domain_matchers": list(matchers)},
    }


def _chain(name: str) -> Json:
    kind = "type.googleapis.com/google.protobuf.StringValue"
    return {"action": {"name": name, "typed_config": {"@type": kind, "value": name}}}
