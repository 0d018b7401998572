"""One nftables table, replaced atomically and read back rule by rule."""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from abox.errors import HostError
from provider.resource import UNKNOWN, Data, Field, Resource

FAMILY = "inet"

_VOLATILE = {"handle", "index", "packets", "bytes", "expires", "position"}
"""Keys that change without anybody changing the table."""


@dataclass(frozen=True)
class FirewallTable:
    """One table of family inet; ``nft`` runs the tool and raises HostError with its stderr."""

    name: str
    nft: Callable[..., str]

    def read(self) -> str | None:
        """The live table, normalised; None only if a successful listing lacks it."""
        if not self._listed():
            return None
        live = json.loads(self.nft("-j", "list", "table", FAMILY, self.name))
        return normalised(live["nftables"])

    def apply(self, rules: str) -> str:
        """Load ``rules``, a script that replaces the table in one transaction; returns it live."""
        self.nft("-c", "-f", "-", stdin=rules)
        self.nft("-f", "-", stdin=rules)
        live = self.read()
        if live is None:
            raise HostError(
                what=f"nft table {FAMILY} {self.name} isn't there after its rules were loaded",
                why="the rules define another table, or something removes it at once",
                remedy="run `nft monitor` and look for another tool that flushes rules",
            )
        return live

    def delete(self) -> None:
        """Take the table away; no error if it is gone."""
        if self._listed():
            self.nft("delete", "table", FAMILY, self.name)

    def _listed(self) -> bool:
        listed = json.loads(self.nft("-j", "list", "tables"))["nftables"]
        tables = [entry["table"] for entry in listed if "table" in entry]
        return any((table["family"], table["name"]) == (FAMILY, self.name) for table in tables)


def normalised(listing: list[dict[str, Any]]) -> str:
    """A listing of one table, one JSON object a line.

    The order of rules stays, since it has a meaning; that of chains and of a set's elements goes.
    Not one JSON text: Pulumi would unfold it to a line a brace in every diff.
    """
    entries = [_stable(entry) for entry in listing if "metainfo" not in entry]
    rules = [entry for entry in entries if "rule" in entry]
    others = sorted((entry for entry in entries if "rule" not in entry), key=_line)
    # A chain keeps its rules' order; between chains there is none.
    rules.sort(key=lambda entry: str(entry["rule"].get("chain")))
    return "".join(f"{_line(entry)}\n" for entry in others + rules)


def _line(entry: Any) -> str:
    return json.dumps(entry, sort_keys=True, separators=(",", ":"))


def _stable(part: Any) -> Any:
    if isinstance(part, dict):
        stable = {key: _stable(value) for key, value in part.items() if key not in _VOLATILE}
        if isinstance(stable.get("elem"), list):
            stable["elem"] = sorted(stable["elem"], key=_line)
        return stable
    return [_stable(each) for each in part] if isinstance(part, list) else part


def differences(applied: str, live: str) -> list[str]:
    """In words, what is live beside what was applied."""
    marks = {"- ": "missing", "+ ": "added"}
    compared = difflib.ndiff(applied.splitlines(), live.splitlines())
    return [f"{marks[line[:2]]}: {_words(line[2:])}" for line in compared if line[:2] in marks]


def _words(line: str) -> str:
    try:
        kind, value = next(iter(json.loads(line).items()))
    except (ValueError, AttributeError):
        return line  # written by another version
    if kind == "rule":
        statements = " ".join(_statement(part) for part in value.get("expr", []))
        return f"rule in chain {value['chain']}: {statements}"
    extras = [f"{key} {value[key]}" for key in ("hook", "prio", "policy") if key in value]
    return " ".join([kind, str(value.get("name", "")), *extras]).strip()


def _statement(part: dict[str, Any]) -> str:
    """One statement of a rule, close to how nft writes it."""
    kind, value = next(iter(part.items()))
    if kind == "match":
        operator = "" if value["op"] == "==" else f"{value['op']} "
        return f"{_operand(value['left'])} {operator}{_operand(value['right'])}"
    return f"{kind} {_operand(value)}" if value else kind


def _operand(value: Any) -> str:
    if isinstance(value, list):
        return "{" + ", ".join(_operand(each) for each in value) + "}"
    if not isinstance(value, dict):
        return str(value)
    if len(value) == 1 and isinstance(inner := next(iter(value.values())), dict | list):
        return _operand(inner)
    if value.keys() == {"protocol", "field"}:
        return f"{value['protocol']} {value['field']}"
    if value.keys() == {"addr", "len"}:
        return f"{value['addr']}/{value['len']}"
    return " ".join(_operand(each) for each in value.values())


class FirewallTableResource(Resource):
    """Adapter of ``FirewallTable``."""

    type_name = "FirewallTable"
    fields = (
        Field(name="table", kind=str, replaces=True),
        Field(name="rules", kind=str),
    )
    drift_fields: ClassVar = ("live",)

    def __init__(self, nft: Callable[..., str]) -> None:
        self._nft = nft

    def drift(self, state: Data, inputs: Data) -> dict[str, bool]:  # noqa: ARG002
        """A table that isn't as it was applied."""
        # Reported as findings, which read better in a preview than the table's listing.
        return {} if state.get("live") == state.get("applied") else {"findings": False}

    def planned(self, inputs: Data, old: Data | None) -> Data:
        """Known if only drift is repaired: the table will be as it was applied."""
        if old is None or old.get("rules") != inputs["rules"]:
            return {"applied": UNKNOWN, "live": UNKNOWN, "findings": []}
        return {"applied": old["applied"], "live": old["applied"], "findings": []}

    def create(self, inputs: Data) -> tuple[str, Data]:
        """Load the table."""
        return inputs["table"], self._apply(inputs)

    def read(self, resource_id: str, state: Data) -> Data | None:
        """The table as it is beside what was applied."""
        live = FirewallTable(resource_id, self._nft).read()
        if live is None:
            return None
        return {
            "applied": state["applied"],
            "live": live,
            "findings": differences(state["applied"], live),
        }

    def update(self, resource_id: str, old: Data, new: Data) -> Data:  # noqa: ARG002
        """Replace the whole table in one transaction."""
        return self._apply(new)

    def delete(self, resource_id: str, state: Data) -> None:  # noqa: ARG002
        """Take the table away."""
        FirewallTable(resource_id, self._nft).delete()

    def _apply(self, inputs: Data) -> Data:
        live = FirewallTable(inputs["table"], self._nft).apply(inputs["rules"])
        return {"applied": live, "live": live, "findings": []}
