"""Envoy's clusters that come with a policy: other authorities, or requests that carry secrets.

Where the stack trusts authorities of its own, the routes lead to clusters that verify origins
against those too (``Origins.suffix``): with another list the connections of the one before are
used no more.

A route of an entry that injects leads to clusters of its own. They are like the
others for origins with TLS, with filters that take off what the agent sent under the
header's name and put the secret there. Nothing comes after these filters but the connection, and
its pool is shared with no other request. The value itself comes from control over a socket, under
a name that holds its digest: another value is another cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from abox.allowlist import Policy
from abox.injection import Injection
from abox.render.envoy import VALUES_CLUSTER, served_by, tls_clusters
from abox.render.envoy_routes import Origins
from abox.render.envoy_types import Json, any_of, discovery_response, extension
from abox.render.paths import PUBLIC_ROOTS_FILE, authorities_file

CLUSTER_TYPE = "config.cluster.v3.Cluster"
_HTTP = "extensions.filters.http."


def value_name(secret: str, digest: str) -> str:
    """The name under which the proxy asks control for a value."""
    return f"{secret}.{digest}"


def origin_clusters(policy: Policy | None, origins: Origins) -> list[Json]:
    """The clusters that routes of the policy lead to beside the usual ones, sorted by name."""
    kinds = {entry.inject for entry in policy.entries} if policy else set()
    clusters = [
        cluster
        for inject in kinds | {()}
        if origins.suffix(inject)
        for cluster in tls_clusters(
            origins.suffix(inject),
            authorities_file(origins.authorities) if origins.authorities else PUBLIC_ROOTS_FILE,
            _filters(inject, origins.digests) if inject else (),
        )
    ]
    return sorted(clusters, key=lambda cluster: str(cluster["name"]))


def render_clusters(clusters: Iterable[Json]) -> str:
    """The clusters as a discovery response in JSON, one line; each name once.

    Returns: text whose ``version_info`` is the SHA-256 of the clusters.
    """
    by_name = {cluster["name"]: any_of(CLUSTER_TYPE, **cluster) for cluster in clusters}
    resources = [by_name[name] for name in sorted(by_name)]
    return discovery_response(resources, resources)


def _filters(inject: Sequence[Injection], digests: Mapping[str, str]) -> list[Json]:
    """Take off what was sent, in trailers too: some servers read them like headers."""
    sent = [
        {"remove_on_match": {"key_matcher": {"safe_regex": {"regex": one.spellings}}}}
        for one in inject
    ]
    mutations = {"request_mutations": sent, "request_trailers_mutations": sent}
    taker = extension(
        "envoy.filters.http.header_mutation",
        f"{_HTTP}header_mutation.v3.HeaderMutation",
        mutations=mutations,
    )
    return [taker, *(_injector(one, digests) for one in inject)]


def _injector(injection: Injection, digests: Mapping[str, str]) -> Json:
    """Puts one header on; a request whose value isn't there is refused."""
    secret = {
        "name": value_name(injection.secret, digests[injection.secret]),
        "sds_config": served_by(VALUES_CLUSTER),
    }
    credential = extension(
        "envoy.http.injected_credentials.generic",
        "extensions.http.injected_credentials.generic.v3.Generic",
        credential=secret,
        header=injection.header,
    )
    return extension(
        "envoy.filters.http.credential_injector",
        f"{_HTTP}credential_injector.v3.CredentialInjector",
        overwrite=True,
        credential=credential,
    )
