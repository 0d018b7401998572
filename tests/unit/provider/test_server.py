"""The gRPC side: errors in three lines, nothing blocks the others."""

# ruff: noqa: ARG002 (a fake resource has no use for most arguments)

from __future__ import annotations

import asyncio
import threading

import grpc
import pytest
from pulumi.provider.experimental.provider import ReadRequest
from pulumi.runtime.proto import provider_pb2 as proto

from abox.errors import AboxError, HostError
from provider.resource import Field, Resource
from provider.server import AboxProvider, _Servicer
from provider.values import wrapped
from tests.unit.provider.samples import finished

URN = "urn:pulumi:s::p::abox:a:A$abox:index:Fake::x"


class Fake(Resource):
    """Does what its test says."""

    type_name = "Fake"
    fields = (Field(name="text", kind=str),)

    def __init__(self, reading=lambda: {}):
        self._reading = reading

    def planned(self, inputs, old):
        return {}

    def create(self, inputs):
        raise HostError(what="it broke", why="because", remedy="mend it")

    def read(self, resource_id, state):
        return self._reading()

    def update(self, resource_id, old, new):
        raise ZeroDivisionError

    def delete(self, resource_id, state):
        raise HostError(what="it stays", why="because", remedy="mend it")


class Context:
    """The part of a gRPC context that the servicer uses."""

    async def abort(self, code, details):
        raise grpc.aio.AbortError(f"{code.name}: {details}")


def call(method, request):
    servicer = _Servicer([], "0.1.0", AboxProvider(lambda: {"Fake": Fake()}), engine_address="")
    return finished(getattr(servicer, method)(request, Context()))


@pytest.mark.parametrize(
    ("method", "request_", "what"),
    [
        ("Create", proto.CreateRequest(urn=URN), "it broke"),
        ("Delete", proto.DeleteRequest(urn=URN), "it stays"),
    ],
)
def test_user_sees_three_lines_and_no_traceback(method, request_, what):
    with pytest.raises(grpc.aio.AbortError) as caught:
        call(method, request_)
    assert str(caught.value) == f"UNKNOWN: {what}\nwhy: because\ndo: mend it"


def test_bug_keeps_its_traceback():
    with pytest.raises(Exception, match="line") as caught:
        call("Update", proto.UpdateRequest(urn=URN))
    assert not isinstance(caught.value, grpc.aio.AbortError)


def test_gone_resource_has_an_empty_id_and_keeps_its_inputs():
    provider = AboxProvider(lambda: {"Fake": Fake(lambda: None)})
    inputs = {"text": wrapped("x")}
    answer = finished(provider.read(ReadRequest(URN, "id", inputs, inputs)))
    assert answer.resource_id == ""
    assert answer.inputs == inputs


def test_import_is_refused():
    provider = AboxProvider(lambda: {"Fake": Fake()})
    with pytest.raises(AboxError, match="can't be imported"):
        finished(provider.read(ReadRequest(URN, "id", {}, {})))


def test_slow_resources_are_read_side_by_side():
    meeting = threading.Barrier(2, timeout=5)  # passes only if both are inside at once

    def wait():
        meeting.wait()
        return {}

    provider = AboxProvider(lambda: {"Fake": Fake(wait)})
    request = ReadRequest(URN, "id", {}, {"text": wrapped("x")})

    async def both():
        return await asyncio.gather(provider.read(request), provider.read(request))

    assert len(finished(both())) == 2
