"""The judge of VM definitions: a wrong expectation fails, a right one doesn't."""

from __future__ import annotations

from typing import Any

import pytest

from abox.settings import parse_settings
from tests.cases.machine_layer import Definition, run_machine
from tests.cases.model import Case

SETTINGS = parse_settings("dev", {"backend": "vm", "allow": ["allowed.test"]})


def case(config: dict[str, Any], **expect: Any) -> Case:
    return Case(
        id="x--y",
        layer="nwfilter",
        backend="none",
        given={},
        do={"config": {"backend": "vm", **config}},
        expect=expect,
    )


DNS = {"dir": "out", "proto": "udp", "to": "{gateway}", "dport": 53}
LEASE = {"dir": "out", "proto": "udp", "sport": 68, "to": "255.255.255.255", "dport": 67}


@pytest.mark.parametrize(
    ("expect", "right"),
    [
        ({"filter_accepts": [DNS]}, True),
        ({"filter_accepts": [LEASE]}, False),
        ({"filter_refuses": [LEASE]}, True),
        ({"filter_refuses": [DNS]}, False),
        ({"cloud_init": {"dhcp": False, "nameservers": ["{gateway}"], "search": []}}, True),
        ({"cloud_init": {"dhcp": True}}, False),
        ({"cloud_init": {"instance_id_stable": True}}, True),
        ({"something_else": True}, False),
    ],
    ids=str,
)
def test_only_what_holds_is_found_to_hold(expect: dict[str, Any], right: bool) -> None:
    assert (run_machine(case({}, **expect)) == []) is right


def test_a_refusal_counts_only_where_it_is_expected() -> None:
    bad = {"mac": "52-54"}
    assert run_machine(case(bad, or_config_error=True)) == []
    assert run_machine(case(bad)) != []


@pytest.mark.parametrize(
    "packet",
    [
        {"dir": "in", "proto": "tcp", "from": "10.10.7.1", "dport": 8000},
        {"dir": "in", "proto": "tcp", "from": "10.10.7.77", "dport": 22},
        {"dir": "in", "proto": "tcp", "from": "10.10.7.2", "dport": 22},
        {"dir": "in", "proto": "tcp", "from": "10.10.7.2", "sport": 8080, "dport": 4000},
        {"dir": "out", "proto": "tcp", "to": "10.10.7.1", "dport": 22},
        {"dir": "out", "proto": "tcp", "to": "10.10.7.1", "sport": 22, "dport": 4000},
        {"dir": "out", "proto": "udp", "to": "10.10.7.2", "dport": 8080},
        {"dir": "out", "proto": "tcp", "to": "10.10.7.2", "dport": 53},
        {"dir": "out", "proto": "tcp", "to": "fe80::1", "dport": 8080},
        {"dir": "out", "proto": "udp", "from": "10.10.7.77", "to": "10.10.7.2", "dport": 53},
    ],
    ids=str,
)
def test_the_filters_hold_every_other_beginning(packet: dict[str, Any]) -> None:
    assert not Definition(SETTINGS).passes(packet)
