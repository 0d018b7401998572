"""Envoy's routes: the allowlist as virtual hosts, replaced while Envoy runs.

The same policy is rendered twice: for the proxy port (absolute-form requests and CONNECT) and for
the listener inside an intercepted tunnel. A virtual host stands for one host of the policy, so it
holds the routes of every entry that covers this host; Envoy picks the most exact one. Ports,
methods and paths are route matchers on what the Lua filter found (see ``abox.render.envoy_lua``).
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from abox.addresses import Network, ends_in_number
from abox.allowlist import (
    HEALTH_NAME,
    HEALTH_PORTS,
    RULE_PASSIVE,
    Entry,
    Mode,
    Policy,
    Reason,
    Way,
)
from abox.entries import WILDCARD
from abox.injection import ECHOING_METHODS, Injection
from abox.name_shape import RESERVED_SUFFIXES, WILDCARD_NAME_MAX
from abox.names import hosts_covering_all_of, in_authority
from abox.render.addresses import refused_networks
from abox.render.envoy_gate import GATE
from abox.render.envoy_lua import (
    KIND_CONNECT,
    KIND_HTTP,
    KIND_TLS,
    LONG,
    MARK,
    NAME,
    PATH,
    PORT,
    PRIVATE_HEADERS,
)
from abox.render.envoy_types import Json, any_of, discovery_response

CLUSTER_PLAIN = "origin_plain"
CLUSTER_TLS = "origin_tls"
CLUSTER_TLS_HTTP1 = "origin_tls_http1"
"""For upgrades: an origin that speaks HTTP/2 rarely takes a WebSocket over it."""
CLUSTER_INTERCEPT = "intercept"
CLUSTER_TUNNEL = "tunnel"
CLUSTER_DIAL = "dial"
CLUSTER_RESOLVE = "resolve"
"""Where a tunnel that isn't intercepted leads while its address is judged: it dials nobody."""

RBAC_FILTER = "envoy.filters.http.rbac"
METADATA = "abox"
"""Namespace of the routes' metadata: reason, message, rule and way."""
WAY = "way"
"""Metadata of a route that leads through the gate: the cluster behind it."""

JUDGED_STATE = "abox.judged"
"""Filter state of a request whose address was judged, or that dials none."""
JUDGED = "yes"

HEALTH_BODY = "ok\n"


@dataclass(frozen=True, kw_only=True)
class Origins:
    """What requests to origins depend on beside the policy; another one is other clusters."""

    digests: Mapping[str, str] = field(default_factory=dict)
    """Digests of the values that entries inject, by the secrets' names."""
    authorities: str = ""
    """Digest of the authorities that are trusted beside the public roots; empty for none."""

    def suffix(self, inject: Sequence[Injection] = ()) -> str:
        """End of the name of the clusters inside TLS; empty where the usual ones will do.

        What is put on a request and who may answer it changes together with the route, and no pool
        of connections serves both before and after.

        Args:
            inject: what an entry puts on requests.
        """
        if not inject and not self.authorities:
            return ""
        parts = [[one.key, one.secret, self.digests[one.secret]] for one in inject]
        text = json.dumps([self.authorities, *parts])
        return f"/{hashlib.sha256(text.encode()).hexdigest()[:16]}"


USUAL_ORIGINS = Origins()


class Side(StrEnum):
    """Which listener the routes are for."""

    OUTER = "outer"
    INNER = "inner"
    DIAL = "dial"
    """Tunnels that aren't intercepted, at their last step."""


def render_routes(policy: Policy | None, origins: Origins = USUAL_ORIGINS) -> Mapping[Side, str]:
    """The route configurations as discovery responses in JSON, each one line.

    Args:
        policy: None before the first policy: everything but the health name is denied.
        origins: what requests depend on beside the policy.
    Returns: for each listener, text whose ``version_info`` is the SHA-256 of the configuration.
    """
    groups = _grouped(policy) if policy else {}
    rendered = {}
    for side in Side:
        config = _configuration(policy, side, origins, groups)
        resource = any_of("config.route.v3.RouteConfiguration", **config)
        rendered[side] = discovery_response([resource], config)
    return rendered


def route_configuration(
    policy: Policy | None, side: Side, origins: Origins = USUAL_ORIGINS
) -> Json:
    """The route configuration of one side."""
    return _configuration(policy, side, origins, _grouped(policy) if policy else {})


def _configuration(policy: Policy | None, side: Side, origins: Origins, groups: _Groups) -> Json:
    cidrs = policy.allow_private_cidrs if policy else ()
    return {
        "name": side.value,
        "virtual_hosts": list(_virtual_hosts(policy, side, origins, groups)),
        "request_headers_to_remove": [*PRIVATE_HEADERS, *_ADDED_BY_ENVOY],
        "typed_per_filter_config": {RBAC_FILTER: _dial_rule(cidrs)},
        "ignore_port_in_host_matching": True,
    }


_ADDED_BY_ENVOY = ("x-forwarded-proto", "x-envoy-external-address")
"""Fields that Envoy adds by itself; the second holds the agent's address."""


def _virtual_hosts(
    policy: Policy | None, side: Side, origins: Origins, groups: _Groups
) -> Iterator[Json]:
    yield _virtual_host("health", [HEALTH_NAME], _health_routes(side))
    names = [host for suffix in RESERVED_SUFFIXES for host in (suffix, f"*.{suffix}")]
    yield _virtual_host("reserved", names, _deny_all(Reason.RESERVED_NAME))
    if policy is None:
        yield _virtual_host("rest", ["*"], _deny_all(Reason.NO_POLICY))
        return
    for shape, hosts in groups.items():
        yield _virtual_host(hosts[0], hosts, list(_routes_of(policy, shape, side, origins)))
    yield _virtual_host("rest", ["*"], list(_rest_routes(policy, side, origins)))


@dataclass(frozen=True)
class _Shape:
    """All that the routes of a host depend on: hosts of one shape share them."""

    denied: str | None
    """The entry of the denylist that covers the host."""
    entries: tuple[Entry, ...]
    """Those that cover it, the most exact first; without their host where no route names it."""
    is_wildcard: bool
    is_address: bool


_Groups = Mapping[_Shape, list[str]]


def _grouped(policy: Policy) -> _Groups:
    """Hosts by what their routes depend on, so that a long plain list stays one virtual host."""
    groups: dict[_Shape, list[str]] = {}
    for host in sorted({*(entry.host for entry in policy.entries), *policy.deny}):
        groups.setdefault(_shape_of(policy, host), []).append(in_authority(host))
    return groups


def _shape_of(policy: Policy, host: str) -> _Shape:
    covers = list(hosts_covering_all_of(host))
    is_wildcard, is_address = host.startswith(WILDCARD), _is_address(host)
    if denied := policy.denial_among(covers):
        return _Shape(denied, (), is_wildcard, is_address)
    entries = [entry for cover in covers for entry in policy.entries_at(cover)]
    if len(host) > WILDCARD_NAME_MAX and not is_wildcard:
        entries = [entry for entry in entries if not entry.is_wildcard]
    shared = (entry if _rule(entry) else replace(entry, host="") for entry in entries)
    return _Shape(None, tuple(shared), is_wildcard, is_address)


def _is_address(host: str) -> bool:
    return ":" in host or ends_in_number(host)


def _virtual_host(name: str, hosts: Sequence[str], routes: Sequence[Json]) -> Json:
    return {"name": name, "domains": list(hosts), "routes": list(routes)}


def _routes_of(policy: Policy, shape: _Shape, side: Side, origins: Origins) -> Iterator[Json]:
    if shape.denied:
        yield from _deny_all(Reason.DENIED, rule=shape.denied)
        return
    if shape.is_wildcard:
        yield from _too_long_routes(policy, shape.entries)
    for entry in shape.entries:
        yield from _allow_routes(policy, entry, side, origins)
    if policy.mode is Mode.PASSIVE and not shape.is_address:
        yield from _routes_to_origin(
            side, [], policy.usual_way, rule=RULE_PASSIVE, suffix=origins.suffix()
        )
    yield from _near_misses(shape.entries)


def _too_long_routes(policy: Policy, entries: Sequence[Entry]) -> Iterator[Json]:
    """Denials of names that are longer than what a wildcard, or passive mode, covers."""
    if policy.mode is not Mode.PASSIVE and not entries:
        return
    rule = RULE_PASSIVE if policy.mode is Mode.PASSIVE else _rule(entries[0])
    long = {"name": LONG, "present_match": True}
    anything: Json
    for anything in ({"prefix": ""}, {"connect_matcher": {}}):
        yield _deny({**anything, "headers": [long]}, Reason.NAME_TOO_LONG, rule=rule)


def _rest_routes(policy: Policy, side: Side, origins: Origins) -> Iterator[Json]:
    named = {"name": NAME, "present_match": True}
    if policy.mode is Mode.PASSIVE:
        yield from _too_long_routes(policy, ())
        yield from _routes_to_origin(
            side, [named], policy.usual_way, rule=RULE_PASSIVE, suffix=origins.suffix()
        )
    anything: Json
    for anything in ({"prefix": ""}, {"connect_matcher": {}}):
        yield _deny({**anything, "headers": [named]}, Reason.NOT_ALLOWED)
    yield from _deny_all(Reason.ADDRESS_LITERAL)


def _allow_routes(policy: Policy, entry: Entry, side: Side, origins: Origins) -> Iterator[Json]:
    way, suffix = policy.way_of(entry), origins.suffix(entry.inject)
    if not entry.paths and not entry.inject:
        yield from _routes_to_origin(side, _limits(entry), way, rule=_rule(entry), suffix=suffix)
        return
    if side is Side.OUTER:
        yield from _connect_routes(side, _limits(entry)[:1], way, rule=_rule(entry))
    if side is Side.OUTER and entry.inject:  # never in the clear
        return
    for limits in _request_limits(entry):
        yield from _request_routes(side, limits, rule=_rule(entry), suffix=suffix)


def _request_limits(entry: Entry) -> Iterator[list[Json]]:
    """Matchers for a request inside what an entry allows, once for each path pattern."""
    for pattern in entry.patterns:
        path = {"name": PATH, "string_match": {"safe_regex": {"regex": pattern.regex}}}
        yield [*_limits(entry), path]
    if not entry.paths:
        yield _limits(entry)


def _rule(entry: Entry) -> str | None:
    """The entry's text where it says more than the host; a plain entry's rule is its host."""
    text = str(entry)
    return None if text == entry.host else text


def _near_misses(entries: Sequence[Entry]) -> Iterator[Json]:
    """Denials that say which part of the entries was missed, in the order of the verdict."""
    for entry in entries:
        for limits in _request_limits(entry) if entry.inject else ():
            clear = {"prefix": "", "headers": limits}
            yield _deny(clear, Reason.TLS_REQUIRED, rule=_rule(entry))
    for entry in entries:
        if entry.paths:
            limits = _limits(entry)
            absent = {"name": PATH, "present_match": False}
            ambiguous: Json = {"prefix": "", "headers": [*limits, absent]}
            yield _deny(ambiguous, Reason.AMBIGUOUS_PATH, rule=_rule(entry))
            yield _deny({"prefix": "", "headers": limits}, Reason.PATH, rule=_rule(entry))
    for entry in entries:
        if entry.methods or entry.inject:
            port = _one_of(PORT, map(str, entry.ports))
            yield _deny({"prefix": "", "headers": [port]}, Reason.METHOD, rule=_rule(entry))
    yield from _deny_all(Reason.PORT if entries else Reason.NOT_ALLOWED)


def _limits(entry: Entry) -> list[Json]:
    """Matchers for an entry's ports and methods, the ports first."""
    limits = [_one_of(PORT, map(str, entry.ports))]
    if entry.methods:
        limits.append(_one_of(":method", entry.methods))
    elif entry.inject:
        echo = {"safe_regex": {"regex": ECHOING_METHODS}}
        limits.append({"name": ":method", "string_match": echo, "invert_match": True})
    return limits


def _routes_to_origin(
    side: Side, limits: Sequence[Json], way: Way, *, rule: str | None, suffix: str
) -> Iterator[Json]:
    if side is not Side.INNER:
        connect_limits = [limit for limit in limits if limit["name"] in (PORT, NAME)]
        yield from _connect_routes(side, connect_limits, way, rule=rule)
    yield from _request_routes(side, limits, rule=rule, suffix=suffix)


def _connect_routes(
    side: Side, limits: Sequence[Json], way: Way, *, rule: str | None
) -> Iterator[Json]:
    match = _connect_match(limits)
    if side is Side.DIAL:
        if way is Way.PASSTHROUGH:
            yield _route(match, route=_tunnel(CLUSTER_PLAIN), rule=rule)
    elif way is Way.INTERCEPT:
        yield _route(match, route=_tunnel(GATE), rule=rule, dials=False, way=CLUSTER_INTERCEPT)
    else:
        yield _route(_judged(match), route=_tunnel(GATE), rule=rule, dials=False)
        yield _route(match, route=_tunnel(CLUSTER_RESOLVE), rule=rule, way=CLUSTER_TUNNEL)


def _connect_match(limits: Sequence[Json]) -> Json:
    return {"connect_matcher": {}, "headers": [_exact(MARK, KIND_CONNECT), *limits]}


def _tunnel(cluster: str) -> Json:
    return {
        "cluster": cluster,
        "timeout": "0s",
        "upgrade_configs": [{"upgrade_type": "CONNECT", "connect_config": {}}],
    }


def _judged(match: Json) -> Json:
    """The same requests, once their address was judged."""
    return {**match, "filter_state": [{"key": JUDGED_STATE, "string_match": {"exact": JUDGED}}]}


def _request_routes(
    side: Side, limits: Sequence[Json], *, rule: str | None, suffix: str
) -> Iterator[Json]:
    if side is Side.OUTER:
        match: Json = {"prefix": "/", "headers": [_exact(MARK, KIND_HTTP), *limits]}
        yield _route(_judged(match), route=_to(GATE), rule=rule, dials=False)
        yield _route(match, route=_to(CLUSTER_PLAIN), rule=rule, way=CLUSTER_PLAIN)
    elif side is Side.INNER:
        headers = [_exact(MARK, KIND_TLS), *limits]
        upgrade = {"prefix": "/", "headers": [*headers, {"name": "upgrade", "present_match": True}]}
        yield _route(upgrade, route=_to(CLUSTER_TLS_HTTP1 + suffix), rule=rule)
        plain = {"prefix": "/", "headers": headers}
        yield _route(plain, route=_to(CLUSTER_TLS + suffix), rule=rule)


def _to(cluster: str) -> Json:
    return {"cluster": cluster, "timeout": "0s"}


def _health_routes(side: Side) -> list[Json]:
    if side is Side.DIAL:
        return _deny_all(Reason.RESERVED_NAME)
    port = _one_of(PORT, map(str, HEALTH_PORTS))
    kind = KIND_HTTP if side is Side.OUTER else KIND_TLS
    answer = _route(
        {"prefix": "/", "headers": [_exact(MARK, kind), port]},
        direct_response={"status": 200, "body": {"inline_string": HEALTH_BODY}},
        rule=HEALTH_NAME,
        dials=False,
    )
    if side is Side.INNER:
        return [answer, *_deny_all(Reason.PORT)]
    match = _connect_match([port])
    connect = _route(match, route=_tunnel(CLUSTER_INTERCEPT), rule=HEALTH_NAME, dials=False)
    return [connect, answer, *_deny_all(Reason.PORT)]


def _deny_all(reason: Reason, *, rule: str | None = None) -> list[Json]:
    """Routes that refuse whatever gets to them; a CONNECT has no path, so it takes its own."""
    anything: list[Json] = [{"prefix": ""}, {"connect_matcher": {}}]
    return [_deny(match, reason, rule=rule) for match in anything]


def _deny(match: Json, reason: Reason, *, rule: str | None = None) -> Json:
    return _route(match, direct_response={"status": 403}, reason=reason, rule=rule, dials=False)


def _route(
    match: Json,
    *,
    rule: str | None,
    reason: Reason | None = None,
    way: str | None = None,
    dials: bool = True,
    **action: Json,
) -> Json:
    """One route.

    Args:
        match: which requests.
        rule: entry of the policy, for log and refusal.
        reason: why the request is denied; None if it is allowed.
        way: where it leads behind the gate; None for what doesn't pass there.
        dials: whether the route leads to an address, which is judged then.
        action: ``route`` or ``direct_response``.
    """
    fields = {"reason": reason.value, "message": reason.text} if reason else {}
    fields |= {key: text for key, text in (("rule", rule), (WAY, way)) if text is not None}
    route: Json = {"match": match, **action}
    if fields:
        route["metadata"] = {"filter_metadata": {METADATA: fields}}
    if not dials:
        route["typed_per_filter_config"] = {RBAC_FILTER: _NO_DIAL}
    return route


_NO_DIAL = any_of("extensions.filters.http.rbac.v3.RBACPerRoute")
"""No address is judged on this route, since none is dialled.

Never written as ``disabled: true``: Envoy drops a disabled filter when the request arrives, and at
that time every request is on a route that denies, so the filter would be gone for good (tried).
"""


def _exact(name: str, value: str) -> Json:
    return {"name": name, "string_match": {"exact": value}}


def _one_of(name: str, values: Iterable[str]) -> Json:
    texts = list(values)
    if len(texts) == 1:
        return _exact(name, texts[0])
    regex = "|".join(re.escape(text) for text in texts)
    return {"name": name, "string_match": {"safe_regex": {"regex": regex}}}


def _dial_rule(cidrs: Sequence[Network]) -> Json:
    """Which addresses may be dialled: what is proven not to lie in a refused network.

    Each family first asks for an address of its own, so that a request without a resolved address
    is denied. Both halves stand for "all": a range of length 0 could match the other family too.
    """
    families = [
        {
            "and_rules": {
                "rules": [
                    {"or_rules": {"rules": [_upstream(half, 1) for half in halves]}},
                    {"not_rule": {"or_rules": {"rules": _upstreams(refused_networks(v, cidrs))}}},
                ]
            }
        }
        for v, halves in ((4, ("0.0.0.0", "128.0.0.0")), (6, ("::", "8000::")))  # noqa: S104
    ]
    policy = {"permissions": [{"or_rules": {"rules": families}}], "principals": [{"any": True}]}
    rules = {"action": "ALLOW", "policies": {"dial": policy}}
    return any_of("extensions.filters.http.rbac.v3.RBACPerRoute", rbac={"rules": rules})


def _upstreams(networks: Iterable[Network]) -> list[Json]:
    return [_upstream(str(n.network_address), n.prefixlen) for n in networks]


def _upstream(address: str, prefix_len: int) -> Json:
    matcher = any_of(
        "extensions.rbac.matchers.upstream_ip_port.v3.UpstreamIpPortMatcher",
        upstream_ip={"address_prefix": address, "prefix_len": prefix_len},
    )
    return {"matcher": {"name": "address", "typed_config": matcher}}
