"""Raw lines in, lines of the log out: one each, or counted; never more than the budget."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from abox.name_table import NameTable
from abox.verdict_budget import INTERVAL_S, LIMITS
from abox.verdict_log import Cause, Kind, NameVerdict, Outcome, RequestVerdict, Source
from abox.verdict_recorder import CLOSE_PER_S, Recorder
from tests.unit.abox.raw_lines import DENIED, reply, request

TABLE = NameTable(allow=frozenset({"a.test", "*.wild.test"}))
GATEWAY = "10.10.3.2"


def judge(name):
    return (TABLE.judge(name),)


def recorder() -> Recorder:
    return Recorder("dev", GATEWAY, 0.0)


def counted(lines, outcome=None):
    return sum(line.count for line in lines if outcome is None or line.verdict is outcome)


def test_every_query_and_request_has_a_line():
    one = recorder()
    lines = one.take_names(reply() + reply("a.test", rcode="NOERROR"), judge, 1.0)
    lines += one.take_requests(request() + request(**DENIED), judge, 1.0)
    assert [(line.source, line.verdict) for line in lines] == [
        ("dns", "deny"), ("dns", "allow"), ("http", "allow"), ("http", "deny"),
    ]  # fmt: skip
    assert {line.kind for line in lines} == {Kind.SINGLE}
    assert one.close(INTERVAL_S) == []


def test_what_the_gateway_asks_itself_is_left_out():
    one = recorder()
    assert one.take_names(reply(client=GATEWAY), judge, 1.0) == []
    assert one.take_requests(request(client=GATEWAY), judge, 1.0) == []
    assert one.seen.rows == {}


def test_repeats_are_counted_and_told_at_the_end_of_the_interval():
    one = recorder()
    singles = LIMITS[Outcome.DENY].singles
    lines = one.take_names(reply() * (singles + 50), judge, 1.0)
    assert len(lines) == singles
    assert one.close(INTERVAL_S - 1) == []
    (line,) = one.close(INTERVAL_S)
    assert (line.kind, line.count, line.name, line.reason) == (
        Kind.REPEATS, 50, "evil.test", "not_allowed",
    )  # fmt: skip
    assert isinstance(line, NameVerdict)
    assert (line.rcode, line.type, line.sent) == ("NXDOMAIN", None, 50 * 53)


def test_repeats_of_requests_add_their_bytes_and_leave_out_what_differs():
    one = recorder()
    singles = LIMITS[Outcome.DENY].singles
    data = b"".join(request(**DENIED, path=f"/{n}") for n in range(singles + 10))
    one.take_requests(data, judge, 1.0)
    (line,) = one.close(0.0, force=True)
    assert isinstance(line, RequestVerdict)
    assert (line.count, line.received, line.sent) == (10, 30, 2220)
    assert (line.path, line.method, line.status, line.port) == (None, None, 403, 443)


def test_a_flood_of_senseless_names_is_short_and_counted_to_the_last():
    one = recorder()
    number, lines = 30_000, []
    for start in range(0, number, 3000):
        data = b"".join(reply(f"x{n}.evil.test") for n in range(start, start + 3000))
        lines += one.take_names(data, judge, 1.0 + start / number)
    lines += one.close(INTERVAL_S)
    assert counted(lines) == number
    limits = LIMITS[Outcome.DENY]
    assert len(lines) <= limits.burst + 2 * limits.repeats + 1
    assert any(line.name == "*.evil.test" for line in lines)
    assert lines[-1].cause is Cause.RATE


def test_a_flood_hides_nothing_that_is_allowed():
    one = recorder()
    flood = b"".join(reply(f"x{n}.evil.test") for n in range(CLOSE_PER_S))
    one.take_names(flood, judge, 1.0)
    lines = one.take_names(flood + reply("a.test", rcode="NOERROR") + flood, judge, 1.1)
    assert [(line.name, line.verdict) for line in lines] == [("a.test", "allow")]
    denied = b"".join(request(**DENIED, name=f"x{n}.test") for n in range(CLOSE_PER_S + 500))
    lines = one.take_requests(denied, judge, 1.2)
    lines += one.take_requests(denied + request(), judge, 1.3)
    assert [line.name for line in lines if line.allowed] == ["a.test"]
    with_lines = min(CLOSE_PER_S, LIMITS[Outcome.DENY].burst)
    told = one.close(INTERVAL_S)
    names = [line for line in told if line.source is Source.DNS]
    assert counted(names) == 3 * CLOSE_PER_S - with_lines


@given(
    st.lists(
        st.one_of(
            st.builds(reply, st.sampled_from(["evil.test", "x.evil.test", "b.test"])),
            st.builds(lambda name: reply(name, rcode="NOERROR"), st.just("x.wild.test")),
        ),
        max_size=60,
    ),
    st.integers(1, 5),
)
def test_lines_and_counts_add_up(replies, times):
    one, lines = recorder(), []
    for n in range(times):
        lines += one.take_names(b"".join(replies), judge, n * 7.0)
        lines += one.close(n * 7.0)
    lines += one.close(0.0, force=True)
    expected = Counter(b"NXDOMAIN" in line for line in replies)
    assert counted(lines, Outcome.DENY) == expected[True] * times
    assert counted(lines, Outcome.ALLOW) == expected[False] * times


def test_what_was_seen_is_remembered_and_new_rows_are_named():
    one = recorder()
    one.take_requests(request() * 3, judge, 1.0)
    ((seen, row),) = one.seen.rows.items()
    assert (seen.name, seen.port, seen.verdict, seen.rule) == ("a.test", 443, "allow", "a.test")
    assert row.count == 3
    assert one.fresh == {seen}


def test_a_tunnel_is_remembered_but_not_counted_with_its_requests():
    one = recorder()
    tunnel = request(method="CONNECT", address="envoy://intercept/", path=None)
    one.take_requests(tunnel + request() * 2, judge, 1.0)
    ((_, row),) = one.seen.rows.items()
    assert row.count == 2


def test_lines_that_were_lost_are_told_once_an_interval():
    one = recorder()
    one.lose(Source.DNS)
    one.lose(Source.DNS)
    (line,) = one.close(INTERVAL_S)
    assert (line.kind, line.count, line.cause) == (Kind.OMITTED, None, Cause.SPOOL_FULL)
    assert one.close(2 * INTERVAL_S) == []


def test_lines_that_are_none_are_counted():
    one = recorder()
    one.take_names(b"[1] unbound[9:0] info: hello\n", judge, 1.0)
    one.take_requests(b"{}\nnoise\n" + request(time="x"), judge, 1.0)
    assert one.unread == {Source.DNS: 1, Source.HTTP: 3}
