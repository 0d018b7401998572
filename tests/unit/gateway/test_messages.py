"""Protobuf by hand: what Envoy sends is read, what it reads is written."""

from __future__ import annotations

import contextlib
from typing import Any, cast

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from hypothesis import given
from hypothesis import strategies as st

from gateway.messages import SECRET_TYPE, Certificate, Value, parse_request, render_response


def message_classes() -> dict[str, Any]:
    """The same messages by Google's library, fields as in Envoy's definitions."""
    file = descriptor_pb2.FileDescriptorProto(name="abxt.proto", package="abxt", syntax="proto3")
    shapes = {
        "Any": [("type_url", 1, "string"), ("value", 2, "bytes")],
        "Status": [("code", 1, "int32"), ("message", 2, "string")],
        "Request": [("node", 1, "bytes"), ("type_url", 2, "string"),
                    ("subscribe", 3, "string*"), ("unsubscribe", 4, "string*"),
                    ("nonce", 6, "string"), ("error", 7, "Status")],
        "Resource": [("version", 1, "string"), ("resource", 2, "Any"), ("name", 3, "string")],
        "Response": [("resources", 2, "Resource*"), ("type_url", 4, "string"),
                     ("nonce", 5, "string"), ("removed", 6, "string*")],
        "Source": [("inline_bytes", 2, "bytes")],
        "Pair": [("chain", 1, "Source"), ("key", 2, "Source")],
        "Generic": [("value", 1, "Source")],
        "Secret": [("name", 1, "string"), ("pair", 2, "Pair"), ("generic", 5, "Generic")],
    }  # fmt: skip
    kinds = {"string": 9, "bytes": 12, "int32": 5}
    for name, fields in shapes.items():
        message = file.message_type.add(name=name)
        for field, number, kind in fields:
            bare = kind.rstrip("*")
            label = 3 if kind.endswith("*") else 1
            added = message.field.add(name=field, number=number, label=label)
            added.type = cast("Any", kinds.get(bare, 11))
            if bare not in kinds:
                added.type_name = f".abxt.{bare}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"abxt.{name}"))
        for name in shapes
    }


CLASSES = message_classes()
texts = st.lists(st.text("ab.-é", max_size=300), max_size=4)


@given(texts, texts, st.text(max_size=20))
def test_a_request_is_read_as_the_library_writes_it(subscribe, unsubscribe, complaint):
    written = CLASSES["Request"](node=b"x" * 300, type_url=SECRET_TYPE, nonce="7")
    written.subscribe.extend(subscribe)
    written.unsubscribe.extend(unsubscribe)
    if complaint:
        written.error.code = 13
        written.error.message = complaint
    found = parse_request(written.SerializeToString())
    assert (found.subscribe, found.unsubscribe) == (tuple(subscribe), tuple(unsubscribe))
    assert found.rejected == complaint


@given(st.text("ab.", min_size=1, max_size=200), st.binary(max_size=5000), texts)
def test_a_response_is_what_the_library_reads(name, data, refused):
    certificate = Certificate(chain=data, key=data[::-1])
    raw = render_response([(name, "v1", certificate)], refused, "9")
    found = CLASSES["Response"].FromString(raw)
    assert (found.nonce, found.type_url, list(found.removed)) == ("9", SECRET_TYPE, refused)
    (resource,) = found.resources
    assert (resource.name, resource.version) == (name, "v1")
    secret = CLASSES["Secret"].FromString(resource.resource.value)
    assert secret.pair.chain.inline_bytes == data
    assert secret.pair.key.inline_bytes == data[::-1]


@given(st.text("ab._", min_size=1, max_size=200), st.binary(max_size=9000))
def test_a_value_is_what_the_library_reads(name, data):
    found = CLASSES["Response"].FromString(render_response([(name, "v1", Value(data))], [], "9"))
    (resource,) = found.resources
    secret = CLASSES["Secret"].FromString(resource.resource.value)
    assert (secret.name, secret.generic.value.inline_bytes) == (name, data)
    assert not secret.HasField("pair")


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(data):
    with contextlib.suppress(ValueError):  # the one error that is promised
        parse_request(data)


@pytest.mark.parametrize("data", [b"\x1a\x05abc", b"\xff" * 11, b"\x1b", b"\x80"])
def test_what_is_no_message_is_an_error(data):
    with pytest.raises(ValueError, match=r"message|end|wire"):
        parse_request(data)
