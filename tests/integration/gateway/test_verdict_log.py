"""The verdict log of a real pod: who writes what, what a flood does to it, and what it outlives."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import socket
import time
from collections.abc import Iterator

import dns.edns
import dns.message
import jsonschema
import pytest

from abox import pod
from abox.allowlist import Deny, Mode, Request, Verdict, judge_name, parse_policy, verdict
from abox.profile import make_profile
from abox.seen_names import SeenNames
from abox.verdict_log import CLASSES, FILES, Cause, Kind, Outcome, Source, schema
from abox.verdict_log import Verdict as Line
from tests import host
from tests.cases.log_volume import collector_pid, full_log_volume
from tests.integration.gateway.conftest import ALLOW, CIDRS, Gateway

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]

WAIT_S = 30
"""A line is there after a second; a loaded machine takes longer."""


def wait_for(condition, describe=lambda: "it never held") -> None:
    host.wait_until(condition, timeout_s=WAIT_S, describe=describe)


def label() -> str:
    """A name's first label that no test has asked for."""
    return f"n{secrets.token_hex(4)}"


def lines_about(gateway: Gateway, name: str, source: Source | None = None) -> list[Line]:
    return [
        line
        for line in gateway.pod.verdicts()
        if line.name == name and source in (None, line.source)
    ]


def lines_of(gateway: Gateway, name: str, number: int = 1) -> list[Line]:
    """Lines about a name, once there are as many."""
    wait_for(lambda: len(lines_about(gateway, name)) >= number, lambda: f"no lines about {name}")
    return lines_about(gateway, name)


def flood(gateway: Gateway, names: list[str]) -> None:
    """Ask the DNS filter for names, as fast as it answers."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.connect((gateway.pod.gateway, 53))
        client.settimeout(1)
        for start in range(0, len(names), 64):
            part = names[start : start + 64]
            for name in part:
                client.send(dns.message.make_query(name, "A").to_wire())
            with contextlib.suppress(TimeoutError):
                for _ in part:
                    client.recv(512)


@contextlib.contextmanager
def log_that_can_not_be_written(gateway: Gateway) -> Iterator[None]:
    with full_log_volume(gateway.pod.containers.__getitem__):
        yield


def test_log_1_every_query_and_request_has_a_line_by_the_published_schema(gateway: Gateway):
    allowed, denied = f"{label()}.wild.test", f"{label()}.test"
    gateway.world.dns.set({allowed: ["198.51.100.20"]})
    assert gateway.resolve(allowed)["rcode"] == "NOERROR"
    assert gateway.resolve(denied, "TXT")["rcode"] == "NXDOMAIN"
    assert gateway.get(f"http://{allowed}/p/a?token=1", method="POST")["status"] == 200
    assert gateway.get(f"https://{allowed}/")["status"] == 200
    assert gateway.get(f"http://{denied}/")["status"] == 403
    found = {line.name: line for line in lines_of(gateway, allowed, 4)}
    by_path = {getattr(line, "path", line.source): line for line in lines_about(gateway, allowed)}
    plain, query = by_path["/p/a"].to_document(), by_path["dns"].to_document()
    assert found
    assert plain | {"time": "", "duration_ms": 0} == plain | {
        "time": "", "duration_ms": 0, "sandbox": gateway.pod.name, "kind": "single", "count": 1,
        "verdict": "allow", "name": allowed, "port": 80, "method": "POST", "path": "/p/a",
        "status": 200, "reason": None, "rule": "*.wild.test", "address": None,
        "protocol": "HTTP/1.1", "cut": [], "tunnel": False,
    }  # fmt: skip
    assert plain["sent"] > 0
    assert by_path["/"].to_document()["address"] == "198.51.100.20:443"
    assert (query["verdict"], query["rcode"], query["type"]) == ("allow", "NOERROR", "A")
    (refused,) = lines_about(gateway, denied, Source.HTTP)
    assert (refused.verdict, refused.reason, refused.rule) == ("deny", "not_allowed", None)
    (asked,) = lines_of(gateway, denied, 2)[:1]
    assert asked.verdict is Outcome.DENY
    assert abs(asked.time - time.time()) < WAIT_S + 2
    validator = jsonschema.Draft202012Validator(schema())
    documents = [
        json.loads(line)
        for name in FILES.values()
        for path in gateway.pod.log_folder.glob(f"{name}*")
        for line in path.read_text().splitlines()
    ]
    for document in documents:
        validator.validate(document)
    for source, kind in CLASSES.items():  # the other way: the schema promises nothing unseen
        seen = {field for one in documents if one["source"] == source for field in one}
        assert seen == {"source", *kind.__dataclass_fields__}


OVERRIDE = "\xe2\x80\xae"
"""A character that turns the direction of text around, as bytes."""
HOSTILE = f"\x1b[2J\x07\x9b{OVERRIDE}"


def test_log_2_nothing_that_an_agent_sends_forges_a_line(gateway: Gateway):
    mark = label()
    raw = (
        f'GET http://user:s3cr3t-1@{mark}.test/a"b\\%0a%1b[2J{{"x":1}}?s3cr3t-2 HTTP/1.1\r\n'
        f"Host: {mark}.test\r\nAuthorization: Bearer s3cr3t-3\r\nUser-Agent: {OVERRIDE}\r\n\r\n"
    )
    assert gateway.raw(raw)["status"] == 403
    gateway.raw(f"GET http://{mark}.test/{HOSTILE} HTTP/1.1\r\nHost: x\r\n\r\n")
    gateway.raw(f'G"{{,ET http://{mark}.test/ HTTP/1.1\r\nHost: x\r\n\r\n')
    gateway.raw(f"GET http://{mark}.test/{'p' * 5000} HTTP/1.1\r\nHost: x\r\n\r\n")
    labels = [f"{mark}\n[1] unbound", 'a"b\x1b[2J', "x y. A IN NOERROR", "\x00\xff"]
    for one in labels:
        gateway.resolve("", labels=[one, "test"])
    lines = lines_of(gateway, f"{mark}.test", 2)
    cut = [line for line in lines if line.cut]
    assert [line.cut for line in cut] == [("path",)]
    whole = next(line for line in lines if not line.cut)
    assert getattr(whole, "path", None) == '/a"b\\%0a%1b[2J{"x":1}'
    wait_for(lambda: any(n.name and "?" in n.name for n in gateway.pod.names_logged()))
    text = "".join(path.read_text() for path in gateway.pod.log_folder.iterdir())
    assert text.isascii()
    assert all(line.isprintable() for line in text.splitlines())
    for secret in ("s3cr3t-1", "s3cr3t-2", "s3cr3t-3", "\\u001b", "NOERROR\\n"):
        assert secret not in text
    for line in gateway.pod.verdicts():  # no line but those of verdicts
        assert line.sandbox == gateway.pod.name


def test_log_3_a_flood_pushes_no_earlier_verdict_out(gateway: Gateway):
    before_allowed, before_denied = f"{label()}.wild.test", f"{label()}.test"
    gateway.world.dns.set({before_allowed: ["198.51.100.20"]})
    assert gateway.get(f"http://{before_allowed}/")["status"] == 200
    gateway.resolve(before_denied)
    lines_of(gateway, before_allowed)
    lines_of(gateway, before_denied)
    zone, number = label(), 20_000

    def told() -> int:
        found = [v for v in gateway.pod.names_logged() if v.name is None or zone in v.name]
        return sum(line.count or 0 for line in found)

    size = _log_size(gateway)
    base = told()
    flood(gateway, [f"x{n}.{zone}.test" for n in range(number)])
    amid = f"{label()}.wild.test"
    gateway.world.dns.set({amid: ["198.51.100.20"]})
    assert gateway.get(f"http://{amid}/")["status"] == 200  # control: others are still served
    wait_for(lambda: told() - base >= number, lambda: f"{told() - base} of {number} are told")
    assert told() - base < number * 1.01  # the client may have asked again
    assert lines_about(gateway, before_allowed)
    assert lines_about(gateway, before_denied)
    assert lines_of(gateway, amid)
    rest = [v for v in gateway.pod.names_logged() if v.kind is not Kind.SINGLE]
    assert any(v.name == f"*.{zone}.test" or v.cause is Cause.RATE for v in rest)
    assert _log_size(gateway) - size < 2_000_000  # 20,000 lines would be 5 MB


def _log_size(gateway: Gateway) -> int:
    return sum(path.stat().st_size for path in gateway.pod.log_folder.iterdir())


def test_log_4_a_log_that_can_not_be_written_opens_nothing(gateway: Gateway):
    allowed = f"{label()}.wild.test"
    gateway.world.dns.set({allowed: ["198.51.100.20"]})
    denied = f"{label()}.test"
    with log_that_can_not_be_written(gateway):
        for _ in range(3):
            assert gateway.get(f"http://{denied}/")["status"] == 403
            assert gateway.get(f"https://{denied}/")["status"] == 403
            assert gateway.resolve(denied)["rcode"] == "NXDOMAIN"
            assert gateway.get(f"https://{allowed}/")["status"] == 200  # control: it is served
            assert gateway.resolve(allowed)["rcode"] == "NOERROR"
    assert gateway.reached("198.51.100.66") == []
    late = f"{label()}.test"

    def goes_on() -> bool:
        """A line that was cut when there was no room takes the next one with it."""
        gateway.resolve(late)
        gateway.get(f"http://{late}/")
        return {line.source for line in lines_about(gateway, late)} == set(Source)

    wait_for(goes_on)
    wait_for(lambda: any(line.cause is Cause.SPOOL_FULL for line in gateway.pod.verdicts()))


def test_log_4_a_collector_that_dies_opens_nothing_and_loses_little(gateway: Gateway):
    control = gateway.pod.containers["control"]
    pid = collector_pid(control)
    os.kill(pid, 19)  # stopped: it still is there and reads nothing
    meanwhile = f"{label()}.test"
    assert gateway.get(f"http://{meanwhile}/")["status"] == 403
    assert gateway.resolve(meanwhile)["rcode"] == "NXDOMAIN"
    assert gateway.get("http://allowed.test/")["status"] == 200
    os.kill(pid, 9)
    wait_for(lambda: _other_collector(control, pid))
    assert {line.source for line in lines_of(gateway, meanwhile, 2)} == {"dns", "http"}


def _other_collector(control: str, before: int) -> bool:
    try:
        return collector_pid(control) != before
    except StopIteration:
        return False


REASONS = [
    ("evil.test", "not_allowed"),
    ("no.wild.test", "denied"),
    ("x.localhost", "reserved_name"),
    ("host.docker.internal", "reserved_name"),
    ("single", "malformed_name"),
    ("8.8.8.8", "address_literal"),
]


@pytest.mark.parametrize(("name", "reason"), REASONS)
def test_log_5_the_log_the_refusal_and_the_verdict_give_one_reason(gateway: Gateway, name, reason):
    gateway.apply(deny=["no.wild.test"])
    policy = parse_policy(ALLOW, ["no.wild.test"], allow_private_cidrs=CIDRS)
    for judged in (judge_name(policy, name), verdict(policy, Request(name, 80, "http"))):
        assert _reason_of(judged) == reason
    since = time.time() - 2
    refusal = gateway.get(f"http://{name}/")
    assert (refusal["status"], json.loads(refusal["body"])["reason"]) == (403, reason)
    answer = gateway.resolve(name, edns=1232)
    assert (answer["rcode"], extended_error(answer["wire"])) == ("NXDOMAIN", reason)

    def reasons() -> set[tuple[str, str | None]]:
        recent = [line for line in gateway.pod.verdicts() if line.time >= since]
        return {(line.source, line.reason) for line in recent if line.name in (name, None)}

    wait_for(lambda: {("dns", reason), ("http", reason)} <= reasons(), lambda: str(reasons()))


def extended_error(wire: str) -> str | None:
    """Text of the extended error in an answer."""
    options = dns.message.from_wire(bytes.fromhex(wire)).options
    found = [option.text for option in options if isinstance(option, dns.edns.EDEOption)]
    return found[0] if found else None


def _reason_of(judged: Verdict) -> str | None:
    return judged.reason.value if isinstance(judged, Deny) else None


def test_log_6_the_log_outlives_the_pods_containers(gateway: Gateway):
    before = f"{label()}.test"
    gateway.resolve(before)
    lines_of(gateway, before)
    rows = len(_seen(gateway).rows)
    for role in ("control", "dns", "proxy"):
        host.run(["docker", "restart", "-t", "0", gateway.pod.containers[role]])
    gateway.pod.wait_until_ready()
    after = f"{label()}.test"
    gateway.resolve(after)
    assert lines_of(gateway, after)
    assert lines_about(gateway, before)
    assert len(_seen(gateway).rows) >= rows


def test_log_6_the_log_is_its_writers_alone(gateway: Gateway):
    gateway.resolve("evil.test")
    wait_for(gateway.pod.names_logged)
    assert gateway.pod.log_folder.stat().st_mode & 0o777 == 0o700
    for path in gateway.pod.log_folder.iterdir():
        assert path.stat().st_mode & 0o777 == 0o600
        assert path.stat().st_uid == pod.CONTROL_ID
    for role in ("dns", "proxy"):
        for folder in ("/var/log/abox", "/var/spool/abox"):
            done = gateway.pod.exec(role, "sh", "-c", f"cat {folder}/*/* {folder}/*", check=False)
            others = {"dns": "requests", "proxy": "replies"}
            listed = gateway.pod.exec(role, "sh", "-c", f"ls {folder}/*", check=False).stdout
            assert others[role] not in listed
            assert "jsonl" not in listed
            assert done.code != 0


def _seen(gateway: Gateway) -> SeenNames:
    path = gateway.pod.log_folder / "seen.jsonl"
    return SeenNames.from_text(path.read_text() if path.exists() else "")


def test_log_7_passive_mode_records_what_active_mode_then_allows(gateway: Gateway):
    zone = f"{label()}.test"
    names = [f"{one}.{zone}" for one in "abc"]
    inside, gone, asked = f"in.{label()}.test", f"gone.{label()}.test", f"asked.{label()}.test"
    origins = {name: ["198.51.100.21"] for name in [*names, asked]}
    gateway.world.dns.set({**origins, inside: ["10.0.0.5"]})
    gateway.world.origin(at="198.51.100.21:443", speaks="https", cert={"names": names})
    gateway.apply([], mode="passive", passive_acknowledged=True)
    for name in names:
        answer = gateway.get(f"https://{name}/")
        assert answer["status"] == 200, answer
    assert gateway.get(f"http://{inside}/")["status"] == 403
    assert gateway.get(f"http://{gone}/")["status"] == 502
    assert gateway.resolve(asked)["rcode"] == "NOERROR"
    for name in (*names, inside, gone, asked):
        wait_for(lambda name=name: any(one.name == name for one in _seen(gateway).rows))
    profile = make_profile(_seen(gateway).rows, parse_policy([]))
    entries = [one.entry for one in profile.proposals]
    assert {"host": f"*.{zone}", "ports": [443]} in entries
    assert asked in entries
    apart = {(one.name, one.reason) for one in profile.apart}
    assert {(inside, "special_purpose_address"), (gone, "upstream_name")} <= apart
    gateway.apply(entries, mode=Mode.ACTIVE)
    for name in names:
        assert gateway.get(f"https://{name}/")["status"] == 200
    assert gateway.get(f"http://{inside}/")["status"] == 403
    assert gateway.get(f"http://{names[0]}/")["status"] == 403  # the port was never seen
    assert gateway.resolve(asked)["rcode"] == "NOERROR"
