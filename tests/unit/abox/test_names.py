"""Host names: one normal form for what people write and what arrives on the wire."""

import re
from importlib import resources

import publicsuffixlist
import pytest
from hypothesis import given
from hypothesis import strategies as st
from publicsuffixlist import PublicSuffixList

from abox.addresses import ends_in_number, parse_any_literal
from abox.name_shape import NAME_MAX, NAME_REGEX, RESERVED_SUFFIXES
from abox.names import (
    MalformedNameError,
    hosts_covering,
    is_public_suffix,
    is_registry_suffix,
    is_reserved,
    normalise_name,
    normalise_request_name,
    normalise_suffix,
    public_suffix_below,
)

LONGEST = ".".join(["a" * 63, "b" * 63, "c" * 63, "d" * 61])


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("allowed.test", "allowed.test"),
        ("ALLOWED.Test", "allowed.test"),
        ("allowed.test.", "allowed.test"),
        ("a_b.allowed.test", "a_b.allowed.test"),
        ("r3---sn-x.allowed.test", "r3---sn-x.allowed.test"),
        ("xn--bcher-kva.example", "xn--bcher-kva.example"),
        ("1.2.3.a4", "1.2.3.a4"),
        (LONGEST, LONGEST),
    ],
)
def test_a_name_has_one_form_for_people_and_on_the_wire(text: str, normal: str) -> None:
    assert normalise_request_name(text) == normal
    assert normalise_name(text) == normal


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("Bücher.example", "xn--bcher-kva.example"),
        ("faß.example", "xn--fa-hia.example"),
        ("例え.テスト", "xn--r8jz45g.xn--zckzah"),
        ("bu\u0308cher.example", "xn--bcher-kva.example"),
    ],
)
def test_what_people_write_in_other_scripts_becomes_ascii(text: str, normal: str) -> None:
    assert normalise_name(text) == normal


NO_NAMES = [
    "",
    ".",
    "..",
    "a..test",
    ".allowed.test",
    "allowed.test..",
    "allowed",
    "localhost",
    "*.allowed.test",
    "allowed.test:443",
    "allowed.test/path",
    "user@allowed.test",
    "[allowed.test]",
    "allowed test",
    " allowed.test",
    "allowed.test\n",
    "allowed.test\r",
    "evil.test\x00.wild.test",
    "%61llowed.test",
    "allowed%2etest",
    "a" * 64 + ".test",
    LONGEST + "e",
    "1.2.3.4",
    "127.1",
    "1.2.3.4.5",
    "a.0x7f",
    "a.1",
    "a.1b",
    "::1",
    'a.test." transparent',
    "a.test;",
    "a.te$t",
    "a.-test",
    "a.test-",
    "a.te_st",
]


@pytest.mark.parametrize("text", NO_NAMES)
def test_what_is_no_name_is_refused_with_a_reason(text: str) -> None:
    for normalise in (normalise_name, normalise_request_name):
        with pytest.raises(MalformedNameError) as caught:
            normalise(text)
        assert str(caught.value)


@pytest.mark.parametrize(
    "text", ["\u0430llowed.test", "bücher.example", "allowed\u3002test", "\xd0\xb0llowed.test"]
)
def test_no_byte_outside_ascii_is_taken_from_the_wire(text: str) -> None:
    with pytest.raises(MalformedNameError, match="ASCII"):
        normalise_request_name(text)


@pytest.mark.parametrize(
    "text",
    ["\u212aelvin.test", "a\u3002test", "☃.test", "a\u200d.test", "xn--a.test", "\uff41.test"],
)
def test_look_alikes_and_invalid_idna_are_refused_from_people_too(text: str) -> None:
    with pytest.raises(MalformedNameError):
        normalise_name(text)


def test_the_longest_name_of_the_standard_passes() -> None:
    assert len(LONGEST) == NAME_MAX


@given(st.text(max_size=300) | st.from_regex(NAME_REGEX, fullmatch=True))
def test_normalising_is_refused_or_final(text: str) -> None:
    try:
        normal = normalise_request_name(text)
    except MalformedNameError:
        return
    assert normalise_request_name(normal) == normal
    assert normal.isascii()
    assert normal == normal.lower()
    assert re.fullmatch(NAME_REGEX, normal)
    assert parse_any_literal(normal) is None
    assert not ends_in_number(normal)


@given(st.text(max_size=60))
def test_people_s_text_is_refused_or_a_name_on_the_wire(text: str) -> None:
    try:
        normal = normalise_name(text)
    except MalformedNameError:
        return
    assert normalise_request_name(normal) == normal


def test_a_suffix_may_be_a_single_label() -> None:
    assert normalise_suffix("COM.") == "com"
    with pytest.raises(MalformedNameError):
        normalise_suffix("c om")


def test_a_name_is_covered_by_itself_and_the_wildcards_above_it() -> None:
    assert list(hosts_covering("a.b.test")) == ["a.b.test", "*.b.test", "*.test"]


@pytest.mark.parametrize("suffix", RESERVED_SUFFIXES)
def test_names_of_the_gateway_and_the_host_are_reserved_at_label_edges(suffix: str) -> None:
    assert is_reserved(suffix)
    assert is_reserved(f"a.b.{suffix}")
    assert not is_reserved(f"not{suffix}")
    assert not is_reserved(f"{suffix}.test")


@pytest.mark.parametrize("name", ["com", "co.uk", "github.io", "test", "xn--p1ai", "a.ck"])
def test_where_anybody_gets_a_name_is_a_public_suffix(name: str) -> None:
    assert is_public_suffix(name)


@pytest.mark.parametrize("name", ["wild.test", "example.co.uk", "user.github.io", "www.ck"])
def test_a_domain_of_one_owner_is_no_public_suffix(name: str) -> None:
    assert not is_public_suffix(name)


def test_a_rented_suffix_is_a_site_of_its_own_as_well() -> None:
    assert not is_registry_suffix("github.io")
    assert is_registry_suffix("co.uk")


def test_a_zone_with_rented_names_below_it_is_known() -> None:
    below = public_suffix_below("amazonaws.com")
    assert below is not None
    assert is_public_suffix(below)
    assert below.endswith(".amazonaws.com")
    assert public_suffix_below("example.com") is None
    assert public_suffix_below("wild.test") is None


def test_every_rule_of_the_suffix_list_is_found_as_it_stands_in_a_request() -> None:
    """The lists without encoded names answer as the whole ones do, for all names of the rules."""
    text = resources.files(publicsuffixlist).joinpath("public_suffix_list.dat").read_text("utf-8")
    rules = [line.split()[0] for line in text.splitlines() if line and not line.startswith("//")]
    hosts = [rule.lstrip("!").removeprefix("*.").encode("idna").decode() for rule in rules]
    assert sum("xn--" in host for host in hosts) > 400
    for only_icann, judge in ((False, is_public_suffix), (True, is_registry_suffix)):
        whole = PublicSuffixList(only_icann=only_icann)
        for host in hosts:
            for name in (host, f"a.{host}", f"b.a.{host}"):
                assert judge(name) == whole.is_public(name), name
