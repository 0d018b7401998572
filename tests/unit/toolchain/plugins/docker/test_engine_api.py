"""Requests to an engine that isn't there, or refuses."""

from __future__ import annotations

import json
import socketserver
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import ClassVar

import pytest

from tests.recordings import CallFailedError, ask
from toolchain.plugins.bridge.resource import ResourceError
from toolchain.plugins.docker.engine_api import NEWEST_API, Engine, EngineError
from toolchain.plugins.docker.provider import DockerProvider

NETWORK_URN = "urn:pulumi:s::p::docker:index/network:Network::n"


class FakeEngine(BaseHTTPRequestHandler):
    """Answers a ping, and 500 to everything else."""

    seen: ClassVar[list[str]] = []
    version: ClassVar[str] = "1.41"

    def do_GET(self) -> None:
        self.seen.append(self.path)
        if self.path == "/_ping":
            self._answer(200, b"OK")
        else:
            self._answer(500, json.dumps({"message": "the engine is on fire"}).encode())

    do_DELETE = do_POST = do_GET

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Api-Version", self.version)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def address_string(self) -> str:
        return "unix"

    def log_message(self, *_args: object) -> None:
        """Say nothing."""


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """Address of an engine that refuses everything but a ping."""
    path = tmp_path / "engine.sock"
    FakeEngine.seen.clear()
    with socketserver.ThreadingUnixStreamServer(str(path), FakeEngine) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"unix://{path}"
        finally:
            server.shutdown()
            thread.join()


def configured(host: str) -> DockerProvider:
    provider = DockerProvider()
    ask(provider, "Configure", {"args": {"host": host}, "acceptSecrets": True})
    return provider


def test_configured_host_is_asked(address: str) -> None:
    """The provider's `host` decides, in the version of the API that the engine offers."""
    with pytest.raises(EngineError, match="Error response from daemon: the engine is on fire"):
        Engine(address).get("/networks")
    assert FakeEngine.seen == ["/_ping", "/v1.41/networks"]


@pytest.mark.parametrize(("offered", "spoken"), [("1.41", (1, 41)), ("1.99", NEWEST_API)])
def test_version_is_agreed_on_once(
    address: str, monkeypatch: pytest.MonkeyPatch, offered: str, spoken: tuple[int, int]
) -> None:
    """The engine's own, but never one newer than the official plugin's; it is asked once."""
    monkeypatch.setattr(FakeEngine, "version", offered)
    engine = Engine(address)
    assert engine.version() == spoken
    assert engine.version() == spoken
    assert FakeEngine.seen == ["/_ping"]


def test_error_is_not_taken_for_absence(address: str) -> None:
    """A read that fails is an error: only the engine's own 404 means gone."""
    provider = configured(address)
    for token in ("network:Network", "volume:Volume", "container:Container"):
        request = {
            "urn": f"urn:pulumi:s::p::docker:index/{token}::n",
            "id": "0" * 64,
            "properties": {"name": "n"},
            "inputs": {"name": "n"},
        }
        with pytest.raises(CallFailedError, match=r"(?s)^refreshing urn.*the engine is on fire"):
            ask(provider, "Read", request)
    with pytest.raises(CallFailedError, match=r"(?s)^deleting urn.*the engine is on fire"):
        ask(provider, "Delete", {"urn": NETWORK_URN, "id": "0", "properties": {"name": "n"}})


def test_missing_engine_is_named(tmp_path: Path) -> None:
    """The address, and what to look for; configuring alone doesn't need an engine."""
    host = f"unix://{tmp_path}/nobody.sock"
    provider = configured(host)
    with pytest.raises(CallFailedError) as failed:
        ask(
            provider,
            "Create",
            {"urn": NETWORK_URN, "name": "n", "properties": {"name": "n", "ipamDriver": "default"}},
        )
    assert host in str(failed.value)
    assert "Is the docker daemon running?" in str(failed.value)


def test_unchecked_engine_is_not_pinged_twice(tmp_path: Path) -> None:
    """Without the check the first request itself says what is wrong."""
    with pytest.raises(ResourceError) as failed:
        Engine(f"unix://{tmp_path}/nobody.sock", checked=False).get("/x")
    assert "Error pinging" not in str(failed.value)


@pytest.mark.parametrize(
    ("news", "wrong"),
    [
        ({"host": "ssh://box"}, "host"),
        ({"host": "/var/run/docker.sock"}, "host"),
        ({"certPath": "/x"}, "certPath"),
        ({"registryAuth": "[]"}, "registryAuth"),
        ({"hots": "unix:///x"}, "hots"),
    ],
)
def test_configuration_that_is_not_implemented_is_refused(news: dict[str, str], wrong: str) -> None:
    """By name; nothing is accepted and ignored."""
    urn = "urn:pulumi:s::p::pulumi:providers:docker::d"
    answer = ask(DockerProvider(), "CheckConfig", {"urn": urn, "news": news})
    assert [failure["property"] for failure in answer["failures"]] == [wrong]
