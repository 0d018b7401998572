"""Envoy's matching of routes, in few lines, and the real Lua scripts on top of it.

As the documentation of Envoy's route configuration has it: the virtual host with the most exact
domain, then its first route whose matchers all hold.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from lupa import luajit21

from abox.allowlist import Policy
from abox.render.envoy_gate import GATE
from abox.render.envoy_lua import INNER_SCRIPT, OUTER_SCRIPT
from abox.render.envoy_origins import origin_clusters
from abox.render.envoy_routes import (
    JUDGED,
    JUDGED_STATE,
    METADATA,
    WAY,
    Origins,
    Side,
    route_configuration,
)

HARNESS = """
function run(script, state)
  local env = setmetatable({}, {__index = _G})
  local chunk = loadstring(script)
  setfenv(chunk, env)
  chunk()
  local meta = {set = function() end, get = function() return nil end}
  local headers = {
    get = function(_, key) return state.get(key) end,
    replace = function(_, key, value) state.put(key, value) end,
    remove = function(_, key) state.remove(key) end,
  }
  local states = {get = function(_, key) return state.shared(key) end}
  local info = {
    dynamicMetadata = function() return meta end,
    filterState = function() return states end,
    requestedServerName = function() return state.server_name end,
  }
  local handle = {
    headers = function() return headers end,
    streamInfo = function() return info end,
    clearRouteCache = function() end,
  }
  env.envoy_on_request(handle)
end
"""

_LUA = luajit21.LuaRuntime(unpack_returned_tuples=True, encoding="latin-1")
_LUA.execute(HARNESS)


@dataclass
class Message:
    """A request as the script sees it."""

    headers: dict[str, str]
    server_name: str = ""
    connect: str | None = None
    """The CONNECT authority that the tunnel was opened for."""

    def get(self, key: str) -> str | None:
        """A header's value."""
        return self.headers.get(key)

    def put(self, key: str, value: str) -> None:
        """Set a header."""
        self.headers[key] = value

    def remove(self, key: str) -> None:
        """Drop a header."""
        self.headers.pop(key, None)

    def shared(self, _key: str) -> str | None:
        """Filter state of the connection."""
        return self.connect


def mark(script: str, message: Message) -> dict[str, str]:
    """Run a script; the headers as it leaves them."""
    _LUA.globals().run(script, message)
    return message.headers


@dataclass(frozen=True)
class Outcome:
    """Where a request ends."""

    cluster: str = ""
    """The one behind the gate, if it passes there."""
    secrets: tuple[str, ...] = ()
    """Names of the secrets that are put on it."""
    reason: str = ""
    status: int = 0


@dataclass
class Proxy:
    """A policy's routes for both listeners."""

    policy: Policy | None
    tables: dict[Side, dict[str, Any]] = field(default_factory=dict)
    injecting: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Clusters that put secrets on requests, and the secrets' names."""

    def __post_init__(self) -> None:
        names = self.policy.secret_names if self.policy else ()
        digests = {name: name.encode().hex() for name in names}
        origins = Origins(digests=digests)
        self.tables = {side: route_configuration(self.policy, side, origins) for side in Side}
        clusters = origin_clusters(self.policy, origins)
        self.injecting = {cluster["name"]: _secrets_of(cluster) for cluster in clusters}

    def plain(self, authority: str, method: str = "GET", path: str = "/") -> Outcome:
        """An absolute-form request, or a CONNECT."""
        headers = {":method": method, ":authority": authority, ":scheme": "http", ":path": path}
        if method == "CONNECT":
            del headers[":path"]
        return self._route(Side.OUTER, mark(OUTER_SCRIPT, Message(headers)))

    def inside(self, connect: str, method: str = "GET", path: str = "/") -> Outcome:
        """A request inside the tunnel for a CONNECT authority, all names in agreement."""
        name, _, port = connect.lower().removesuffix(".").rpartition(":")
        authority = name if port == "443" else connect
        headers = {":method": method, ":authority": authority, ":scheme": "https", ":path": path}
        literal = name.startswith("[") or re.fullmatch(r"[\d.]+", name)
        message = Message(headers, "" if literal else name, f"{name}:{port}")
        return self._route(Side.INNER, mark(INNER_SCRIPT, message))

    def _route(self, side: Side, headers: dict[str, str]) -> Outcome:
        first = self._first(side, headers, {})
        way = first.get("metadata", {}).get("filter_metadata", {}).get(METADATA, {}).get(WAY)
        if way is None:
            return self._outcome(first, headers["x-abox-judged"])
        last = self._first(side, headers, {JUDGED_STATE: JUDGED})
        assert last["route"]["cluster"] == GATE, "what was judged leaves through the gate"
        return Outcome(cluster=way)

    def _first(self, side: Side, headers: dict[str, str], states: dict[str, str]) -> dict[str, Any]:
        routes = self._virtual_host(side, headers[":authority"])["routes"]
        found = (route for route in routes if _matches(route["match"], headers, states))
        return next(found, {})

    def _outcome(self, route: dict[str, Any], reason: str) -> Outcome:
        if not route:
            return Outcome(reason="no route", status=404)
        if "route" in route:
            cluster = str(route["route"]["cluster"])
            secrets = self.injecting[cluster] if "/" in cluster else ()
            return Outcome(cluster=cluster, secrets=secrets)
        if route["direct_response"]["status"] == 200:
            return Outcome(status=200)
        told = route["metadata"]["filter_metadata"][METADATA]["reason"]
        marked = reason not in ("http", "connect", "tls")
        return Outcome(reason=reason if marked else told, status=403)

    def _virtual_host(self, side: Side, authority: str) -> dict[str, Any]:
        name = re.sub(r":\d*$", "", authority).lower()
        hosts = self.tables[side]["virtual_hosts"]
        by_domain = {domain: host for host in hosts for domain in host["domains"]}
        assert len(by_domain) == sum(len(host["domains"]) for host in hosts), "domains are unique"
        if name in by_domain:
            return dict(by_domain[name])
        suffixes = [d for d in by_domain if d.startswith("*.") and name.endswith(d[1:])]
        suffixes = [d for d in suffixes if len(name) > len(d) - 1]
        return dict(by_domain[max(suffixes, key=len) if suffixes else "*"])


def _secrets_of(cluster: dict[str, Any]) -> tuple[str, ...]:
    """Names of the secrets that a cluster's filters put on."""
    (options,) = cluster["typed_extension_protocol_options"].values()
    filters = [one["typed_config"] for one in options["http_filters"]]
    injectors = [one["credential"]["typed_config"] for one in filters if "credential" in one]
    return tuple(one["credential"]["name"].split(".")[0] for one in injectors)


def _matches(match: dict[str, Any], headers: dict[str, str], states: dict[str, str]) -> bool:
    if not all(_header_matches(m, headers) for m in match.get("headers", ())):
        return False
    for state in match.get("filter_state", ()):
        if states.get(state["key"]) != state["string_match"]["exact"]:
            return False
    if "connect_matcher" in match:
        return headers[":method"] == "CONNECT"
    return ":path" in headers and headers[":path"].startswith(match["prefix"])


def _header_matches(matcher: dict[str, Any], headers: dict[str, str]) -> bool:
    value = headers.get(matcher["name"])
    if "present_match" in matcher:
        return bool((value is not None) == matcher["present_match"])
    if value is None:
        return False
    wanted = matcher["string_match"]
    if "exact" in wanted:
        return bool(value == wanted["exact"])
    found = re.fullmatch(wanted["safe_regex"]["regex"], value) is not None
    return found is not matcher.get("invert_match", False)
