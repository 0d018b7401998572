"""The helper for the agent speaks the protocols as it should, and says what came back."""

from __future__ import annotations

import io
import zipfile

import dns.message
import dns.rdatatype
import pytest

from tests.cases.probe import dns as probe_dns
from tests.cases.probe.http import Buffer, _parts, read_response
from tests.cases.sandbox import probe_archive


class Script:
    """A stream that says what it was given, piece by piece."""

    def __init__(self, *pieces: bytes) -> None:
        self.pieces = list(pieces)

    def send(self, data: bytes) -> None:
        raise AssertionError(f"nothing is sent here: {data!r}")

    def recv(self, timeout_s: float) -> bytes:
        assert timeout_s > 0
        return self.pieces.pop(0) if self.pieces else b""

    def close(self) -> None:
        self.pieces.clear()


def read(*pieces: bytes, method: str = "GET"):
    return read_response(Buffer(Script(*pieces)), method)


def test_a_body_ends_where_its_length_says() -> None:
    response = read(b"HTTP/1.1 200 OK\r\nContent-Le", b"ngth: 3\r\n\r\nab", b"cdef")
    assert (response.status, response.body, response.error) == (200, b"abc", "")


def test_a_chunked_body_is_put_together() -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    assert read(head, b"2\r\nab\r\n1;x\r\nc\r\n0\r\n\r\n").body == b"abc"


def test_a_body_without_length_ends_with_the_connection() -> None:
    assert read(b"HTTP/1.1 200 OK\r\n\r\nab", b"c").body == b"abc"


def test_a_body_that_was_cut_is_told() -> None:
    response = read(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc")
    assert response.body == b"abc"
    assert "EOFError" in response.error


def test_interim_answers_are_passed_over() -> None:
    answer = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n"
    assert read(answer).status == 403


def test_no_answer_is_no_status() -> None:
    with pytest.raises(EOFError):
        read(b"HTTP/1.1 200")


@pytest.mark.parametrize(
    ("url", "parts"),
    [
        ("http://a.test/x?y", ("http", "a.test", 80, "/x?y")),
        ("https://a.test./", ("https", "a.test.", 443, "/")),
        ("http://a.test:81", ("http", "a.test", 81, "/")),
        ("http://[::1]/", ("http", "[::1]", 80, "/")),
        ("https://[::1]:8443/", ("https", "[::1]", 8443, "/")),
        ("http://A.Test/o/a%2Fb", ("http", "A.Test", 80, "/o/a%2Fb")),
    ],
)
def test_urls_are_taken_apart_without_changing_them(url: str, parts) -> None:
    assert _parts(url) == parts


def test_a_question_is_what_a_resolver_reads() -> None:
    wire = probe_dns.question(probe_dns.to_labels("x.allowed.test"), "HTTPS", 1232)
    message = dns.message.from_wire(wire)
    assert message.question[0].name.to_text() == "x.allowed.test."
    assert message.question[0].rdtype == dns.rdatatype.HTTPS
    assert message.payload == 1232


def test_labels_may_hold_dots() -> None:
    wire = probe_dns.question([b"x.wild", b"test"], "A", None)
    assert len(dns.message.from_wire(wire).question[0].name.labels) == 3


def test_repetitions_differ() -> None:
    first, second = (probe_dns.fresh("{random}.{n}.test", turn) for turn in (0, 1))
    assert first.split(".")[0] != second.split(".")[0]
    assert (first.split(".")[1], second.split(".")[1]) == ("1", "2")


def test_the_archive_holds_the_helper_and_its_library() -> None:
    names = zipfile.ZipFile(io.BytesIO(probe_archive())).namelist()
    assert "__main__.py" in names
    assert "tests/cases/probe/serve.py" in names
    assert "h2/connection.py" in names
