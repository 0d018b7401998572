"""Compares what came of an action with what the case expects: one function an expectation."""

from __future__ import annotations

import ipaddress
import json
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import dns.exception
import dns.message

from abox.verdict_log import Source, parse_line, stamp
from tests.cases.leaf import leaf_faults
from tests.cases.model import Case
from tests.cases.outcome import Outcome
from tests.cases.sandbox import Sandbox
from tests.world import World

LOGS = ("proxy", "dns", "control")
WRITABLE = ("/tmp", "/run", "/var/lib/abox", "/var/log", "/dev/shm")  # noqa: S108  # in the pod
TEXT_SHOWN = 200
LOG_DELAY_S = 12
"""How late a line of the verdict log may come."""

Faults = Iterable[str]


@dataclass(frozen=True)
class Evidence:
    """All that a judgement can look at."""

    case: Case
    outcome: Outcome
    world: World
    sandbox: Sandbox


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= TEXT_SHOWN else text[:TEXT_SHOWN] + "..."


def _statuses(evidence: Evidence) -> list[Any]:
    found = [r["status"] for r in evidence.outcome.responses]
    return found or ["none"]


def _detail(evidence: Evidence) -> str:
    """What helps to understand the answers: the errors, and the proxy's own reason."""
    told = []
    for response in evidence.outcome.responses[:3]:
        told.append(response.get("error") or response.get("body", "")[:120])
    return _short(" | ".join(filter(None, told)))


# --- answers of the proxy -------------------------------------------------------------------


def status(evidence: Evidence, wanted: Any) -> Faults:
    """Every answer has this code."""
    return status_in(evidence, [wanted])


def status_in(evidence: Evidence, wanted: Any) -> Faults:
    """Every answer has one of these codes; ``closed``: the connection ended without one."""
    wrong = [s for s in _statuses(evidence) if s not in wanted]
    if wrong:
        yield f"status {_short(sorted(set(map(str, wrong))))}, not {wanted}: {_detail(evidence)}"


def statuses(evidence: Evidence, wanted: Any) -> Faults:
    """The answers in their turn."""
    found = _statuses(evidence)
    if len(found) != len(wanted) or any(
        s not in one for s, one in zip(found, wanted, strict=False)
    ):
        yield f"statuses {found}, not {wanted}: {_detail(evidence)}"


def echo(evidence: Evidence, wanted: Any) -> Faults:
    """WebSocket frames come back."""
    if any(r["echo"] is not wanted for r in evidence.outcome.responses):
        yield f"WebSocket echo: {[r['echo'] for r in evidence.outcome.responses]}"


def closes(evidence: Evidence, wanted: Any) -> Faults:
    """The gateway closes the connection."""
    if evidence.outcome.closed is not wanted:
        yield f"closed: {evidence.outcome.closed}"


def body_bytes(evidence: Evidence, wanted: Any) -> Faults:
    """Length of every body."""
    found = [len(r["body"]) for r in evidence.outcome.responses]
    if any(size != wanted for size in found):
        yield f"body of {found} bytes, not {wanted}: {_detail(evidence)}"


def body_lacks(evidence: Evidence, wanted: Any) -> Faults:
    """No body holds the text."""
    if any(wanted in r["body"] for r in evidence.outcome.responses):
        yield f"the body holds {wanted!r}: {_detail(evidence)}"


def leaf(evidence: Evidence, wanted: Any) -> Faults:
    """The certificate that the agent was shown."""
    authority = evidence.sandbox.authority["certificate"]
    for response in evidence.outcome.responses:
        yield from leaf_faults(response["chain"], wanted, authority, evidence.world.ca_pem)


# --- the world outside ----------------------------------------------------------------------


def reached_origin(evidence: Evidence, wanted: Any) -> Faults:
    """Any origin saw a connection."""
    found = [c["at"] for c in evidence.world.connections()]
    if bool(found) is not wanted:
        yield f"origins reached: {_short(found or 'none')}"


def _destination(text: str) -> tuple[str, int | None]:
    """Address and port of ``address``, ``address:port`` or ``[address]:port``."""
    try:
        return str(ipaddress.ip_address(text.strip("[]"))), None
    except ValueError:
        address, _, port = text.rpartition(":")
        return address.strip("[]"), int(port)


def never_reached(evidence: Evidence, wanted: Any) -> Faults:
    """Nobody even tried to reach these addresses, in any spelling."""
    for text in wanted:
        address, port = _destination(str(text))
        found = evidence.world.attempts(address, port)
        if found:
            tries = {f"{p['proto']} {p['destination']}:{p['port']}" for p in found}
            yield f"attempts towards {text}: {_short(sorted(tries))}"


def _bare_host(authority: str) -> str:
    host, colon, port = authority.rpartition(":")
    return (host if colon and port.isdigit() else authority).rstrip(".").lower()


def _matches(request: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether a request is as the keys say."""
    names = {name.lower() for name, _ in request["headers"]}
    checks: Mapping[str, Callable[[Any], bool]] = {
        "target": lambda v: request["target"] == v,
        "method": lambda v: request["method"] == v,
        "host": lambda v: _bare_host(request["host"]) == _bare_host(v),
        "headers_absent": lambda v: not names & {n.lower() for n in v},
        "headers_present": lambda v: names >= {n.lower() for n in v},
        "headers": lambda v: all([k.lower(), str(x)] in _headers(request) for k, x in v.items()),
        "body": lambda v: request["body"] == v,
        "body_bytes": lambda v: len(request["body"]) == v,
        "version": lambda v: request["version"] == v,
        "sni": lambda v: request["sni"] == v,
    }
    unknown = set(wanted) - set(checks)
    if unknown:
        raise ValueError(f"nobody knows how to compare {sorted(unknown)} of a request")
    return all(checks[key](value) for key, value in wanted.items())


def _headers(request: Mapping[str, Any]) -> list[list[str]]:
    return [[name.lower(), value] for name, value in request["headers"]]


def origin_saw(evidence: Evidence, wanted: Any) -> Faults:
    """The requests that origins got, if any, are like this."""
    found = evidence.world.requests()
    rest = dict(wanted)
    count = rest.pop("requests", None)
    if count is not None and len(found) != count:
        yield f"origins got {len(found)} requests, not {count}"
    wrong = [r for r in found if not _matches(r, rest)]
    if rest and wrong:
        seen = {k: wrong[0].get(k) for k in ("method", "target", "host", "headers")}
        yield f"an origin saw {_short(seen)}"


def origin_never_saw(evidence: Evidence, wanted: Any) -> Faults:
    """No request of this kind arrived anywhere."""
    for request in evidence.world.requests():
        if _matches(request, wanted):
            yield f"the origin at {request['at']} saw {request['method']} {request['target']}"


def origin_bytes(evidence: Evidence, wanted: Any) -> Faults:
    """Bytes that tcp and udp origins got."""
    found = sum(c["received"] for c in evidence.world.connections())
    if found != wanted:
        yield f"origins got {found} bytes, not {wanted}"


def origin_saw_sni(evidence: Evidence, wanted: Any) -> Faults:
    """Names in the handshakes that origins saw."""
    found = evidence.world.server_names()
    if found != wanted:
        yield f"origins saw the server names {found}, not {wanted}"


def origin_plaintext(evidence: Evidence, wanted: Any) -> Faults:
    """Whether an origin got something in the clear."""
    found = [c["at"] for c in evidence.world.connections() if c["plaintext"]]
    if bool(found) is not wanted:
        yield f"in the clear at {found}"


# --- names ----------------------------------------------------------------------------------


def rcode(evidence: Evidence, wanted: Any) -> Faults:
    """The code of every answer."""
    return rcode_in(evidence, [wanted])


def rcode_in(evidence: Evidence, wanted: Any) -> Faults:
    """The code of every answer is one of these."""
    found = [a["rcode"] for a in evidence.outcome.answers]
    if not found or any(code not in wanted for code in found):
        yield f"rcode {found}, not {wanted}"


def _data(answer: Mapping[str, Any]) -> list[str]:
    try:
        message = dns.message.from_wire(bytes.fromhex(answer["wire"]))
    except dns.exception.DNSException as error:
        return [f"unreadable: {error}"]
    return [str(item) for rrset in message.answer for item in rrset]


def answers(evidence: Evidence, wanted: Any) -> Faults:
    """Exactly these answers."""
    for answer in evidence.outcome.answers:
        found = _data(answer)
        if sorted(found) != sorted(map(str, wanted)):
            yield f"answers {found}, not {wanted}"


def answers_none_of(evidence: Evidence, wanted: Any) -> Faults:
    """None of these addresses anywhere in the message, hints included."""
    for answer in evidence.outcome.answers:
        for address in wanted:
            packed = ipaddress.ip_address(str(address)).packed
            if packed in bytes.fromhex(answer["wire"]):
                yield f"the answer holds {address}: {_data(answer)}"


def truncated(evidence: Evidence, wanted: Any) -> Faults:
    """The flag that an answer was cut."""
    found = [a.get("truncated") for a in evidence.outcome.answers]
    if any(flag is not wanted for flag in found):
        yield f"truncated: {found}"


def _asked(evidence: Evidence) -> list[str]:
    return [f"{name} {kind}" for name, kind, _ in evidence.world.dns.asked()]


def upstream_queries(evidence: Evidence, wanted: Any) -> Faults:
    """Questions that the outside resolver saw."""
    found = _asked(evidence)
    if len(found) != wanted:
        yield f"{len(found)} questions outside, not {wanted}: {_short(found)}"


def upstream_queries_max(evidence: Evidence, wanted: Any) -> Faults:
    """At most so many."""
    found = _asked(evidence)
    if len(found) > wanted:
        yield f"{len(found)} questions outside, more than {wanted}: {_short(found[:3])}"


def upstream_queries_lack(evidence: Evidence, wanted: Any) -> Faults:
    """A name that the outside resolver must not see, nor anything below it."""
    for name in [wanted] if isinstance(wanted, str) else wanted:
        zone = "." + name.rstrip(".").lower()
        found = [n for n, _, _ in evidence.world.dns.asked() if f".{n}".endswith(zone)]
        if found:
            yield f"asked outside: {_short(found)}"


def host_queries(evidence: Evidence, wanted: Any) -> Faults:
    """Questions that the host's own resolver saw because of the action."""
    found = evidence.outcome.host_packets
    if len(found) != wanted:
        yield f"{len(found)} questions left by the host's own resolver, not {wanted}"


# --- packets --------------------------------------------------------------------------------


def _through(evidence: Evidence) -> list[str]:
    """Ways in which the destination was reached."""
    good = ("connected", "answered")
    return [f"{a['as']}: {a['outcome']}" for a in evidence.outcome.attempts if a["outcome"] in good]


def refused(evidence: Evidence, wanted: Any) -> Faults:
    """No way leads there."""
    through = _through(evidence)
    if bool(through) is wanted:
        yield f"attempts: {_short(evidence.outcome.attempts)}"


def connected(evidence: Evidence, wanted: Any) -> Faults:
    """The agent reaches it."""
    if bool(_through(evidence)) is not wanted:
        yield f"attempts: {_short(evidence.outcome.attempts)}"


def packets_seen(evidence: Evidence, wanted: Any) -> Faults:
    """Packets that arrived at the destination."""
    if evidence.outcome.packets_seen != wanted:
        yield f"{evidence.outcome.packets_seen} packets arrived, not {wanted}"


# --- programs and logs ----------------------------------------------------------------------


def stdout_contains(evidence: Evidence, wanted: Any) -> Faults:
    """The program said it."""
    done = evidence.outcome.completed
    if done is None or wanted not in done.stdout:
        yield f"output lacks {wanted!r}: {_short(done.stdout + done.stderr if done else None)}"


def stdout_lacks(evidence: Evidence, wanted: Any) -> Faults:
    """The program didn't say it."""
    done = evidence.outcome.completed
    if done is None or wanted in done.stdout:
        yield f"output holds {wanted!r}: {_short(done.stdout if done else None)}"


def exit_code(evidence: Evidence, wanted: Any) -> Faults:
    """How the program ended."""
    done = evidence.outcome.completed
    if done is None or done.code != wanted:
        yield f"exit code {done.code if done else None}, not {wanted}"


def exit_nonzero(evidence: Evidence, wanted: Any) -> Faults:
    """Whether the program failed."""
    done = evidence.outcome.completed
    if done is None or (done.code != 0) is not wanted:
        yield f"exit code {done.code if done else None}: {_short(done.stdout if done else '')}"


def _verdict_log(evidence: Evidence) -> list[str]:
    """The verdict log, once this action's line is in it: Envoy writes late. There may be none."""
    deadline = time.monotonic() + LOG_DELAY_S
    begun = stamp(evidence.outcome.started)
    lines = evidence.sandbox.verdict_lines()
    while time.monotonic() < deadline and not any(_time_of(line) >= begun for line in lines):
        time.sleep(0.5)
        lines = evidence.sandbox.verdict_lines()
    return lines


def _time_of(line: str) -> str:
    found = parse_line(line)
    return stamp(found.time) if found and found.source is Source.HTTP else ""


def log_lacks(evidence: Evidence, wanted: Any) -> Faults:
    """Nothing of this stands in a log of the gateway."""
    logs = {"the pod": "\n".join(_verdict_log(evidence))}
    for role in LOGS:
        done = evidence.sandbox.log(role, evidence.outcome.started)
        logs[role] = done.stdout + done.stderr
    for text in [wanted] if isinstance(wanted, str) else wanted:
        yield from (f"the log of {name} holds {text!r}" for name in logs if text in logs[name])


def log_lines_are_json(evidence: Evidence, wanted: Any) -> Faults:
    """Every line of the verdict log is an object."""
    lines = _verdict_log(evidence)
    bad = [line for line in lines if not _is_object(line)]
    if bool(not bad) is not wanted:
        yield f"{len(lines)} lines, of which no JSON: {_short(bad)}"


def _is_object(line: str) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False


def gateway_files_lack(evidence: Evidence, wanted: Any) -> Faults:
    """No file that the pod can write holds the text."""
    for role in LOGS:
        files = evidence.sandbox.files_with(role, wanted, WRITABLE)
        if files:
            yield f"{role} holds {wanted!r} in {files}"


def alive(evidence: Evidence, wanted: Any) -> Faults:
    """Others are still served."""
    found = evidence.sandbox.alive() if evidence.outcome.alive is None else evidence.outcome.alive
    if found is not wanted:
        yield "others are no longer served" if wanted else "others are still served"


def agrees(evidence: Evidence, wanted: Any) -> Faults:
    """All paths give one verdict."""
    found = {path: evidence.outcome.verdicts[path] for path in wanted}
    if len(set(found.values())) != 1:
        yield f"verdicts differ: {found}"


JUDGES: Mapping[str, Callable[[Evidence, Any], Faults]] = {
    judge.__name__: judge
    for judge in (
        status,
        status_in,
        statuses,
        echo,
        closes,
        body_bytes,
        body_lacks,
        leaf,
        reached_origin,
        never_reached,
        origin_saw,
        origin_never_saw,
        origin_bytes,
        origin_saw_sni,
        origin_plaintext,
        rcode,
        rcode_in,
        answers,
        answers_none_of,
        truncated,
        upstream_queries,
        upstream_queries_max,
        upstream_queries_lack,
        host_queries,
        refused,
        connected,
        packets_seen,
        stdout_contains,
        stdout_lacks,
        exit_code,
        exit_nonzero,
        log_lacks,
        log_lines_are_json,
        gateway_files_lack,
        alive,
        agrees,
    )
}
ELSEWHERE = frozenset(["within_s", "or_config_error"])
"""Expectations that the runner itself keeps."""


def judge_all(evidence: Evidence) -> list[str]:
    """Every expectation that doesn't hold, in words."""
    faults: list[str] = []
    for name, wanted in evidence.case.expect.items():
        if name in ELSEWHERE:
            continue
        if name not in JUDGES:
            faults.append(f"{name}: nobody can judge this for a running sandbox")
        else:
            faults += [f"{name}: {fault}" for fault in JUDGES[name](evidence, wanted)]
    return faults
