"""Envoy's bootstrap: listeners, filters and clusters that a policy change never touches.

What a policy changes comes from watched files in the policy volume: the routes of the listeners
(``abox.render.envoy_routes``), the gate (``abox.render.envoy_gate``) and the clusters of origins
that carry secrets or trust the stack's own authorities (``abox.render.envoy_origins``).

Life of a request: the proxy port's filters mark it (Lua), its routes judge it, the dynamic forward
proxy resolves the name, and the address rule judges the address that will be dialled. Then the
routes are asked once more, for a way out: through the gate, where the connection is closed when a
change of the policy takes its name away, to the origin. A CONNECT is judged the same way; behind
the gate it leads into the internal listener ``intercept``, where TLS is terminated with a
certificate minted on demand and every request inside is judged again, or into ``tunnel``, which
passes TLS unseen to the name that was judged.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from ipaddress import IPv4Address

from abox.render.envoy_gate import BUFFER_BYTES, GATE
from abox.render.envoy_lua import (
    CONNECT_NAME_STATE,
    CONNECT_STATE,
    DIAL_SCRIPT,
    INNER_SCRIPT,
    NAME,
    OUTER_SCRIPT,
    PART,
    PART_STATE,
    PLAIN_SCRIPT,
    PORT,
    PORT_STATE,
    REFUSED_SWITCH,
    TARGET,
)
from abox.render.envoy_refusals import local_replies
from abox.render.envoy_routes import (
    CLUSTER_DIAL,
    CLUSTER_INTERCEPT,
    CLUSTER_PLAIN,
    CLUSTER_RESOLVE,
    CLUSTER_TLS,
    CLUSTER_TLS_HTTP1,
    CLUSTER_TUNNEL,
    JUDGED,
    JUDGED_STATE,
    METADATA,
    RBAC_FILTER,
    WAY,
    Side,
)
from abox.render.envoy_types import Json, any_of, endpoint, extension, pipe, watched_file
from abox.render.paths import (
    CLUSTERS_FILE,
    ENVOY_ADMIN_SOCKET,
    GATE_FILE,
    KEY_LOG_FILE,
    PROXY_SPOOL,
    PUBLIC_ROOTS_FILE,
    ROUTES_FILES,
    SDS_SOCKET,
    VALUES_SOCKET,
)
from abox.verdict_sources import ACCESS_LOG_FIELDS

STREAM_IDLE_S = 3600
"""Seconds without a byte in either direction before a stream is closed."""
HEADERS_TIMEOUT_S = 15
"""Seconds in which a client must have sent the head of its request."""
CONNECT_TIMEOUT_S = 10
"""Seconds until a dial or an upstream TLS handshake counts as failed."""
MAX_CONNECTIONS = 16384
"""Upper bound of everything that Envoy counts per cluster."""

FETCH_TIMEOUT_S = 2
"""Seconds that the proxy's start, or a new cluster, waits for control."""

_SDS_CLUSTER = "sds"
VALUES_CLUSTER = "values"
"""Where Envoy asks for values of secrets."""

_HTTP = "extensions.filters.http."
_NETWORK = "extensions.filters.network."
_TLS = "extensions.transport_sockets.tls.v3."


def render_bootstrap(*, gateway: IPv4Address, proxy_port: int, sandbox: str) -> str:
    """The bootstrap as one line of JSON.

    Args:
        gateway: address that the proxy listens on.
        proxy_port: its TCP port, 1 to 65535.
        sandbox: name for the verdict log and the refusals.
    """
    if not 1 <= proxy_port <= 65535:
        raise ValueError(f"proxy_port {proxy_port}: must be 1 to 65535")
    return json.dumps(bootstrap(gateway, proxy_port, sandbox), separators=(",", ":"))


def bootstrap(gateway: IPv4Address, proxy_port: int, sandbox: str) -> Json:
    """The bootstrap as an object."""
    return {
        "node": {"id": sandbox, "cluster": "abox"},
        "admin": {"address": pipe(ENVOY_ADMIN_SOCKET, mode=0o660)},
        "bootstrap_extensions": [
            extension(
                "envoy.bootstrap.internal_listener",
                "extensions.bootstrap.internal_listener.v3.InternalListener",
            )
        ],
        "stats_config": {
            "use_all_default_tags": False,
            "stats_matcher": {
                "inclusion_list": {
                    "patterns": [{"safe_regex": {"regex": regex}} for regex in _KEPT_STATS]
                }
            },
        },
        "overload_manager": {"resource_monitors": [_connection_limit()]},
        "layered_runtime": {"layers": [{"name": "static", "static_layer": _RUNTIME}]},
        "dynamic_resources": {
            "cds_config": watched_file(CLUSTERS_FILE),
            "lds_config": watched_file(GATE_FILE),
        },
        "static_resources": {
            "listeners": [
                _proxy_listener(gateway, proxy_port, sandbox),
                _intercept_listener(sandbox),
                _tunnel_listener(),
                _dial_listener(sandbox),
            ],
            "clusters": _clusters(),
        },
    }


_KEPT_STATS = (
    r"http\.(outer|inner|dial)\.rds\..*",
    r"http\.(outer|inner)\.(downstream_cx_active|downstream_rq_active|rq_total)",
    r"listener_manager\..*",
    r"cluster_manager\.cds\..*",
    r"sds\..*",
    r"server\..*",
)
"""Counters that are kept: each one that isn't saves memory in every worker."""


_RUNTIME = {"envoy.reloadable_features.enable_send_rst_on_user_space_socket": False}
"""Inside Envoy an ordinary end looks like a reset otherwise, and what was sent last is lost."""


def _connection_limit() -> Json:
    """Bounds what one agent can open, so that Envoy's memory stays in its container's limit."""
    return extension(
        "envoy.resource_monitors.global_downstream_max_connections",
        "extensions.resource_monitors.downstream_connections.v3.DownstreamConnectionsConfig",
        max_active_downstream_connections=MAX_CONNECTIONS,
    )


def _proxy_listener(gateway: IPv4Address, proxy_port: int, sandbox: str) -> Json:
    address = {"socket_address": {"address": str(gateway), "port_value": proxy_port}}
    filters = [_lua(OUTER_SCRIPT), _target_state(), *_dial_filters(_judged_state())]
    manager = _connection_manager(
        Side.OUTER,
        sandbox,
        filters,
        codec_type="HTTP1",
        upgrade_configs=[
            {"upgrade_type": "CONNECT"},
            {"upgrade_type": "websocket"},
        ],
    )
    return {
        "name": Side.OUTER.value,
        "address": address,
        "per_connection_buffer_limit_bytes": BUFFER_BYTES,
        "filter_chains": [{"filters": [manager]}],
    }


def _intercept_listener(sandbox: str) -> Json:
    """Ends tunnels: TLS with a minted certificate, or HTTP in the clear; nothing else."""
    tls = _connection_manager(
        Side.INNER,
        sandbox,
        [_lua(INNER_SCRIPT), *_dial_filters()],
        codec_type="AUTO",
        upgrade_configs=[{"upgrade_type": "websocket"}],
        http2_protocol_options=_HTTP2,
    )
    plain = _connection_manager(
        Side.OUTER,
        sandbox,
        [_lua(PLAIN_SCRIPT), *_dial_filters()],
        codec_type="HTTP1",
        upgrade_configs=[{"upgrade_type": "websocket"}],
    )
    tls_chain = {
        "filter_chain_match": {"transport_protocol": "tls"},
        "transport_socket": _minted_tls(),
        "transport_socket_connect_timeout": f"{HEADERS_TIMEOUT_S}s",
        "filters": [tls],
    }
    protocols = ["http/1.0", "http/1.1"]
    plain_chain = {
        "filter_chain_match": {
            "transport_protocol": "raw_buffer",
            "application_protocols": protocols,
        },
        "filters": [plain],
    }
    inspectors = [_inspector("tls"), _inspector("http")]
    return _internal_listener(CLUSTER_INTERCEPT, inspectors, [tls_chain, plain_chain])


def _internal_listener(name: str, inspectors: Sequence[Json], chains: Sequence[Json]) -> Json:
    """A listener that only Envoy itself connects to."""
    return {
        "name": name,
        "internal_listener": {},
        "per_connection_buffer_limit_bytes": BUFFER_BYTES,
        "listener_filters": list(inspectors),
        "listener_filters_timeout": f"{HEADERS_TIMEOUT_S}s",
        "filter_chains": list(chains),
    }


def _inspector(protocol: str) -> Json:
    kind = f"{protocol}_inspector"
    message = "TlsInspector" if protocol == "tls" else "HttpInspector"
    return extension(
        f"envoy.filters.listener.{kind}", f"extensions.filters.listener.{kind}.v3.{message}"
    )


def _tunnel_listener() -> Json:
    """Passes TLS through if its server name is the CONNECT's; the dial is judged once more."""
    hop = extension(
        "envoy.filters.network.tcp_proxy",
        f"{_NETWORK}tcp_proxy.v3.TcpProxy",
        stat_prefix=CLUSTER_TUNNEL,
        cluster=CLUSTER_DIAL,
        idle_timeout=f"{STREAM_IDLE_S}s",
        upstream_connect_mode="ON_DOWNSTREAM_DATA",  # after the server name was judged
        max_early_data_bytes=BUFFER_BYTES,
        tunneling_config={"hostname": f"%FILTER_STATE({CONNECT_STATE}:PLAIN)%"},
    )
    chain = {
        "filter_chain_match": {"transport_protocol": "tls"},
        "filters": [_server_name_rule(), hop],
    }
    return _internal_listener(CLUSTER_TUNNEL, [_inspector("tls")], [chain])


def _server_name_rule() -> Json:
    """The name in the handshake must be that of the CONNECT; filter state reads as bytes."""
    connection = {"ident_expr": {"name": "connection"}}
    server_name = {"select_expr": {"operand": connection, "field": "requested_server_name"}}
    asked = {"call_expr": {"function": "bytes", "args": [server_name]}}
    state = {"ident_expr": {"name": "filter_state"}}
    key = {"const_expr": {"string_value": CONNECT_NAME_STATE}}
    connected = {"call_expr": {"function": "_[_]", "args": [state, key]}}
    same = {"call_expr": {"function": "_==_", "args": [asked, connected]}}
    policy = {"permissions": [{"any": True}], "principals": [{"any": True}], "condition": same}
    return extension(
        "envoy.filters.network.rbac",
        f"{_NETWORK}rbac.v3.RBAC",
        stat_prefix=CLUSTER_TUNNEL,
        rules={"action": "ALLOW", "policies": {"same_name": policy}},
    )


def _dial_listener(sandbox: str) -> Json:
    """Where a tunnel that passed is dialled: the address is judged here."""
    manager = _connection_manager(
        Side.DIAL,
        sandbox,
        [_lua(DIAL_SCRIPT), *_dial_filters()],
        codec_type="HTTP1",
        upgrade_configs=[{"upgrade_type": "CONNECT"}],
    )
    return _internal_listener(CLUSTER_DIAL, [], [{"filters": [manager]}])


_HTTP2: Json = {
    "max_concurrent_streams": 256,
    "initial_stream_window_size": 1024 * 1024,
    "initial_connection_window_size": 4 * 1024 * 1024,
    "allow_connect": True,
}


def _connection_manager(
    side: Side, sandbox: str, filters: Sequence[Json], **options: object
) -> Json:
    """HTTP as both listeners read it: nothing is changed that an origin could notice."""
    return extension(
        "envoy.filters.network.http_connection_manager",
        f"{_NETWORK}http_connection_manager.v3.HttpConnectionManager",
        stat_prefix=side.value,
        rds={"route_config_name": side.value, "config_source": watched_file(ROUTES_FILES[side])},
        http_filters=[_switch_refusal(), _trailer_rule(), *filters],
        # Python 3.11 and older send CONNECT as HTTP/1.0.
        http_protocol_options={
            "accept_http_10": True,
            "allow_absolute_url": True,
            "enable_trailers": True,
        },
        common_http_protocol_options={"idle_timeout": f"{STREAM_IDLE_S}s"},
        early_header_mutation_extensions=[_early_mutation()],
        proxy_100_continue=True,  # whether a body may come is the origin's to say
        use_remote_address=True,
        skip_xff_append=True,
        internal_address_config={"unix_sockets": False, "cidr_ranges": [_NOBODY]},
        generate_request_id=False,
        preserve_external_request_id=True,
        server_header_transformation="PASS_THROUGH",
        normalize_path=False,
        merge_slashes=False,
        path_with_escaped_slashes_action="KEEP_UNCHANGED",
        strip_trailing_host_dot=True,
        max_request_headers_kb=96,
        request_headers_timeout=f"{HEADERS_TIMEOUT_S}s",
        stream_idle_timeout=f"{STREAM_IDLE_S}s",
        local_reply_config=local_replies(sandbox),
        access_log=[_access_log()],
        **options,
    )


_NOBODY = {"address_prefix": "255.255.255.255", "prefix_len": 32}
"""No client is internal: an empty list would mean all private addresses."""


_STEERING = ("x-abox-", "x-envoy-")
"""Beginnings of fields that would forge the mark or steer Envoy."""


def _early_mutation() -> Json:
    """Before the first look at the routes: fields that would steer Envoy or forge the mark."""
    mutations = [{"remove_on_match": {"key_matcher": {"prefix": prefix}}} for prefix in _STEERING]
    return extension(
        "envoy.http.early_header_mutation.header_mutation",
        "extensions.http.early_header_mutation.header_mutation.v3.HeaderMutation",
        mutations=mutations,
    )


_NO_TRAILERS = (
    *("authorization", "cookie", "connection", "content-encoding", "content-length"),
    *("content-range", "content-type", "expect", "forwarded", "host", "keep-alive"),
    *("max-forwards", "proxy-authorization", "proxy-connection", "range", "te", "trailer"),
    *("transfer-encoding", "upgrade"),
)
"""Fields that frame, route or authorise: never taken from a trailer (RFC 9110, 6.5.1).

An origin that merges trailers into the head would read them there, where nothing judged them.
"""


def _trailer_rule() -> Json:
    """Drops from a request's trailers what only its head may say."""
    names = [{"exact": name, "ignore_case": True} for name in _NO_TRAILERS]
    prefixes = [{"prefix": prefix} for prefix in (*_STEERING, "x-forwarded-")]
    return extension(
        "envoy.filters.http.header_mutation",
        f"{_HTTP}header_mutation.v3.HeaderMutation",
        mutations={
            "request_trailers_mutations": [
                {"remove_on_match": {"key_matcher": matcher}} for matcher in (*names, *prefixes)
            ]
        },
    )


def _lua(script: str) -> Json:
    return extension(
        "envoy.filters.http.lua",
        f"{_HTTP}lua.v3.Lua",
        default_source_code={"inline_string": script},
    )


def _switch_refusal() -> Json:
    """Answers for a response that the script refused; responses meet the filters last to first."""
    status = any_of("type.matcher.v3.HttpResponseStatusCodeMatchInput")
    policy = any_of(
        "extensions.http.custom_response.local_response_policy.v3.LocalResponsePolicy",
        status_code=502,
    )
    matcher = {
        "predicate": {
            "single_predicate": {
                "input": {"name": "status", "typed_config": status},
                "value_match": {"exact": str(REFUSED_SWITCH)},
            }
        },
        "on_match": {"action": {"name": "refuse", "typed_config": policy}},
    }
    return extension(
        "envoy.filters.http.custom_response",
        f"{_HTTP}custom_response.v3.CustomResponse",
        custom_response_matcher={"matcher_list": {"matchers": [matcher]}},
    )


def _target_state() -> Json:
    """Tells the gate and the listeners behind it what was asked for.

    ``abox.connect`` is hashable: connections for different targets are never shared.
    """
    return _state_filter(
        _state(CONNECT_STATE, f"%REQ({TARGET})%", factory=_HASHABLE, shared="TRANSITIVE"),
        _state(CONNECT_NAME_STATE, f"%REQ({NAME})%", factory=_HASHABLE, shared="TRANSITIVE"),
        _state(PORT_STATE, f"%REQ({PORT})%"),
        _state(PART_STATE, f"%REQ({PART})%"),
        _state("envoy.upstream.dynamic_host", f"%REQ({TARGET})%"),
    )


_HASHABLE = "envoy.hashable_string"


def _judged_state() -> Json:
    """Tells the gate where a connection leads, and lets the routes be asked for the way out.

    Behind the rule for addresses: until then there is no such way.
    """
    return _state_filter(
        _state(_LEADS_TO, f"%METADATA(ROUTE:{METADATA}:{WAY})%", factory=_LEADS_TO),
        _state(JUDGED_STATE, JUDGED, shared="NONE"),
        clear_route_cache=True,
    )


_LEADS_TO = "envoy.tcp_proxy.cluster"
"""Filter state, and its type, by which a TCP proxy takes another cluster than its own."""


def _state_filter(*values: Json, **options: object) -> Json:
    return extension(
        "envoy.filters.http.set_filter_state",
        f"{_HTTP}set_filter_state.v3.Config",
        on_request_headers=list(values),
        **options,
    )


def _state(key: str, text: str, *, factory: str = "envoy.string", shared: str = "ONCE") -> Json:
    return {
        "object_key": key,
        "factory_key": factory,
        "format_string": {
            "text_format_source": {"inline_string": text},
            "omit_empty_values": True,
        },
        "shared_with_upstream": shared,
        "skip_if_empty": True,
    }


def _dial_filters(*last: Json) -> list[Json]:
    """Resolve, judge the address, dial. Without a route's own rule nothing passes."""
    return [
        extension(
            "envoy.filters.http.dynamic_forward_proxy",
            f"{_HTTP}dynamic_forward_proxy.v3.FilterConfig",
            dns_cache_config=_DNS_CACHE,
            save_upstream_address=True,
        ),
        extension(RBAC_FILTER, f"{_HTTP}rbac.v3.RBAC", rules={"action": "ALLOW"}),
        *last,
        extension(
            "envoy.filters.http.router", f"{_HTTP}router.v3.Router", suppress_envoy_headers=True
        ),
    ]


_DNS_CACHE: Json = {
    "name": "names",
    "dns_lookup_family": "V4_PREFERRED",
    "dns_refresh_rate": "60s",
    "dns_min_refresh_rate": "5s",
    "host_ttl": "60s",
    "max_hosts": 4096,
    "dns_query_timeout": "8s",
    "disable_dns_refresh_on_failure": True,  # the next request asks: no refused name asks again
    "dns_cache_circuit_breaker": {"max_pending_requests": MAX_CONNECTIONS},
    "typed_dns_resolver_config": extension(
        "envoy.network.dns_resolver.cares",
        "extensions.network.dns_resolver.cares.v3.CaresDnsResolverConfig",
        resolvers=[{"socket_address": {"address": "127.0.0.1", "port_value": 53}}],
        dns_resolver_options={"no_default_search_domain": True},
        query_timeout_seconds="3",  # a uint64, which is text in protobuf's JSON
        query_tries=2,  # a burst may be more than a socket holds
    ),
}
"""One cache for all clusters: the address that is judged is the address that is dialled."""


def _access_log() -> Json:
    """Lines for control's collector; a full spool loses lines and holds up nobody."""
    return extension(
        "envoy.access_loggers.file",
        "extensions.access_loggers.file.v3.FileAccessLog",
        path=PROXY_SPOOL,
        log_format={"json_format": dict(ACCESS_LOG_FIELDS)},
    )


def _minted_tls() -> Json:
    """TLS towards the agent: one certificate a name, no resumption (a session would skip it)."""
    selector = extension(
        "envoy.tls.certificate_selectors.on_demand_secret",
        "extensions.transport_sockets.tls.cert_selectors.on_demand_secret.v3.Config",
        config_source=served_by(_SDS_CLUSTER),
        certificate_mapper=extension(
            "envoy.tls.certificate_mappers.sni",
            "extensions.transport_sockets.tls.cert_mappers.sni.v3.SNI",
            default_value="no-server-name",
        ),
    )
    return extension(
        "envoy.transport_sockets.tls",
        f"{_TLS}DownstreamTlsContext",
        disable_stateless_session_resumption=True,
        disable_stateful_session_resumption=True,
        common_tls_context={
            "tls_params": {"tls_minimum_protocol_version": "TLSv1_2"},
            "alpn_protocols": ["h2", "http/1.1"],
            "key_log": {"path": KEY_LOG_FILE},
            "custom_tls_certificate_selector": selector,
        },
    )


def served_by(cluster: str) -> Json:
    """A configuration source: control, by one of its sockets."""
    return {
        "resource_api_version": "V3",
        "initial_fetch_timeout": f"{FETCH_TIMEOUT_S}s",
        "api_config_source": {
            "api_type": "DELTA_GRPC",
            "transport_api_version": "V3",
            "grpc_services": [{"envoy_grpc": {"cluster_name": cluster}}],
        },
    }


def _clusters() -> list[Json]:
    return [
        _origin_cluster(CLUSTER_PLAIN, _HTTP1_ONLY, None),
        *tls_clusters("", PUBLIC_ROOTS_FILE),
        _origin_cluster(CLUSTER_RESOLVE, _HTTP1_ONLY, None, thresholds=_NOTHING),
        _internal_cluster(GATE) | _kept_alive(_HTTP1_ONLY),
        _internal_cluster(CLUSTER_INTERCEPT),
        _internal_cluster(CLUSTER_TUNNEL),
        _internal_cluster(CLUSTER_DIAL),
        _sds_cluster(_SDS_CLUSTER, SDS_SOCKET),
        _sds_cluster(VALUES_CLUSTER, VALUES_SOCKET),
    ]


def tls_clusters(suffix: str, authorities: str, filters: Sequence[Json] = ()) -> list[Json]:
    """The clusters that requests inside TLS go to.

    Args:
        suffix: end of their names.
        authorities: file of those that origins are verified against.
        filters: what a request passes last, after everything was judged.
    """
    either, http1 = (_origin_tls(a, authorities) for a in (["h2", "http/1.1"], ["http/1.1"]))
    auto = {"auto_config": _AUTO}
    return [
        _origin_cluster(CLUSTER_TLS + suffix, auto, either, filters=filters),
        _origin_cluster(CLUSTER_TLS_HTTP1 + suffix, _HTTP1_ONLY, http1, filters=filters),
    ]


_HTTP1_OPTIONS: Json = {"enable_trailers": True}
_HTTP1_ONLY: Json = {"explicit_http_config": {"http_protocol_options": _HTTP1_OPTIONS}}
_ORIGIN_HTTP2: Json = {
    "initial_stream_window_size": 4 * 1024 * 1024,
    "initial_connection_window_size": 8 * 1024 * 1024,
}
"""What an origin may send before the agent has taken any of it: memory that it can fill."""
_AUTO: Json = {"http_protocol_options": _HTTP1_OPTIONS, "http2_protocol_options": _ORIGIN_HTTP2}


def _origin_cluster(
    name: str,
    protocol: Json,
    transport: Json | None,
    *,
    thresholds: Json | None = None,
    filters: Sequence[Json] = (),
) -> Json:
    options: Json = {
        **protocol,
        "upstream_http_protocol_options": {"auto_sni": True, "auto_san_validation": True},
    }
    if filters:
        options["http_filters"] = [*filters, _UPSTREAM_CODEC]
    cluster = {
        "name": name,
        "connect_timeout": f"{CONNECT_TIMEOUT_S}s",
        "per_connection_buffer_limit_bytes": BUFFER_BYTES,
        "lb_policy": "CLUSTER_PROVIDED",
        "cluster_type": extension(
            "envoy.clusters.dynamic_forward_proxy",
            "extensions.clusters.dynamic_forward_proxy.v3.ClusterConfig",
            dns_cache_config=_DNS_CACHE,
        ),
        "circuit_breakers": {"thresholds": [thresholds or _THRESHOLDS]},
        **_kept_alive(options),
    }
    return cluster | ({"transport_socket": transport} if transport else {})


def _kept_alive(options: Json) -> Json:
    """HTTP options of a cluster whose connections serve several requests."""
    idle = {"common_http_protocol_options": {"idle_timeout": "60s"}}
    return {"typed_extension_protocol_options": {_HTTP_OPTIONS: _http_options({**options, **idle})}}


_UPSTREAM_CODEC = extension(
    "envoy.filters.http.upstream_codec", f"{_HTTP}upstream_codec.v3.UpstreamCodec"
)
_HTTP_OPTIONS = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
_THRESHOLDS: Json = {
    "max_connections": MAX_CONNECTIONS,
    "max_pending_requests": MAX_CONNECTIONS,
    "max_requests": MAX_CONNECTIONS,
    "max_retries": 3,
}
_NOTHING: Json = dict.fromkeys(("max_pending_requests", "max_requests", "max_retries"), 0)
"""For a cluster that resolves names and dials nobody."""


def _http_options(options: Json) -> Json:
    return any_of("extensions.upstreams.http.v3.HttpProtocolOptions", **options)


def _origin_tls(alpn: Sequence[str], authorities: str) -> Json:
    """TLS towards the origin, which is verified."""
    return extension(
        "envoy.transport_sockets.tls",
        f"{_TLS}UpstreamTlsContext",
        common_tls_context={
            "tls_params": {
                "tls_minimum_protocol_version": "TLSv1_2",
                "tls_maximum_protocol_version": "TLSv1_3",  # a client's default is 1.2
            },
            "alpn_protocols": list(alpn),
            "key_log": {"path": KEY_LOG_FILE},
            "validation_context": {"trusted_ca": {"filename": authorities}},
        },
    )


def _internal_cluster(name: str) -> Json:
    address = {"envoy_internal_address": {"server_listener_name": name}}
    raw = extension(
        "envoy.transport_sockets.raw_buffer",
        "extensions.transport_sockets.raw_buffer.v3.RawBuffer",
    )
    return {
        "name": name,
        "load_assignment": {"cluster_name": name, "endpoints": endpoint(address)},
        "circuit_breakers": {"thresholds": [_THRESHOLDS]},
        "transport_socket": extension(
            "envoy.transport_sockets.internal_upstream",
            "extensions.transport_sockets.internal_upstream.v3.InternalUpstreamTransport",
            transport_socket=raw,
        ),
    }


def _sds_cluster(name: str, socket: str) -> Json:
    options: Json = {"explicit_http_config": {"http2_protocol_options": {}}}
    return {
        "name": name,
        "load_assignment": {"cluster_name": name, "endpoints": endpoint(pipe(socket))},
        "typed_extension_protocol_options": {_HTTP_OPTIONS: _http_options(options)},
    }
