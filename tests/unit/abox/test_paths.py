"""Paths: one normal form where servers agree, none where they are known to differ."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from abox.paths import AmbiguousPathError, PathPattern, normalise_path


@pytest.mark.parametrize(
    ("path", "normal"),
    [
        ("/", "/"),
        ("/v1/a", "/v1/a"),
        ("/v1/a/", "/v1/a/"),
        ("/v1/a?x=/../%2F", "/v1/a"),
        ("/v1/./a", "/v1/a"),
        ("/v1/../a", "/a"),
        ("/../a", "/a"),
        ("/a/..", "/"),
        ("/a/.", "/a/"),
        ("/a/%2e%2E/b", "/b"),
        ("/%7euser/%41", "/~user/A"),
        ("/%c3%bc", "/%C3%BC"),
        ("/100%25", "/100%25"),
        ("/a;v=1", "/a;v=1"),
        ("/...", "/..."),
        ("/a*b", "/a*b"),
    ],
)
def test_equal_resources_have_one_form(path: str, normal: str) -> None:
    assert normalise_path(path) == normal


@pytest.mark.parametrize(
    "path",
    [
        "",
        "*",
        "a",
        "//a",
        "/a//b",
        "/v1//../admin",
        "/a%2Fb",
        "/a%2fb",
        "/a\\b",
        "/a%5Cb",
        "/a%00b",
        "/a%0Ab",
        "/a%7Fb",
        "/a%3Bb",
        "/a%3Fb",
        "/a%23b",
        "/a#b",
        "/a b",
        "/ü",
        "/%",
        "/%2",
        "/%zz",
        "/%252e",
        "/%25%32%65",
        "/..;/a",
        "/a/.;x/b",
        "/%2e%2e;/a",
    ],
)
def test_what_servers_read_differently_has_none(path: str) -> None:
    with pytest.raises(AmbiguousPathError) as caught:
        normalise_path(path)
    assert str(caught.value)


PATHS = st.text(alphabet="/.%2eEfF5c;ab?*~\\", max_size=24).map(lambda tail: f"/{tail}")


@given(PATHS | st.text(max_size=40))
def test_normalising_is_refused_or_final(path: str) -> None:
    try:
        normal = normalise_path(path)
    except AmbiguousPathError:
        return
    assert normalise_path(normal) == normal
    assert normal.startswith("/")
    assert not {".", ".."} & set(normal.split("/"))
    assert "//" not in normal


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("/v1/*", "/v1/"),
        ("/v1/*", "/v1/a/b"),
        ("/*", "/"),
        ("/*", "/a/b"),
        ("/v1", "/v1"),
        ("/repos/*/pulls", "/repos/one/pulls"),
        ("/repos/*/pulls/*", "/repos/one/pulls/7/files"),
        ("/a.b", "/a.b"),
        ("/a(b)+$", "/a(b)+$"),
    ],
)
def test_a_pattern_covers(pattern: str, path: str) -> None:
    assert PathPattern.parse(pattern).matches(path)


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("/v1/*", "/v1"),
        ("/v1/*", "/v10/a"),
        ("/v1", "/v1/"),
        ("/v1", "/V1"),
        ("/repos/*/pulls", "/repos/pulls"),
        ("/repos/*/pulls", "/repos//pulls"),
        ("/repos/*/pulls", "/repos/a/b/pulls"),
        ("/repos/*/pulls", "/repos/a/pulls/1"),
        ("/a.b", "/axb"),
    ],
)
def test_a_pattern_does_not_cover(pattern: str, path: str) -> None:
    assert not PathPattern.parse(pattern).matches(path)


@pytest.mark.parametrize(
    "pattern",
    ["", "v1", "/a/../b", "/a//b", "/a%2Fb", "/%61", "/a?x", "/a*", "/**", "/*a/b", "/a b", "/a\n"],
)
def test_a_pattern_that_could_never_match_or_misleads_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match=r"it |segment|query"):
        PathPattern.parse(pattern)


@given(st.lists(st.text("ab.+*()[]{}|^$-_~", min_size=1, max_size=5), min_size=1, max_size=4))
def test_only_a_star_alone_is_special_in_a_pattern(segments: list[str]) -> None:
    try:
        pattern = PathPattern.parse("/" + "/".join(segments))
    except ValueError:
        return
    literal = "/" + "/".join("x" if segment == "*" else segment for segment in segments)
    assert pattern.matches(literal)
    assert re.compile(pattern.regex).fullmatch(literal)
    assert not pattern.matches(f"/y{literal}") or pattern.text in ("/*",) or "*" in segments
