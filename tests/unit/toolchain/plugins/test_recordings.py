"""The stand-ins answer recorded calls as the official plugins did: calls that touch nothing."""

from __future__ import annotations

from concurrent import futures

import grpc
import pytest
from google.protobuf import empty_pb2
from pulumi.runtime.proto import provider_pb2, provider_pb2_grpc

from tests.recordings import Recording, all_recordings, ask, differences, recording
from toolchain.plugins.command.engine_log import EngineLog
from toolchain.plugins.command.provider import CommandProvider
from toolchain.plugins.docker.provider import DockerProvider
from toolchain.plugins.libvirt.provider import LibvirtProvider

TOUCHING_CALLS = ("Create", "Read", "Update", "Delete")
"""Calls that the integration tests replay on a real engine."""


def plugin_of(name: str) -> provider_pb2_grpc.ResourceProviderServicer:
    if name.startswith("docker-"):
        return DockerProvider()
    if name.startswith("libvirt-"):
        return LibvirtProvider()
    return CommandProvider(EngineLog(None))


def is_pure(call: Recording) -> bool:
    return call.preview or call.call not in TOUCHING_CALLS


PURE = [call.name for call in all_recordings() if is_pure(call)]


def test_recordings_are_there() -> None:
    """A copy of the recordings lies in the repository: the replay can't select nothing."""
    assert len(all_recordings()) == 92
    assert len(PURE) == 49


@pytest.mark.parametrize("name", [name for name in PURE if name != "docker-handshake"])
def test_answer_is_the_recorded_one(name: str) -> None:
    """Check, Diff, previews and configuration: equal as data, for the same request."""
    call = recording(name)
    got = ask(plugin_of(name), call.call, call.request)
    wanted = call.response or {}
    if name == "command-create-preview":
        # The id ends in 8 random digits.
        assert got["id"][:-8] == wanted["id"][:-8]
        wanted["id"] = got["id"]
    assert list(differences(wanted, got)) == []


def test_handshake_is_not_implemented() -> None:
    """The official Docker plugin knows no handshake; the engine then configures it the old way."""
    call = recording("docker-handshake")
    assert call.error is not None
    assert "Unimplemented" in call.error
    for plugin in (DockerProvider(), CommandProvider(EngineLog(None))):
        with pytest.raises(NotImplementedError, match="Method not implemented"):
            ask(plugin, call.call, call.request)


def test_answers_are_served_over_grpc() -> None:
    """The same over a real channel, where an unimplemented call has gRPC's own code."""
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=2))
    provider_pb2_grpc.add_ResourceProviderServicer_to_server(DockerProvider(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            stub = provider_pb2_grpc.ResourceProviderStub(channel)
            assert stub.GetPluginInfo(empty_pb2.Empty()).version == "5.2.0"
            with pytest.raises(grpc.RpcError) as refused:
                stub.Handshake(provider_pb2.ProviderHandshakeRequest())
            assert refused.value.code() == grpc.StatusCode.UNIMPLEMENTED
    finally:
        server.stop(None)
