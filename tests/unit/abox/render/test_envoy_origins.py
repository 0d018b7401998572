"""Clusters that put secrets on requests: only what an entry says, and never the value itself."""

from __future__ import annotations

import json

from abox.allowlist import parse_policy
from abox.render.envoy_origins import origin_clusters, render_clusters, value_name
from abox.render.envoy_routes import USUAL_ORIGINS, Origins, Side, render_routes
from abox.render.paths import PUBLIC_ROOTS_FILE, authorities_file

KEYED = {
    "host": "api.allowed.test",
    "paths": ["/v1/*"],
    "inject": [{"header": "X_Api-Key", "secret": "k"}, {"header": "Cookie", "secret": "c"}],
}
POLICY = parse_policy(["api.allowed.test", KEYED])
DIGESTS = {"k": "1" * 64, "c": "2" * 64}
ORIGINS = Origins(digests=DIGESTS)


def filters_of(cluster):
    (options,) = cluster["typed_extension_protocol_options"].values()
    return options["http_filters"]


def test_a_policy_without_injections_needs_no_clusters():
    for policy in (None, parse_policy(["allowed.test"])):
        assert origin_clusters(policy, USUAL_ORIGINS) == []
    assert json.loads(render_clusters([]))["resources"] == []


def test_routes_lead_to_the_clusters_inside_tls_alone():
    names = {cluster["name"] for cluster in origin_clusters(POLICY, ORIGINS)}
    assert len(names) == 2  # requests, and handshakes of WebSockets
    for side in (Side.OUTER, Side.DIAL):
        assert not any(name in render_routes(POLICY, ORIGINS)[side] for name in names)
    assert all(name in render_routes(POLICY, ORIGINS)[Side.INNER] for name in names)


def test_all_spellings_go_before_the_secret_comes_and_nothing_comes_after():
    for cluster in origin_clusters(POLICY, ORIGINS):
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
    usual = json.dumps(origin_clusters(POLICY, ORIGINS))
    assert usual.count("auto_san_validation") == 2
    assert usual.count(f'"{PUBLIC_ROOTS_FILE}"') == 2


def test_another_value_is_another_cluster_and_another_route():
    again = Origins(digests=dict(reversed(DIGESTS.items())))
    other = Origins(digests={**DIGESTS, "k": "3" * 64})
    for render in (
        lambda origins: render_clusters(origin_clusters(POLICY, origins)),
        lambda origins: render_routes(POLICY, origins)[Side.INNER],
    ):
        assert render(ORIGINS) == render(again) != render(other)


def test_entries_that_inject_the_same_share_their_clusters():
    both = parse_policy([KEYED, {**KEYED, "host": "*.wild.test"}])
    assert len(origin_clusters(both, ORIGINS)) == 2
    assert ORIGINS.suffix() == ""


def test_other_authorities_are_other_clusters_for_every_route_inside_tls():
    plain, trusting = (parse_policy(["allowed.test", "*.wild.test"]), Origins(authorities="a" * 16))
    passive = parse_policy([], mode="passive")
    for policy in (plain, passive):
        names = [cluster["name"] for cluster in origin_clusters(policy, trusting)]
        assert names == [f"origin_tls{trusting.suffix()}", f"origin_tls_http1{trusting.suffix()}"]
        inner = render_routes(policy, trusting)[Side.INNER]
        assert all(f'"cluster":"{name}"' in inner for name in names)
        assert '"cluster":"origin_tls"' not in inner
    assert authorities_file("a" * 16) in json.dumps(origin_clusters(plain, trusting))
    both = Origins(digests=DIGESTS, authorities="a" * 16)
    suffixes = {o.suffix(i) for o in (ORIGINS, both) for i in ((), POLICY.entries[1].inject)}
    assert len(suffixes) == 4
    assert len(origin_clusters(POLICY, both)) == 4
