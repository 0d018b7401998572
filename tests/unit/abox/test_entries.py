"""Entries: what can't be enforced is an error that says where, why and what to write."""

from ipaddress import ip_network
from typing import Any

import pytest

from abox.entries import Around, Entry, parse_denied, parse_entries
from abox.errors import AboxErrors, PolicyError

AROUND = Around(cidrs=[ip_network("198.51.100.0/24"), ip_network("2001:db8::/32")])


@pytest.mark.parametrize(
    ("raw", "entry"),
    [
        ("example.com", Entry(host="example.com")),
        ("EXAMPLE.com.", Entry(host="example.com")),
        ("*.example.org", Entry(host="*.example.org")),
        ("*.wild.test", Entry(host="*.wild.test")),
        ("Bücher.example", Entry(host="xn--bcher-kva.example")),
        ("*.Bücher.example", Entry(host="*.xn--bcher-kva.example")),
        ("github.io", Entry(host="github.io")),
        ("198.51.100.10", Entry(host="198.51.100.10")),
        ("2001:db8::10", Entry(host="2001:db8::10")),
        ({"host": "a.test"}, Entry(host="a.test")),
        ({"host": "a.test", "ports": [8443, 443, 443]}, Entry(host="a.test", ports=(443, 8443))),
        ({"host": "a.test", "ports": [443.0]}, Entry(host="a.test", ports=(443,))),
        (
            {"host": "a.test", "methods": ["POST", "GET"]},
            Entry(host="a.test", methods=("GET", "POST")),
        ),
        ({"host": "a.test", "methods": ["PROPFIND"]}, Entry(host="a.test", methods=("PROPFIND",))),
        ({"host": "a.test", "paths": ["/v1/*"]}, Entry(host="a.test", paths=("/v1/*",))),
        ({"host": "a.test", "methods": [], "paths": []}, Entry(host="a.test")),
    ],
    ids=str,
)
def test_an_entry_is_read_and_normalised(raw: object, entry: Entry) -> None:
    assert parse_entries([raw], "allow", AROUND) == (entry,)


REFUSED: list[Any] = [
    "*",
    "*.",
    "",
    " ",
    ".",
    "com",
    "*.com",
    "*.net",
    "co.uk",
    "*.co.uk",
    "*.github.io",
    "*.test",
    "*.*.example.com",
    "**.example.com",
    "a.*.example.com",
    "*example.com",
    "exam*ple.com",
    "https://allowed.test/path",
    "allowed.test/path",
    "allowed.test:443",
    "allowed.test:",
    "::1:443",
    "::1",
    "user@allowed.test",
    "[allowed.test]",
    "a" * 64 + ".wild.test",
    "a.test b.test",
    'a.test." transparent\nlocal-zone: "." transparent',
    "a.test\n",
    "a.test\x00",
    "a..test",
    "localhost",
    "foo.localhost",
    "host.docker.internal",
    "*.docker.internal",
    "healthcheck.abox.local",
    "*.abox.local",
    "198.51.100.10/32",
    "198.51.101.10",
    "8.8.8.8",
    "127.0.0.1",
    "127.1",
    "2130706433",
    "0x7f000001",
    "0306.51.100.10",
    "198.51.100.10.",
    "[2001:db8::10]",
    "2001:DB8::10",
    "::ffff:198.51.100.10",
    "1.2.3.4.5",
    "%61llowed.test",
    "allowed.test,evil.test",
    "*.1.2.3.4",
    "{subnet}",
    7,
    None,
    True,
    ["a.test"],
    {},
    {"hosts": "a.test"},
    {"host": None},
    {"host": ["a.test"]},
    {"host": "a.test", "port": 443},
    {"host": "a.test", "ports": 443},
    {"host": "a.test", "ports": []},
    {"host": "a.test", "ports": [0]},
    {"host": "a.test", "ports": [65536]},
    {"host": "a.test", "ports": [-1]},
    {"host": "a.test", "ports": [True]},
    {"host": "a.test", "ports": ["443"]},
    {"host": "a.test", "ports": [443.5]},
    {"host": "a.test", "ports": [float("nan")]},
    {"host": "a.test", "ports": "443"},
    {"host": "a.test", "ports": None},
    {"host": "a.test", "methods": "GET"},
    {"host": "a.test", "methods": ["get"]},
    {"host": "a.test", "methods": ["CONNECT"]},
    {"host": "a.test", "methods": ["G ET"]},
    {"host": "a.test", "methods": [7]},
    {"host": "a.test", "paths": ["v1"]},
    {"host": "a.test", "paths": ["/a%2Fb"]},
    {"host": "a.test", "paths": ["/a/../b"]},
    {"host": "a.test", "paths": [7]},
    {"host": "a.test", "paths": "/v1"},
    {"host": "a.test", "tls": "pass"},
    {"host": "a.test", "tls": True},
    {"host": "a.test", "tls": "passthrough", "methods": ["GET"]},
    {"host": "a.test", "tls": "passthrough", "paths": ["/v1/*"]},
    {
        "host": "a.test",
        "tls": "passthrough",
        "inject": {"header": "Authorization", "secret": "api_key"},
    },
    {"host": "a.test", "inject": {"header": "Host", "secret": "api_key"}},
    {"host": "*", "ports": [443]},
]


@pytest.mark.parametrize("raw", REFUSED, ids=repr)
def test_what_cannot_be_enforced_is_refused_with_position_reason_and_remedy(raw: object) -> None:
    with pytest.raises(AboxErrors) as caught:
        parse_entries(["ok.test", raw, "also-ok.test"], "abox:sandbox.allow", AROUND)
    (error,) = caught.value.errors
    assert isinstance(error, PolicyError)
    assert error.what.startswith("abox:sandbox.allow[1]")
    assert error.what.endswith("is refused")
    assert error.why
    assert error.remedy


def test_ten_bad_entries_are_ten_errors_with_positions_of_the_input() -> None:
    mixed = [item for pair in zip(["ok.test"] * 10, REFUSED[:10], strict=True) for item in pair]
    with pytest.raises(AboxErrors) as caught:
        parse_entries(mixed, "allow")
    positions = [error.what.split("]")[0] for error in caught.value.errors]
    assert positions == [f"allow[{i}" for i in range(1, 20, 2)]


def test_one_entry_with_three_faults_is_three_errors() -> None:
    raw = {"host": "*", "ports": [0], "methods": ["get"], "paths": ["/v1/*"]}
    with pytest.raises(AboxErrors) as caught:
        parse_entries(["ok.test", raw], "allow")
    told = [error.what.split(":")[0] for error in caught.value.errors]
    assert told == ["allow[1]", "allow[1].ports", "allow[1].methods"]


def test_an_unknown_key_names_the_nearest_and_lists_all() -> None:
    with pytest.raises(AboxErrors) as caught:
        parse_entries([{"host": "a.test", "pots": [1]}], "allow")
    assert "did you mean 'ports'?" in caught.value.remedy
    assert "host, inject, methods, paths, ports, tls" in caught.value.remedy


@pytest.mark.parametrize("limits", [{"methods": ["GET"]}, {"paths": ["/v1/*"]}])
def test_limits_that_nobody_could_see_inside_tls_are_refused(limits: dict[str, Any]) -> None:
    raw = [{"host": "a.test", **limits}]
    assert parse_entries(raw, "allow")
    with pytest.raises(AboxErrors, match="tls_interception"):
        parse_entries(raw, "allow", Around(tls_interception=False))


def test_overlapping_entries_stand_beside_each_other_and_repetitions_fall_out() -> None:
    raw = ["api.allowed.test", "*.allowed.test", "allowed.test", "API.allowed.test."]
    hosts = [entry.host for entry in parse_entries(raw, "allow")]
    assert hosts == ["api.allowed.test", "*.allowed.test", "allowed.test"]


@pytest.mark.parametrize(
    ("raw", "host"),
    [("a.test", "a.test"), ("*.A.test.", "*.a.test"), ("*.zip", "*.zip"), ("*.co.uk", "*.co.uk")],
)
def test_the_denylist_may_be_broad(raw: str, host: str) -> None:
    assert parse_denied([raw], "deny") == (host,)


@pytest.mark.parametrize(
    "raw",
    [
        "*",
        "",
        "zip",
        "a b",
        "10.0.0.1",
        "127.1",
        "a.test:1",
        "healthcheck.abox.local",
        7,
        {"host": "a.test"},
        "*.*.test",
        "http://a.test",
    ],
    ids=repr,
)
def test_a_denied_entry_that_would_not_hold_is_refused(raw: object) -> None:
    with pytest.raises(AboxErrors) as caught:
        parse_denied([raw], "abox:sandbox.deny")
    assert caught.value.what.startswith("abox:sandbox.deny[0]")


def test_a_long_value_is_cut_in_the_error() -> None:
    with pytest.raises(AboxErrors) as caught:
        parse_entries(["x" * 10_000], "allow")
    assert len(caught.value.what) < 200


def test_an_entry_reads_as_the_rule_of_a_verdict() -> None:
    entry = Entry(host="a.test", ports=(443,), methods=("GET", "POST"), paths=("/v1/*",))
    assert str(entry) == "a.test ports 443 GET,POST /v1/*"
    assert str(Entry(host="*.a.test")) == "*.a.test"
