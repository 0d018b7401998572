"""The figures of the README, rendered from bench/results.json."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bench.figures import Figure, render_table
from bench.rows import ABOX, Row, render_rows

BEGIN, END = "<!-- figures -->\n", "<!-- /figures -->"
DIRECT = "direct"
HTTP_SUBJECTS = (ABOX, DIRECT, "Envoy", "Squid", "tinyproxy", "mitmproxy")
DNS_SUBJECTS = (ABOX, "Unbound", "dnsmasq")
RELOAD_SUBJECTS = (ABOX, "Unbound")


def replace_figures(readme: str, results: Mapping[str, Any]) -> str:
    """A README with the tables of these results.

    Raises: ValueError if it has no place for them.
    """
    before, begin, rest = readme.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the README lacks {BEGIN.strip()} or {END}")
    return before + begin + render_figures(results) + end + after


def render_figures(results: Mapping[str, Any]) -> str:
    """All tables with a line that says what they are of."""
    parts = [_INTRODUCTION.format(cores=results["machine"]["cores"], rounds=results["rounds"])]
    life = [Figure.from_document(one) for part in _lives(results) for one in part["figures"]]
    parts.append(render_table(life))
    if "data_plane" in results:
        rows = [Row.from_document(one) for one in results["data_plane"]["rows"]]
        names = [row for row in rows if row.id.startswith("dns-")]
        reloads = [row for row in rows if row.id.startswith("reload-")]
        http = [row for row in rows if row not in names and row not in reloads]
        parts.append("Beside other proxies, which take turns in the same network namespace:\n")
        for some, subjects in (
            (http, HTTP_SUBJECTS), (names, DNS_SUBJECTS), (reloads, RELOAD_SUBJECTS)
        ):  # fmt: skip
            parts.append(render_rows(some, _there(subjects, some)))
    return "\n".join(parts)


_INTRODUCTION = """\
Measured by `make bench`, which writes `bench/results.json` and these tables, on {cores} cores that
load, origin and everything else share; medians of {rounds} rounds. Seconds are those of one slow
machine: the ratios say more.
"""


def _lives(results: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [results, *([results["vm"]] if "vm" in results else [])]


def _there(subjects: Sequence[str], rows: Sequence[Row]) -> list[str]:
    """Those of some subjects that take part in a row."""
    found = {name for row in rows for name in (*row.values, *row.failures)}
    return [name for name in subjects if name in found]
