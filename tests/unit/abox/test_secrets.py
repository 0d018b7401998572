"""Secrets: values that a header can hold, and that show themselves to nobody."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from abox.errors import AboxErrors
from abox.secrets import VALUE_MAX, SecretValue, combined_hash, digests, parse_secrets

WHERE = "stacks/Pulumi.dev.yaml: abox:secrets"
KEY = "-----BEGIN PRIVATE KEY-----"


@pytest.mark.parametrize(
    "value", ["x", "Bearer abc.def-ghi_jkl", "a b\tc", "{}", "~!\"'", "x" * VALUE_MAX], ids=len
)
def test_what_a_header_can_hold_is_taken_as_it_is(value: str) -> None:
    (secret,) = parse_secrets({"api_key": value}, WHERE).values()
    assert secret.reveal() == value


UNFIT: list[Any] = [
    "", " ", "s3cr3t\n", "\ts3cr3t", "s3cr3t ", "s3\r\ncr3t: x", "s3\ncr3t", "s3\rcr3t", "s3\0cr3t",
    "s3\x7fcr3t", "s3\x1bcr3t", "s3cr\u00e9t", "s3cr3t\u2028", "x" * (VALUE_MAX + 1), 4711,
    None, True, ["s3cr3t"], {"s3cr3t": "s3cr3t"},
]  # fmt: skip


@pytest.mark.parametrize("value", UNFIT, ids=ascii)
def test_what_no_header_can_hold_is_refused_without_being_repeated(value: object) -> None:
    with pytest.raises(AboxErrors) as caught:
        parse_secrets({"good": "x", "api_key": value}, WHERE)
    (error,) = caught.value.errors
    assert error.what == f"{WHERE}.api_key: the value is refused"
    assert error.why
    assert error.remedy
    for shape in ("s3", "4711", "cr3t"):
        assert shape not in str(error)


@pytest.mark.parametrize("name", ["", "1a", "a.b", "a b", "a/b", "a:b", "ä", "a" * 64, "a\n", 7])
def test_a_name_that_no_entry_could_use_is_refused(name: object) -> None:
    with pytest.raises(AboxErrors, match="letter"):
        parse_secrets({name: "s3cr3t"}, WHERE)


def test_every_refused_secret_is_told_in_one_run() -> None:
    with pytest.raises(AboxErrors) as caught:
        parse_secrets({"a": "x\n", "b": "y", "c": 1}, WHERE)
    told = [error.what for error in caught.value.errors]
    assert told == [f"{WHERE}.{name}: the value is refused" for name in "ac"]


def test_secrets_are_a_mapping() -> None:
    with pytest.raises(Exception, match="mapping") as caught:
        parse_secrets("s3cr3t", WHERE)
    assert "s3cr3t" not in str(caught.value)


@given(st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=8))
def test_a_value_never_shows_itself(value: str) -> None:
    secret = SecretValue(value)
    for shown in (repr(secret), str(secret), f"{secret}", f"{[secret]}", f"{ ({'k': secret})!r}"):
        assert value not in shown
    with pytest.raises(TypeError):
        json.dumps(secret)


def test_a_digest_follows_key_name_and_value_and_nothing_else() -> None:
    one = SecretValue("abc")
    found = {
        one.digest(KEY, "api_key"),
        one.digest(KEY, "other"),
        one.digest(f"{KEY}2", "api_key"),
        SecretValue("abd").digest(KEY, "api_key"),
    }
    assert len(found) == 4
    assert SecretValue("abc").digest(KEY, "api_key") in found


def test_the_hash_of_a_policy_follows_the_values_that_it_injects() -> None:
    def hashed(**values: str) -> str:
        return combined_hash("a" * 64, digests(parse_secrets(values, WHERE), KEY))

    assert hashed() == "a" * 64
    assert len({hashed(), hashed(k="1"), hashed(k="2"), hashed(j="1"), hashed(k="1", j="1")}) == 5
    assert hashed(k="1", j="2") == hashed(j="2", k="1")
