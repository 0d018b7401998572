"""What the pod's resolvers answer, what they ask, and what they say about a refusal."""

from __future__ import annotations

import json
import secrets
import socket
import time
from collections import Counter

import dns.edns
import dns.flags
import dns.message
import dns.opcode
import dns.rcode
import dns.rdatatype
import dns.update
import pytest

from abox.allowlist import Deny, judge_name, parse_policy
from abox.name_shape import WILDCARD_NAME_MAX
from tests.integration.gateway.conftest import ALLOW, CIDRS, NAMES, Gateway

pytestmark = pytest.mark.integration

BLOCKED, PROHIBITED, NO_REACHABLE_AUTHORITY = 15, 18, 22
LONG = f"{'x.' * 74}xx.wild.test"
"""Just as long as what a wildcard covers."""


def ask(gateway: Gateway, question: dns.message.Message) -> dns.message.Message | None:
    """The answer to a message; None if none comes."""
    (answer,) = gateway.client.ask("dns", {"wire": question.to_wire().hex()})
    return dns.message.from_wire(bytes.fromhex(answer["wire"])) if answer["wire"] else None


def records(gateway: Gateway, wire: bytes) -> int:
    """How many records answer a message: its question may be one that can't be read."""
    (answer,) = gateway.client.ask("dns", {"wire": wire.hex()})
    return int(answer["wire"][12:16] or "0", 16)


def query(gateway: Gateway, name: str, kind: str = "A", **options) -> dns.message.Message:
    """The answer to an ordinary question with EDNS."""
    answer = ask(gateway, dns.message.make_query(name, kind, use_edns=0, payload=1232, **options))
    assert answer is not None
    return answer


def error(answer: dns.message.Message) -> tuple[int, str] | None:
    """Code and text of the extended error."""
    found = [option for option in answer.options if isinstance(option, dns.edns.EDEOption)]
    assert len(found) <= 1
    return (int(found[0].code), found[0].text or "") if found else None


def status(answer: dns.message.Message | None) -> str:
    """The response code, or `none`."""
    return "none" if answer is None else dns.rcode.to_text(answer.rcode())


DENIALS = {
    "off-the-list": "secret.evil.test", "denied": "no.wild.test", "below-denied": "a.no.wild.test",
    "reserved": "x.abox.local", "host": "host.docker.internal", "single-label": "test",
    "odd-label": "a*b.wild.test", "literal": "198.51.100.10", "too-long": f"y{LONG}",
    "long-off-the-list": f"{'x.' * 90}evil.test",
}  # fmt: skip


@pytest.mark.parametrize("name", DENIALS.values(), ids=DENIALS)
def test_dns_6_a_denial_says_why_and_says_what_the_proxy_says(gateway: Gateway, name: str):
    deny = ["no.wild.test", "*.no.wild.test"]
    gateway.apply(deny=deny)
    assert error(query(gateway, "allowed.test")) is None
    time.sleep(0.2)  # the reason may lag behind a change by a tenth of a second
    judged = judge_name(parse_policy(ALLOW, deny, allow_private_cidrs=CIDRS), name)
    assert isinstance(judged, Deny)
    for kind in ("A", "HTTPS", "TXT"):
        answer = query(gateway, name, kind)
        assert (status(answer), error(answer)) == ("NXDOMAIN", (BLOCKED, judged.reason.value))
    refused = gateway.get(f"http://{name}/")
    assert refused["status"] in (400, 403)
    if "*" not in name:  # which no URL has in a host: the proxy calls the request malformed
        assert json.loads(refused["body"])["reason"] == judged.reason.value


def test_dns_6_without_edns_a_denial_is_as_plain_as_the_question(gateway: Gateway):
    answer = ask(gateway, dns.message.make_query("secret.evil.test", "A", use_edns=False))
    assert answer is not None
    assert (status(answer), answer.edns) == ("NXDOMAIN", -1)


def test_dns_6_after_many_reloads_the_reason_is_given_once(gateway: Gateway):
    for number in range(4):
        zone = f"{secrets.token_hex(4)}.test"
        cidrs = [*CIDRS, f"10.66.{number}.0/24"]
        gateway.apply([*ALLOW, f"*.{zone}"], allow_private_cidrs=cidrs, dns_queries_per_minute=1)
        assert error(query(gateway, "secret.evil.test")) == (BLOCKED, "not_allowed")
        found = [error(query(gateway, f"{secrets.token_hex(8)}.{zone}")) for _ in range(2)]
        assert found == [None, (PROHIBITED, "query_budget_spent")]


def spend(gateway: Gateway, zone: str, times: int) -> Counter[tuple[str, tuple[int, str] | None]]:
    """Ask for made-up names below a zone; how often each kind of answer came."""
    found: Counter[tuple[str, tuple[int, str] | None]] = Counter()
    for _ in range(times):
        answer = query(gateway, f"{secrets.token_hex(8)}.{zone}", "TXT")
        found[status(answer), error(answer)] += 1
    return found


def test_dns_7_a_zone_s_budget_ends_what_its_names_can_carry(gateway: Gateway):
    zone, other = f"{secrets.token_hex(4)}.test", f"{secrets.token_hex(4)}.test"
    gateway.apply([*ALLOW, f"*.{zone}", f"*.{other}"], dns_queries_per_minute=30)
    start = time.monotonic()
    found = spend(gateway, zone, 90)
    over = ("REFUSED", (PROHIBITED, "query_budget_spent"))
    assert found == {("NXDOMAIN", None): 30, over: 60}
    assert gateway.world.dns.queries(zone) == 30
    assert time.monotonic() - start < 50  # seconds: at once, not after a time-out each
    assert spend(gateway, other, 1) == {("NXDOMAIN", None): 1}
    assert status(query(gateway, "allowed.test", "AAAA")) == "NOERROR"


def test_dns_7_the_proxy_s_own_questions_have_the_budget_too(gateway: Gateway):
    zone = f"{secrets.token_hex(4)}.test"
    gateway.world.dns.set({**NAMES, f"*.{zone}": ["198.51.100.20"]})
    gateway.apply([*ALLOW, f"*.{zone}"], dns_queries_per_minute=20)
    answers = [gateway.get(f"http://{secrets.token_hex(8)}.{zone}/") for _ in range(40)]
    assert {answer["status"] for answer in answers[:5]} == {200}
    assert {answer["status"] for answer in answers[-5:]} <= {502, 503}
    assert gateway.world.dns.queries(zone) <= 20
    assert gateway.get("http://allowed.test/")["status"] == 200


def test_dns_7_a_name_that_failed_costs_the_proxy_nothing_until_it_is_asked_for(gateway: Gateway):
    name = f"f{secrets.token_hex(4)}.wild.test"
    gateway.world.dns.set(NAMES, fail={name: "SERVFAIL"})
    assert gateway.get(f"http://{name}/")["status"] == 502
    asked = gateway.world.dns.queries(name)
    assert asked > 0
    time.sleep(7)  # longer than the resolver keeps a failure
    assert gateway.world.dns.queries(name) == asked
    gateway.world.dns.set({**NAMES, name: ["198.51.100.20"]})
    assert gateway.get(f"http://{name}/")["status"] == 200


def test_dns_7_a_name_in_use_costs_the_proxy_one_question_in_five_seconds(gateway: Gateway):
    name = f"f{secrets.token_hex(4)}.wild.test"
    gateway.world.dns.set({**NAMES, name: ["198.51.100.20"]})  # for one second, says the answer
    assert gateway.get(f"http://{name}/")["status"] == 200
    asked = gateway.world.dns.queries(name)
    time.sleep(8)
    assert asked < gateway.world.dns.queries(name) <= 3 * asked


def test_dns_7_what_a_cache_answers_costs_nothing(gateway: Gateway):
    name = f"{secrets.token_hex(4)}.test"
    gateway.world.dns.set({**NAMES, name: ["198.51.100.20"]})
    gateway.apply([*ALLOW, name], dns_queries_per_minute=5)
    found = Counter(status(query(gateway, name)) for _ in range(100))
    assert found["NOERROR"] > 5  # the world's records live for one second
    assert gateway.world.dns.queries(name) <= 5


def test_dns_8_a_name_too_long_for_a_wildcard_leaves_no_query(gateway: Gateway):
    fits, too_long = LONG, f"y{LONG}"
    assert (len(fits), len(too_long)) == (WILDCARD_NAME_MAX, WILDCARD_NAME_MAX + 1)
    assert status(query(gateway, fits)) == "NOERROR"
    gateway.world.clear_records()
    assert error(query(gateway, too_long)) == (BLOCKED, "name_too_long")
    for url in (f"http://{too_long}/", f"https://{too_long}/"):
        answer = gateway.get(url)
        assert answer["status"] == 403
        assert json.loads(answer["body"])["reason"] == "name_too_long"
    assert gateway.world.dns.queries(too_long) == 0
    gateway.apply([*ALLOW, too_long])
    assert status(query(gateway, too_long)) == "NOERROR"
    assert gateway.get(f"http://{too_long}/")["status"] == 200


FAILURES = ["SERVFAIL", "REFUSED", "NOTIMP", "FORMERR", "timeout"]


@pytest.mark.parametrize("failure", FAILURES)
def test_dns_9_a_failing_upstream_gives_servfail_and_nothing_else(gateway: Gateway, failure: str):
    name = f"f{secrets.token_hex(4)}.wild.test"
    gateway.world.dns.set({"allowed.test": ["198.51.100.10"]}, fail={name: failure})
    assert status(query(gateway, "allowed.test")) == "NOERROR"
    answer = ask(gateway, dns.message.make_query(name, "A", use_edns=0))
    if failure != "timeout":
        assert status(answer) == "SERVFAIL"
    if answer is not None:
        assert not answer.answer
        assert error(answer) == (NO_REACHABLE_AUTHORITY, "upstream_name")


def odd_messages(name: str) -> dict[str, bytes]:
    """Messages about a name that are no ordinary question."""

    def made(kind: str = "A", rdclass: str = "IN") -> dns.message.Message:
        return dns.message.make_query(name, kind, rdclass)

    notify = made("SOA")
    notify.set_opcode(dns.opcode.NOTIFY)
    status_query = made()
    status_query.set_opcode(dns.opcode.STATUS)
    unknown = made()
    unknown.flags |= 7 << 11
    update = dns.update.UpdateMessage(name)
    update.add("x", 60, "TXT", "data")
    response = made()
    response.flags |= dns.flags.QR
    plain = made().to_wire()
    two = plain[:4] + b"\0\2" + plain[6:] + plain[12:]
    return {
        "chaos": made("TXT", "CH").to_wire(), "any-class": made("A", "ANY").to_wire(),
        "hesiod": made("A", "HS").to_wire(), "none-class": made("A", "NONE").to_wire(),
        "axfr": made("AXFR").to_wire(), "ixfr": made("IXFR").to_wire(),
        "any": made("ANY").to_wire(), "maila": made("MAILA").to_wire(),
        "type-65280": made("TYPE65280").to_wire(), "type-0": made("TYPE0").to_wire(),
        "opt-as-type": made("TYPE41").to_wire(), "null": made("NULL").to_wire(),
        "notify": notify.to_wire(), "update": update.to_wire(), "opcode-7": unknown.to_wire(),
        "status": status_query.to_wire(), "response": response.to_wire(), "two-questions": two,
        "no-question": plain[:4] + b"\0\0" + plain[6:12], "cut": plain[:-3], "head": plain[:12],
        "pointer-loop": plain[:12] + b"\xc0\x0c\0\1\0\1",
        "pointer-away": plain[:12] + b"\xc0\xff\0\1\0\1", "trailing": plain + b"x" * 40,
        "label-64": plain[:12] + b"\x40" + b"a" * 64 + b"\0\0\1\0\1", "empty": b"\0\0",
    }  # fmt: skip


ODD = list(odd_messages("x.test"))


@pytest.mark.parametrize("kind", ODD)
def test_dns_10_no_odd_message_carries_a_denied_name_out(gateway: Gateway, kind: str):
    assert status(query(gateway, "allowed.test")) == "NOERROR"
    gateway.world.clear_records()
    assert records(gateway, odd_messages("secret.evil.test")[kind]) == 0
    assert gateway.foreign_queries() == []
    assert gateway.world.dns.queries("evil.test") == 0
    assert status(query(gateway, "allowed.test")) == "NOERROR"


@pytest.mark.parametrize("kind", ODD)
def test_dns_10_no_odd_message_about_an_allowed_name_gets_more_than_a_question(
    gateway: Gateway, kind: str
):
    assert status(query(gateway, "allowed.test")) == "NOERROR"
    gateway.world.clear_records()
    assert records(gateway, odd_messages("allowed.test")[kind]) <= 1
    assert gateway.foreign_queries() == []
    kinds = {kind for _, kind, _ in gateway.world.dns.asked()}
    assert not kinds & {"unreadable", "AXFR", "IXFR"}


@pytest.mark.parametrize("name", ["version.bind", "version.server", "id.server", "hostname.bind",
                                  "trustanchor.unbound", "authors.bind"])  # fmt: skip
def test_dns_10_the_resolver_tells_nothing_of_itself(gateway: Gateway, name: str):
    answer = ask(gateway, dns.message.make_query(name, "TXT", "CH"))
    assert answer is None or not answer.answer


def test_dns_11_an_exact_name_is_that_name_in_any_letter_case(gateway: Gateway):
    for name in ("allowed.test", "ALLOWED.test", "aLLoWeD.TeSt"):
        question = dns.message.make_query(name, "A")
        answer = ask(gateway, question)
        assert answer is not None
        assert status(answer) == "NOERROR"
        shown = answer.question[0].name.to_text(omit_final_dot=True)
        assert shown == name  # a client that randomises letters looks for its own
        assert [data.to_text() for rrset in answer.answer for data in rrset] == ["198.51.100.10"]
    gateway.world.clear_records()
    for name in ("www.allowed.test", "xallowed.test", "allowed.test.evil.test", "wild.test"):
        assert status(query(gateway, name)) == "NXDOMAIN"
    assert gateway.foreign_queries() == []


def test_dns_12_a_cut_answer_leads_nowhere_else(gateway: Gateway):
    gateway.world.dns.set({}, records=[{"name": "long.wild.test", "type": "TXT", "bytes": 3000}])
    answer = query(gateway, "long.wild.test", "TXT")
    assert answer.flags & dns.flags.TC
    assert not answer.answer
    assert len(answer.to_wire()) <= 1232
    with pytest.raises(OSError):  # noqa: PT011 - refused or unreachable
        socket.create_connection((gateway.pod.gateway, 53), timeout=3).close()


@pytest.mark.parametrize("payload", [512, 4096, 65535])
def test_dns_12_no_answer_is_larger_than_a_packet(gateway: Gateway, payload: int):
    gateway.world.dns.set({}, records=[{"name": "big.wild.test", "type": "TXT", "bytes": 1100}])
    question = dns.message.make_query("big.wild.test", "TXT", use_edns=0, payload=payload)
    (answer,) = gateway.client.ask("dns", {"wire": question.to_wire().hex()})
    assert len(answer["wire"]) // 2 <= min(payload, 1232)
    assert answer["truncated"] == (payload == 512)


def test_dns_13_an_alias_into_the_denylist_is_refused(gateway: Gateway):
    names = {"cdn.other.example": ["198.51.100.10"], "up.wild.test": ["198.51.100.20"]}
    records = [
        {"name": "alias.wild.test", "type": "CNAME", "data": "up.wild.test."},
        {"name": "far.wild.test", "type": "CNAME", "data": "alias.wild.test."},
        {"name": "fine.wild.test", "type": "CNAME", "data": "cdn.other.example."},
    ]
    gateway.world.dns.set(names, records=records)
    gateway.apply(deny=["up.wild.test"])
    assert status(query(gateway, "fine.wild.test")) == "NOERROR"
    for name in ("alias.wild.test", "far.wild.test"):
        for _ in range(2):  # the second time a cache could answer
            answer = query(gateway, name)
            assert (status(answer), error(answer)) == ("NXDOMAIN", (BLOCKED, "denied"))
        assert gateway.get(f"http://{name}/")["status"] in (502, 503)
    assert not gateway.reached("198.51.100.20")
    assert gateway.get("http://fine.wild.test/")["status"] == 200
