"""Objects of nftables' JSON as lines that a person reads, close to what `nft list` prints.

Only for showing: what isn't known here is shown as JSON, so nothing disappears from a comparison.
"""

import json
from collections.abc import Mapping
from typing import Any

QUIET_OPERATORS = ("==", "in")
"""Not written by nft either."""

PLAIN_META = ("iifname", "oifname", "iif", "oif")
"""Meta keys that nft prints without the word `meta`."""


def object_text(entry: Any) -> str:
    """One object of a table as a line of text."""
    if not isinstance(entry, Mapping) or len(entry) != 1:
        return _json(entry)
    ((kind, body),) = entry.items()
    show = {"rule": _rule, "chain": _chain, "set": _set, "table": _table}.get(kind)
    if show is None or not isinstance(body, Mapping):
        return _json(entry)
    return show(body)


def _table(body: Mapping[str, Any]) -> str:
    return f"table {body.get('family')} {body.get('name')}"


def _chain(body: Mapping[str, Any]) -> str:
    """A chain, with hook, priority and policy if it is a base chain."""
    if "hook" not in body:
        return f"chain {body.get('name')}"
    return (
        f"chain {body.get('name')}: type {body.get('type')} hook {body.get('hook')} "
        f"priority {body.get('prio')} policy {body.get('policy', 'accept')}"
    )


def _set(body: Mapping[str, Any]) -> str:
    elements = ", ".join(_value(one) for one in body.get("elem") or [])
    return f"set {body.get('name')} ({_value(body.get('type'))}): {elements}"


def _rule(body: Mapping[str, Any]) -> str:
    """A rule: chain, statements, comment."""
    statements = " ".join(_statement(one) for one in body.get("expr") or [])
    comment = f"  # {body['comment']}" if body.get("comment") else ""
    return f"{body.get('chain')}: {statements}{comment}"


def _statement(one: Any) -> str:
    """A match or a verdict."""
    if not isinstance(one, Mapping) or len(one) != 1:
        return _json(one)
    ((kind, body),) = one.items()
    if kind == "match":
        operator = "" if body.get("op") in QUIET_OPERATORS else f"{body.get('op')} "
        return f"{_left(body.get('left'))} {operator}{_value(body.get('right'))}"
    if kind in ("goto", "jump") and isinstance(body, Mapping):
        return f"{kind} {body.get('target')}"
    if not body or kind == "counter":
        return str(kind)
    return f"{kind} {_value(body)}"


def _left(left: Any) -> str:
    """What a match looks at."""
    match left:
        case {"meta": {"key": key}}:
            return str(key) if key in PLAIN_META else f"meta {key}"
        case {"payload": {"protocol": protocol, "field": name}}:
            return f"{protocol} {name}"
        case {"ct": {"key": key}}:
            return f"ct {key}"
        case _:
            return _value(left)


def _value(value: Any) -> str:
    """What a match compares with, or the details of a statement."""
    match value:
        case {"prefix": {"addr": address, "len": length}}:
            return f"{address}/{length}"
        case {"range": [first, last]}:
            return f"{_value(first)}-{_value(last)}"
        case {"set": members} if isinstance(members, list):
            return "{ " + ", ".join(_value(one) for one in members) + " }"
        case dict():
            return " ".join(f"{key} {_value(one)}" for key, one in value.items())
        case list():
            return ",".join(_value(one) for one in value)
        case _:
            return str(value)


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True)
