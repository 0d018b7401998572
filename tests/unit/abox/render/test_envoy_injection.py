"""Clusters that put secrets on requests: only what an entry says, and never the value itself."""

from __future__ import annotations

import json

from abox.allowlist import parse_policy
from abox.render.envoy_injection import injecting_clusters, render_clusters, value_name
from abox.render.envoy_routes import Side, injection_suffix, render_routes

KEYED = {
    "host": "api.allowed.test",
    "paths": ["/v1/*"],
    "inject": [{"header": "X_Api-Key", "secret": "k"}, {"header": "Cookie", "secret": "c"}],
}
POLICY = parse_policy(["api.allowed.test", KEYED])
DIGESTS = {"k": "1" * 64, "c": "2" * 64}


def filters_of(cluster):
    (options,) = cluster["typed_extension_protocol_options"].values()
    return options["http_filters"]


def test_a_policy_without_injections_needs_no_clusters():
    for policy in (None, parse_policy(["allowed.test"])):
        assert injecting_clusters(policy, {}) == []
    assert json.loads(render_clusters([]))["resources"] == []


def test_routes_lead_to_the_clusters_inside_tls_alone():
    names = {cluster["name"] for cluster in injecting_clusters(POLICY, DIGESTS)}
    assert len(names) == 2  # requests, and handshakes of WebSockets
    for side in (Side.OUTER, Side.DIAL):
        assert not any(name in render_routes(POLICY, side, DIGESTS) for name in names)
    assert all(name in render_routes(POLICY, Side.INNER, DIGESTS) for name in names)


def test_all_spellings_go_before_the_secret_comes_and_nothing_comes_after():
    for cluster in injecting_clusters(POLICY, DIGESTS):
        taker, *injectors, codec = filters_of(cluster)
        mutations = taker["typed_config"]["mutations"]
        for kind in ("request_mutations", "request_trailers_mutations"):
            matchers = [mutation["remove_on_match"]["key_matcher"] for mutation in mutations[kind]]
            assert [one["safe_regex"]["regex"] for one in matchers] == [
                "cookie",
                "x[^a-z0-9]api[^a-z0-9]key",
            ]
        credentials = [one["typed_config"]["credential"]["typed_config"] for one in injectors]
        assert [(one["header"], one["credential"]["name"]) for one in credentials] == [
            ("Cookie", value_name("c", DIGESTS["c"])),
            ("X_Api-Key", value_name("k", DIGESTS["k"])),
        ]
        assert all(one["typed_config"]["overwrite"] for one in injectors)
        # Without the value the request is refused.
        assert not any("allow_request_without_credential" in str(one) for one in injectors)
        assert codec["name"] == "envoy.filters.http.upstream_codec"


def test_origins_are_verified_like_all_others():
    usual = json.dumps(injecting_clusters(POLICY, DIGESTS))
    assert usual.count("auto_san_validation") == 2
    assert usual.count("upstream-authorities.json") >= 2


def test_another_value_is_another_cluster_and_another_route():
    again = dict(reversed(DIGESTS.items()))
    other = {**DIGESTS, "k": "3" * 64}
    for render in (
        lambda digests: render_clusters(injecting_clusters(POLICY, digests)),
        lambda digests: render_routes(POLICY, Side.INNER, digests),
    ):
        assert render(DIGESTS) == render(again) != render(other)


def test_entries_that_inject_the_same_share_their_clusters():
    both = parse_policy([KEYED, {**KEYED, "host": "*.wild.test"}])
    assert len(injecting_clusters(both, DIGESTS)) == 2
    assert injection_suffix((), {}) == ""
