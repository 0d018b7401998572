"""Policies for property tests of what a change takes away."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from abox.allowlist import Policy, parse_policy
from abox.errors import AboxErrors

LONG = f"{'l' * 60}.{'o' * 60}.wild.test"
"""A name that no wildcard covers."""
HOSTS = [LONG, "wild.test", "a.wild.test", "*.wild.test", "*.b.wild.test", "allowed.test"]
PORTS = [80, 443, 8080]
PATTERNS = ["/", "/*", "/v1/*", "/v2/x", "/a/*/b", "/a/*"]


def _listed(values: list[object]) -> st.SearchStrategy[list[object]]:
    return st.lists(st.sampled_from(values), min_size=1, max_size=2, unique=True)


_limited = st.fixed_dictionaries(
    {"host": st.sampled_from(HOSTS)},
    optional={
        "ports": _listed([*PORTS]),
        "methods": _listed(["GET", "POST"]),
        "paths": _listed([*PATTERNS]),
        "tls": st.just("intercept"),
    },
)
_passed = st.fixed_dictionaries(
    {"host": st.sampled_from(HOSTS), "tls": st.just("passthrough"), "ports": _listed([*PORTS])}
)
_keyed = st.fixed_dictionaries(
    {
        "host": st.sampled_from(HOSTS),
        "inject": st.sampled_from([{"header": "X-Key", "secret": name} for name in ("a", "b")]),
    },
    optional={
        "ports": _listed([443, 8080]),
        "methods": _listed(["GET", "POST"]),
        "paths": _listed([*PATTERNS]),
    },
)
_entries = st.lists(st.one_of(st.sampled_from(HOSTS), _limited, _passed, _keyed), max_size=4)
_denied = st.lists(
    st.sampled_from(["a.wild.test", "*.b.wild.test", "allowed.test", "*.wild.test"]), max_size=2
)


@st.composite
def policies(draw: st.DrawFn) -> Policy:
    """Policies with few hosts, so that entries meet."""
    entries = draw(_entries)
    wanted: dict[str, Any] = {
        "deny": draw(_denied),
        "mode": draw(st.sampled_from(["active", "active", "passive"])),
        "allow_private_cidrs": draw(st.sampled_from([[], ["10.0.0.0/24"], ["10.0.0.0/23"]])),
    }
    for interception in (draw(st.booleans()), True):
        try:
            return parse_policy(entries, tls_interception=interception, **wanted)
        except AboxErrors:
            continue
    return parse_policy([], **wanted)
