"""The plan of `abox check`, and how answers are judged."""

from __future__ import annotations

import ast
import inspect
import json
import socket
from ipaddress import IPv4Address

import pytest

from abox.addresses import parse_any_literal
from abox.allowlist import Policy, parse_policy
from cli import probes
from cli.check import (
    allowed_request,
    denied_names,
    denied_port,
    look_alikes,
    parse_addresses,
    parse_answers,
    parse_listening,
    script_text,
)
from cli.probe_plan import (
    CLOSED,
    AllowedRequest,
    Answer,
    Neighbour,
    Probe,
    Surroundings,
    judge,
    plan_probes,
    spellings,
    to_script,
)

AROUND = Surroundings(
    gateway="10.10.3.2",
    proxy_port=8080,
    bridge_host="10.10.3.1",
    host_addresses=("172.17.0.1",),
    host_ports=(22,),
    listener_port=40000,
    neighbours=(Neighbour("other", "agent", "10.10.4.10"),),
    denied=("example.net", "example.org"),
    look_alikes=("xexample.com",),
    allowed=AllowedRequest("example.com", 443, "HEAD", "/"),
    denied_port=("example.com", 22),
    proxy_variables=("HTTP_PROXY",),
    trust_variables=("SSL_CERT_FILE",),
    address_reasons=frozenset({"special_purpose_address"}),
)


def probe(**changes) -> Probe:
    values = {
        "id": "p",
        "group": "network",
        "what": "w",
        "expectation": "e",
        "attempts": {"a": ("tcp", {}), "b": ("tcp", {})},
        "accepts": frozenset({"refused", "403 x"}),
    }
    return Probe(**{**values, **changes})


def planned(**changes) -> dict[str, Probe]:
    return {one.id: one for one in plan_probes(Surroundings(**{**AROUND.__dict__, **changes}))}


def test_a_probe_is_good_only_if_every_attempt_is():
    good = {"a": Answer("refused"), "b": Answer("403 x")}
    assert judge(probe(), good).state == "ok"
    row = judge(probe(), good | {"b": Answer("connected")})
    assert (row.state, row.ok) == ("open", False)
    assert "b: connected" in row.result


def test_a_missing_answer_is_bad():
    row = judge(probe(), {"a": Answer("refused")})
    assert row.state == "unproven"
    assert "b: no answer from the probe" in row.result


def test_a_probe_that_broke_is_bad():
    assert judge(probe(), {"a": Answer("refused"), "b": Answer("broken")}).state == "unproven"


def test_only_the_whole_outcome_or_its_first_word_counts():
    assert not judge(probe(), {"a": Answer("403"), "b": Answer("refused")}).ok
    assert not judge(probe(), {"a": Answer("403 y"), "b": Answer("refused")}).ok
    assert not judge(probe(), {"a": Answer(""), "b": Answer("refused")}).ok
    assert judge(probe(), {"a": Answer("refused at once"), "b": Answer("refused")}).ok


def test_a_late_answer_is_bad_where_time_matters():
    late = {"a": Answer("refused", "", 3.0), "b": Answer("refused")}
    assert judge(probe(), late).ok
    assert not judge(probe(within_s=2.0), late).ok


def test_a_control_that_fails_is_called_so():
    row = judge(probe(group="works"), {"a": Answer("dropped"), "b": Answer("refused")})
    assert row.state == "fails"


@pytest.mark.parametrize("passive", [False, True], ids=["active", "passive"])
def test_every_attempt_is_one_that_the_script_can_carry_out(passive):
    changes = {"denied": (), "look_alikes": (), "allowed": None} if passive else {}
    seen = set()
    for one in planned(**changes).values():
        assert one.attempts, one.id
        for kind, arguments in one.attempts.values():
            inspect.signature(probes.KINDS[kind]).bind(**arguments)
            seen.add(kind)
    unused = set(probes.KINDS) - seen
    # The frames are planned by who watches for them: tests/unit/cli/test_check_guest.py.
    assert unused <= {"frame", *(["resolve"] if passive else [])}


def test_ids_are_unique_and_every_expectation_is_told():
    found = plan_probes(AROUND)
    assert len({one.id for one in found}) == len(found)
    assert all(one.expectation and one.what for one in found)


@pytest.mark.parametrize(
    "outcome", ["connected", "open", "answered", "200", "NOERROR 1.2.3.4", "writable", "opened",
                "permitted", "found", "resolved 1.2.3.4", "0000003fffffffff"],
)  # fmt: skip
def test_no_refusal_probe_accepts_a_success(outcome):
    for one in plan_probes(AROUND):
        if one.group != "works" and one.id != "devices":
            assert outcome not in one.accepts, one.id
            assert outcome.split()[0] not in one.accepts, one.id


def test_the_whole_way_round_the_gateway_is_tried():
    ids = set(planned())
    assert {
        "health-dns", "health-http", "health-https", "allowed-name", "denied-dns", "denied-http",
        "denied-connect", "literal-http", "literal-connect", "fronting", "gateway-ports",
        "host-ports", "host-listener", "other-sandboxes", "direct-tcp", "direct-udp",
        "direct-echo", "ipv6", "capabilities", "no-new-privileges", "raw-sockets",
        "read-only-root", "engine-sockets", "kernel-settings",
    } <= ids  # fmt: skip


def test_direct_attempts_go_to_documentation_addresses_only():
    for one in plan_probes(AROUND):
        if one.id.startswith("direct"):
            for _, arguments in one.attempts.values():
                address = IPv4Address(arguments.get("host") or arguments["server"])
                assert str(address).startswith(("192.0.2.", "198.51.100.", "203.0.113."))


def test_the_proxy_port_is_not_among_the_closed_ones():
    _, arguments = planned(proxy_port=3128)["gateway-ports"].attempts["10.10.3.2"]
    assert 3128 not in arguments["ports"]
    assert {53, 9901, 8953, 22} <= set(arguments["ports"])


@pytest.mark.parametrize("address", ["127.0.0.1", "169.254.169.254", "10.0.0.5"])
def test_spellings_are_distinct_and_none_is_a_name_to_the_c_library(address):
    found = spellings(address)
    assert len(set(found)) == len(found) >= 15
    for text in found:
        bare = text.strip("[]").rstrip(".").replace("%2e", ".")
        if ":" not in bare:
            assert socket.inet_aton(bare) or parse_any_literal(bare)


def test_an_allowed_request_may_fail_upstream_but_not_by_name():
    one = planned()["allowed-name"]

    def state(outcome):
        return judge(one, {"request": Answer(outcome)}).state

    assert state("200") == state("404") == state("503") == "ok"
    assert state("denied special_purpose_address") == "ok"
    assert state("denied not_allowed") == state("400") == state("closed") == "fails"


def test_the_script_is_python_that_ends_in_the_plan():
    text = script_text([probe(attempts={"it's": ("tcp", {"host": "a'b", "port": 1})})])
    last = ast.parse(text).body[-1]
    assert isinstance(last, ast.Expr)
    call = last.value
    assert isinstance(call, ast.Call)
    assert ast.unparse(call.func) == "main"
    plan = json.loads(ast.literal_eval(call.args[0].args[0]))  # type: ignore[attr-defined]
    assert plan == {"p": {"it's": ["tcp", {"host": "a'b", "port": 1}]}}


def test_the_script_needs_nothing_but_the_standard_library():
    tree = ast.parse(inspect.getsource(probes))
    names = {
        alias.name.split(".")[0]
        for node in ast.walk(tree)
        for alias in getattr(node, "names", [])
        if isinstance(node, ast.Import)
    } | {
        node.module.split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module
    }
    import sys

    assert names <= sys.stdlib_module_names
    ast.parse(inspect.getsource(probes), feature_version=(3, 7))


def test_to_script_is_json():
    assert json.loads(json.dumps(to_script(plan_probes(AROUND))))


@pytest.mark.parametrize(
    "text",
    ["", "garbage", "[]", "3", '{"p": 3}', '{"p": {"a": ["refused"]}}', '{"p": {"a": [1, 2, 3]}}'],
)
def test_answers_in_another_form_do_not_count(text):
    assert not parse_answers(text).get("p", {}).get("a")


def test_answers_are_read_from_the_last_line():
    found = parse_answers('warning\n{"p": {"a": ["refused", "E", 0.5]}}\n')
    assert found == {"p": {"a": Answer("refused", "E", 0.5)}}


def policy(allow, **more) -> Policy:
    return parse_policy(allow, **more)


def test_denied_names_are_those_that_the_policy_denies():
    assert "example.com" not in denied_names(policy(["example.com"]))
    assert "example.net" in denied_names(policy(["example.com"]))
    assert denied_names(policy([{"host": "example.com", "ports": [8443]}]))[0] != "example.com"
    assert denied_names(policy(["*.example.com"]))[0] == "example.net"
    assert denied_names(policy([{"host": "*.example.com", "ports": [8443]}]))[0] == "example.net"
    assert denied_names(policy([], mode="passive", passive_acknowledged=True)) == ()


def test_look_alikes_of_an_allowed_name_are_denied():
    allowed = policy(["good.example.com"])
    found = look_alikes(allowed, denied_names(allowed))
    assert "good.example.com.example.com" in found
    assert "xgood.example.com" in found
    assert look_alikes(policy(["*.example.com"]), ("example.net",))


@pytest.mark.parametrize(
    ("entry", "wanted"),
    [
        ("a.example.com", AllowedRequest("a.example.com", 443, "HEAD", "/")),
        ("*.example.com", AllowedRequest("abox-check.example.com", 443, "HEAD", "/")),
        (
            {"host": "a.example.com", "ports": [80]},
            AllowedRequest("a.example.com", 80, "HEAD", "/"),
        ),
        (
            {"host": "a.example.com", "methods": ["GET"], "paths": ["/v1/*"]},
            AllowedRequest("a.example.com", 443, "GET", "/v1/abox-check"),
        ),
        ({"host": "a.example.com", "methods": ["DELETE"]}, None),
    ],
)
def test_an_allowed_request_is_harmless(entry, wanted):
    assert allowed_request(policy([entry])) == wanted


def test_a_port_that_is_not_allowed_is_found():
    assert denied_port(policy(["a.example.com"])) == ("a.example.com", 22)
    assert denied_port(policy([])) is None


def test_addresses_of_the_host_leave_loopback_out():
    text = json.dumps(
        [
            {"ifname": "lo", "addr_info": [{"family": "inet", "local": "127.0.0.1"}]},
            {
                "ifname": "e",
                "addr_info": [{"family": "inet", "local": "192.0.2.2"}, {"family": "inet6"}],
            },
        ]
    )
    assert parse_addresses(text) == ["192.0.2.2"]
    assert parse_addresses("no json") == []


def test_listening_ports_are_read_from_the_kernels_table():
    text = (
        "  sl  local_address rem_address   st tx_queue\n"
        "   0: 00000000:07E8 00000000:0000 0A 00000000\n"
        "   1: 0100007F:1F90 0100007F:9999 01 00000000\n"
    )
    assert parse_listening(text) == {2024}


def test_closed_outcomes_are_no_successes():
    assert not CLOSED & {"connected", "answered", "open", "200"}
