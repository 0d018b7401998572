"""A model of how Envoy finds the gate's chain for a connection."""

from __future__ import annotations

from typing import Any

from abox.gates import Gates, part_of
from abox.render.envoy_gate import gate_listener
from abox.render.envoy_lua import CONNECT_NAME_STATE, CONNECT_STATE, PART_STATE, PORT_STATE


class Gate:
    """The gate as it is rendered."""

    def __init__(self, gates: Gates) -> None:
        listener = gate_listener(gates) or {"filter_chain_matcher": {}, "filter_chains": []}
        self._matcher = listener["filter_chain_matcher"]
        self.chains = [chain["name"] for chain in listener["filter_chains"]]
        assert len(self.chains) == len(set(self.chains))

    def chain_of(self, name: str, port: int) -> str | None:
        """Name of the chain that a connection to a host, as in an authority, and a port gets."""
        states = {
            CONNECT_STATE: f"{name}:{port}",
            CONNECT_NAME_STATE: name,
            PORT_STATE: str(port),
            PART_STATE: part_of(name),
        }
        found = _match(self._matcher, states)
        assert found is None or found in self.chains
        return found


def _match(matcher: dict[str, Any], states: dict[str, str]) -> str | None:
    found = _in_tree(matcher["matcher_tree"], states) if "matcher_tree" in matcher else None
    return found or _act(matcher.get("on_no_match"), states)


def _in_tree(tree: dict[str, Any], states: dict[str, str]) -> str | None:
    value = states[tree["input"]["typed_config"]["key"]]
    if "exact_match_map" in tree:
        return _act(tree["exact_match_map"]["map"].get(value), states)
    if "prefix_match_map" in tree:
        entries = tree["prefix_match_map"]["map"]
        longest = max((key for key in entries if value.startswith(key)), key=len, default=None)
        return _act(entries.get(longest), states)
    for suffix in _suffixes(value):
        for domain in tree["custom_match"]["typed_config"]["domain_matchers"]:
            if suffix in domain["domains"] and (found := _act(domain["on_match"], states)):
                return found
    return None


def _suffixes(name: str) -> list[str]:
    labels = name.split(".")
    return [name, *(f"*.{'.'.join(labels[at:])}" for at in range(1, len(labels)))]


def _act(step: dict[str, Any] | None, states: dict[str, str]) -> str | None:
    if step is None:
        return None
    if "matcher" in step:
        return _match(step["matcher"], states)
    return str(step["action"]["typed_config"]["value"])
