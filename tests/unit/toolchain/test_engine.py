"""Finding, starting and stopping a Docker engine."""

from __future__ import annotations

import io
import json
import os
import shutil
import socketserver
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from abox.errors import HostError
from toolchain import engine, shell
from toolchain.progress import Step


class _Engine(socketserver.ThreadingUnixStreamServer):
    """An engine that knows its version and has containers."""

    containers: list[dict[str, Any]] = []  # noqa: RUF012  set per test

    def get_request(self) -> tuple[Any, Any]:
        request, _ = super().get_request()
        return request, ("local", 0)


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        answers = {"/version": {"Version": "20.10.24"}, "/containers/json": _Engine.containers}
        found = self.path in answers
        self.send_response(200 if found else 404)
        self.end_headers()
        self.wfile.write(json.dumps(answers.get(self.path, {"message": "no"})).encode())

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def answering(tmp_path: Path) -> Iterator[Path]:
    """The socket of an engine that answers."""
    path = tmp_path / "docker.sock"
    with _Engine(str(path), _Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield path
        server.shutdown()
        thread.join()
    _Engine.containers = []


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Log, pid files and locks of the engine in a folder of the test."""
    monkeypatch.setattr(engine, "LOG", tmp_path / "log" / "dockerd.log")
    monkeypatch.setattr(engine, "PID_FILE", tmp_path / "run" / "dockerd.pid")
    monkeypatch.setattr(engine, "HOST_RUN", tmp_path / "run")
    monkeypatch.setattr(engine, "CONTAINERD_PID_FILE", tmp_path / "run" / "containerd.pid")
    monkeypatch.setattr(engine, "processes_named", lambda _: [])
    monkeypatch.setattr(engine, "_load_bridge_filter", lambda _: None)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    (tmp_path / "run").mkdir()
    return tmp_path


def quiet() -> tuple[Step, io.StringIO]:
    """A step and what it says."""
    output = io.StringIO()
    return Step("engine", output=output), output


def test_engine_that_answers_is_used(answering: Path, places: Path) -> None:
    """Nothing is started where an engine answers, whoever runs it."""
    step, output = quiet()
    engine.ensure(step, {"DOCKER_HOST": f"unix://{answering}"})
    assert "Docker 20.10.24 answers" in output.getvalue()
    assert not (places / "log").exists()


@pytest.mark.parametrize("host", ["tcp://10.0.0.1:2375", "ssh://me@there"])
def test_engine_elsewhere_is_refused(host: str) -> None:
    """Firewall and namespaces are on this host, so the engine must be."""
    with pytest.raises(HostError, match="DOCKER_HOST"):
        engine.socket_path({"DOCKER_HOST": host})


def test_default_socket() -> None:
    """Without DOCKER_HOST it is Docker's own socket."""
    assert engine.socket_path({}) == Path("/var/run/docker.sock")


def test_refused_and_missing_socket_are_no_answer(tmp_path: Path) -> None:
    """No file, and a file that nobody serves, both mean that no engine answers."""
    assert engine.ask(tmp_path / "missing", "/version") is None
    stale = tmp_path / "stale"
    with _Engine(str(stale), _Handler):
        pass
    assert stale.exists()
    assert engine.ask(stale, "/version") is None


def test_start_needs_root(tmp_path: Path, places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without root the message says so before anything is tried."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(HostError, match="no Docker engine answers"):
        engine.ensure(quiet()[0], {"DOCKER_HOST": f"unix://{tmp_path}/none"})


def with_dockerd(places: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Put a `dockerd` on PATH, and no systemd on the host."""
    folder = places / "bin"
    folder.mkdir()
    program = folder / "dockerd"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    real = Path.is_dir
    monkeypatch.setattr(
        Path, "is_dir", lambda self: str(self) != "/run/systemd/system" and real(self)
    )


def test_engine_that_dies_is_explained(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reason is what this start wrote into the log, not an earlier one."""
    log = places / "log" / "dockerd.log"
    log.parent.mkdir()
    log.write_text("failed to start daemon: an older reason\n")
    with_dockerd(places, monkeypatch, "echo 'failed to start daemon: no space left' >&2; exit 1")
    with pytest.raises(HostError) as failed:
        engine.ensure(quiet()[0], {"DOCKER_HOST": f"unix://{places}/none"})
    assert failed.value.why == "failed to start daemon: no space left"
    assert str(log) in failed.value.remedy


def test_stale_pid_files_dont_stop_a_start(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pid file whose process is gone, or another program by now, is removed before the start."""
    (places / "run" / "containerd.pid").write_text("1")
    (places / "run" / "dockerd.pid").write_text("999999999")
    with_dockerd(places, monkeypatch, f"ls {places}/run; exit 1")
    with pytest.raises(HostError) as failed:
        engine.ensure(quiet()[0], {"DOCKER_HOST": f"unix://{places}/none"})
    assert ".pid" not in failed.value.why


def test_missing_dockerd_is_named(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without dockerd the remedy is the step that installs it."""
    with_dockerd(places, monkeypatch, "")
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    with pytest.raises(HostError, match="dockerd was not found"):
        engine.ensure(quiet()[0], {"DOCKER_HOST": f"unix://{places}/none"})


@pytest.mark.parametrize(
    ("log", "words"),
    [
        ("a\nfailed to start daemon: x\nb\n", "failed to start daemon: x"),
        ('level=error msg="e1"\nlast\n', 'level=error msg="e1"'),
        ("one\ntwo\nthree\nfour\n", "two | three | four"),
        ("", "it printed nothing"),
    ],
)
def test_last_words(log: str, words: str) -> None:
    """The failing lines of a log, else its last ones."""
    assert engine.last_words(log) == words


def test_foreign_engine_is_never_stopped(answering: Path, places: Path) -> None:
    """Without a pid file of ours that names a running dockerd, nothing is ended."""
    for text in (None, "not a number", str(os.getpid())):
        if text is not None:
            (places / "run" / "dockerd.pid").write_text(text)
        step, output = quiet()
        engine.stop(step, {"DOCKER_HOST": f"unix://{answering}"})
        assert "no engine that abox started is running" in output.getvalue()


def test_engine_with_containers_is_not_stopped(
    answering: Path, places: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Running containers keep the engine up."""
    process = shell.child(["sleep", "60"], environment=dict(os.environ))
    (places / "run" / "dockerd.pid").write_text(str(process.pid))
    monkeypatch.setattr(engine, "program_of", lambda _: "dockerd" if process.poll() is None else "")
    _Engine.containers = [{"Names": ["/someone"]}]
    with pytest.raises(HostError, match="not stopped"):
        engine.stop(quiet()[0], {"DOCKER_HOST": f"unix://{answering}"})
    assert process.poll() is None
    _Engine.containers = []
    engine.stop(quiet()[0], {"DOCKER_HOST": f"unix://{answering}"})
    assert process.poll() is not None
    assert not (places / "run" / "dockerd.pid").exists()
