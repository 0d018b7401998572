"""The scripts read names and paths as the library does."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from abox.names import MalformedNameError, normalise_request_name
from abox.paths import AmbiguousPathError, normalise_path
from abox.render import envoy_lua
from abox.render.envoy_lua import DIAL_SCRIPT, INNER_SCRIPT, OUTER_SCRIPT, PLAIN_SCRIPT
from tests.unit.abox.render.envoy_model import Message, mark

PIECES = ["/", "//", ".", "..", ";", "%2e", "%2E", "%2f", "%25", "%41", "%7E", "%3B", "%",
          "%0a", "%zz", "a", "Z", "~", "\\", "#", "?", "?a=../b",
          "*", "\x7f", "\xe9", "v1", "-", "_"]  # fmt: skip
paths = st.lists(st.sampled_from(PIECES), max_size=9).map(lambda parts: "/" + "".join(parts))
ALPHABET = "ab01-_.A*%@ :/\\\x00\x1b\xe9[]"


def outer(authority: str, path: str = "/", **headers: str) -> dict[str, str]:
    head = {":method": "GET", ":scheme": "http", ":authority": authority, ":path": path}
    return mark(OUTER_SCRIPT, Message(head | headers))


@settings(max_examples=3000, deadline=None)
@given(paths)
@example("/..;/x")
@example("/a/%252e%252e/b")
@example("/a/..")
def test_a_path_has_the_same_normal_form_in_lua(path):
    """Path rules mean in the proxy what they mean in the library."""
    try:
        wanted = normalise_path(path)
    except AmbiguousPathError:
        wanted = None
    found = outer("allowed.test", path)
    if any(not "!" <= char <= "~" for char in path):
        assert found["x-abox-judged"] == "malformed_request"
    else:
        assert found.get("x-abox-path") == wanted


@pytest.mark.parametrize("method", ["get", "GE T", "GET\r\n", "GET /x HTTP/1.1", "G\xe9T"])
@pytest.mark.parametrize("script", [OUTER_SCRIPT, INNER_SCRIPT, PLAIN_SCRIPT])
def test_what_no_request_line_can_hold_is_malformed(script, method):
    head = {":method": method, ":scheme": "http", ":authority": "allowed.test:80", ":path": "/"}
    message = Message(head, connect="allowed.test:80", server_name="allowed.test")
    assert mark(script, message)["x-abox-judged"] == "malformed_request"
    usual = Message(head | {":method": "M-SEARCH"}, connect="allowed.test:80",
                    server_name="allowed.test")  # fmt: skip
    assert mark(script, usual)["x-abox-judged"] in ("http", "tls")


@settings(max_examples=3000, deadline=None)
@given(st.text(ALPHABET, max_size=24).map(lambda text: f"{text}.test"))
@example("a" * 63 + ".test")
@example("a" * 64 + ".test")
@example("a.-b.test")
@example("_a.b.test")
def test_a_name_is_one_in_lua_if_it_is_one_in_the_library(name):
    """But for ``_``, which only the resolver takes."""
    try:
        wanted = None if "_" in name else normalise_request_name(name)
    except MalformedNameError:
        wanted = None
    found = outer(name)
    if wanted is None:
        assert found["x-abox-judged"] in ("malformed_name", "address_literal")
        assert "x-abox-name" not in found
    else:
        assert (found["x-abox-judged"], found["x-abox-name"]) == ("http", wanted)


@pytest.mark.parametrize(
    "field",
    ["proxy-authorization", "proxy-connection", "proxy-authenticate", "keep-alive", "x-hop"],
)
def test_fields_for_the_proxy_end_at_the_proxy(field):
    found = outer("allowed.test", **{field: "1", "x-kept": "1", "connection": "Close, X-HOP"})
    assert field not in found
    assert found["x-kept"] == "1"


@pytest.mark.parametrize("field", ["host", "content-length", "transfer-encoding", ":path",
                                   "x-abox-judged"])  # fmt: skip
def test_connection_can_not_name_what_frames_or_steers_the_request(field):
    found = outer("allowed.test", connection=field, **({} if field[0] == ":" else {field: "1"}))
    assert field in found


def test_plain_http_in_a_tunnel_must_name_the_tunnel_and_not_port_443():
    def plain(authority: str, connect: str | None, method: str = "GET") -> str:
        head = {":method": method, ":scheme": "http", ":authority": authority, ":path": "/"}
        return mark(PLAIN_SCRIPT, Message(head, connect=connect))["x-abox-judged"]

    assert plain("allowed.test", "allowed.test:80") == "http"
    assert plain("allowed.test:8080", "allowed.test:8080") == "http"
    assert plain("evil.test", "allowed.test:80") == "name_mismatch"
    assert plain("allowed.test", None) == "name_mismatch"
    assert plain("allowed.test:80", "allowed.test:80", "CONNECT") == "malformed_name"


def test_a_dial_needs_a_name_with_its_port():
    head = {":method": "CONNECT", ":authority": "allowed.test"}
    assert mark(DIAL_SCRIPT, Message(dict(head)))["x-abox-judged"] == "malformed_name"
    head[":authority"] = "allowed.test:443"
    assert mark(DIAL_SCRIPT, Message(head))["x-abox-judged"] == "connect"


def test_no_policy_enters_a_script():
    """The scripts are constants; what is allowed stands in the routes alone."""
    for script in (OUTER_SCRIPT, INNER_SCRIPT, PLAIN_SCRIPT, DIAL_SCRIPT):
        assert "allowed.test" not in script
    headers = {value for value in vars(envoy_lua).values() if str(value).startswith("x-abox-")}
    assert headers == set(envoy_lua.PRIVATE_HEADERS)
