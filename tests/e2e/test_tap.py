"""`abox tap` as a user types it, its captures read with the real tshark."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from abox.host_state import key_log, state_dir
from abox.pod import ENVOY_FLUSH_MS
from abox.render.paths import KEY_LOG_FILE
from tests import host
from tests.cases.sandbox import Sandbox
from tests.e2e.conftest import ALLOWED, EVIL, Abox
from tests.stacks import Project

pytestmark = pytest.mark.e2e

WILD = "198.51.100.20"
"""Address of a.wild.test."""
SECONDS = "12"
"""A tap ends by itself if its test doesn't end it."""


@contextmanager
def tapped(abox: Abox, log: Path, *words: str) -> Iterator[host.Process[bytes]]:
    """A tap that watches, for the block."""
    process = abox.start("tap", abox.name, "--seconds", SECONDS, *words, log=log)
    try:
        host.wait_until(
            lambda: "watching" in log.read_text() and _listening(log, process),
            timeout_s=30,
            describe=lambda: log.read_text(),
        )
        yield process
        process.wait(60)
    finally:
        host.end(process)


def _listening(log: Path, process: host.Process[bytes]) -> bool:
    """Whether tcpdump has opened the interface; a tap that ended says why."""
    assert process.poll() is None, log.read_text()
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return any(
        "socket" in str(link.readlink())
        for child in children
        if Path(f"/proc/{child}/comm").read_text().strip() == "tcpdump"
        for link in Path(f"/proc/{child}/fd").iterdir()
    )


def curl(sandbox: Sandbox, *words: str) -> str:
    """Status of one request of the agent."""
    command = ["curl", "-sS", "-o", "/dev/null", "-w", "%{http_code}", "-m", "10", *words]
    return sandbox.exec(command).stdout


def seen(capture: Path, keys: Path, fields: Sequence[str], display: str) -> set[str]:
    """Values that the real tshark finds in a capture with the keys."""
    options = ["-o", f"tls.keylog_file:{keys}", "-Y", display, "-T", "fields"]
    for one in fields:
        options += ["-e", one]
    return set(host.run(["tshark", "-r", str(capture), *options]).stdout.split())


@pytest.fixture
def keys(abox: Abox) -> Path:
    """Where the command keeps TLS keys."""
    return Path(key_log(state_dir(os.environ), abox.name))


def test_tap_1_capture_and_keys_show_what_was_inside_on_both_legs(
    abox: Abox, sandbox_up: Sandbox, keys: Path, tmp_path: Path
):
    """TAP-1: with the kept keys tshark shows HTTP/1.1 and HTTP/2 inside TLS, on either leg."""
    fields = ["http.request.uri", "http2.headers.path"]
    nothing = tmp_path / "no-keys"
    nothing.touch()
    # A name for each leg: a connection that the proxy kept from before the tap stays sealed.
    for leg, name, address in (("agent", ALLOWED, None), ("egress", "a.wild.test", WILD)):
        capture = tmp_path / f"{leg}.pcap"
        with tapped(abox, tmp_path / f"{leg}.log", "--leg", leg, "-o", str(capture)):
            assert curl(sandbox_up, "--http1.1", f"https://{name}/one-{leg}") == "200"
            assert curl(sandbox_up, "--http2", f"https://{name}/two-{leg}") == "200"
        assert {path.stat().st_mode & 0o777 for path in (keys, capture)} == {0o600}
        paths = seen(capture, keys, fields, "http or http2")
        shown = {path.removeprefix(f"https://{name}") for path in paths}
        assert {f"/one-{leg}", f"/two-{leg}"} <= shown
        assert address is None or address in seen(capture, keys, ["ip.dst"], "tls")
        without = seen(capture, nothing, fields, "http or http2")
        assert not any(f"-{leg}" in path for path in without)


def test_tap_2_keys_are_kept_only_while_they_are_wanted(
    abox: Abox, sandbox_up: Sandbox, keys: Path, tmp_path: Path
):
    """TAP-2: outside a tap TLS keys lead nowhere, and nobody else in the pod can read them."""
    link = ["docker", "exec", sandbox_up.facts.container("proxy"), "readlink", KEY_LOG_FILE]
    assert host.run(link).stdout.strip() == os.devnull
    with tapped(abox, tmp_path / "log", "-o", str(tmp_path / "a.pcap")) as process:
        assert host.run(link).stdout.strip() != os.devnull
        assert curl(sandbox_up, f"https://{ALLOWED}/") == "200"
        refused = abox("tap", abox.name, "--seconds", "1")
        assert refused.code == 2
        assert len(refused.stderr.splitlines()) == 3, refused.stderr
        process.kill()  # a tap that can't clean up after itself
    host.wait_until(
        lambda: host.run(link).stdout.strip() == os.devnull,
        timeout_s=10,
        describe=lambda: "the key log still leads to a pipe",
    )
    kept = keys.read_bytes()
    assert b"CLIENT_TRAFFIC_SECRET_0 " in kept
    assert curl(sandbox_up, f"https://{ALLOWED}/after") == "200"
    host.run(["sleep", str(3 * ENVOY_FLUSH_MS / 1000)])
    assert keys.read_bytes() == kept


def test_tap_3_what_the_packet_filter_refuses_is_seen(
    abox: Abox, sandbox_up: Sandbox, tmp_path: Path
):
    """TAP-3: the agent's own port shows each packet, attempts past the proxy among them."""
    with tapped(abox, tmp_path / "log", "--no-keys") as process:
        assert curl(sandbox_up, f"http://{ALLOWED}/") == "200"
        assert curl(sandbox_up, "--noproxy", "*", f"http://{EVIL}/") == "000"
        assert process.stdout is not None
        shown = process.stdout.read().decode()
    assert f".{sandbox_up.proxy_port}: Flags [S]" in shown
    assert f"{EVIL}.80: Flags [S]" in shown
    answers = [line for line in shown.splitlines() if f" {EVIL}.80 > " in line]
    assert all("Flags [R" in line for line in answers), "more than a refusal came back"
    assert "Flags [P" in shown, "requests of the proxy aren't among them"


def test_tap_says_that_the_agent_is_gone_and_keeps_what_came_before(
    abox: Abox, sandbox_up: Sandbox, project: Project, tmp_path: Path
):
    """An agent that ends meanwhile takes its port along: three lines, and a whole capture."""
    log, capture = tmp_path / "log", tmp_path / "a.pcap"
    with tapped(abox, log, "--no-keys", "-o", str(capture)) as process:
        assert curl(sandbox_up, f"http://{ALLOWED}/before") == "200"
        host.run(["sleep", "2"])  # what the kernel has gathered for tcpdump would go with the port
        host.run(["docker", "stop", "--time", "0", sandbox_up.facts.agent_container])
        assert process.wait(20) == 2
    assert len(log.read_text().splitlines()[1:]) == 3, log.read_text()
    without = abox("tap", abox.name, "--seconds", "1")
    assert without.code == 2
    assert "does not run" in without.stderr
    project.pulumi("up", "--yes", "--skip-preview", "--stack", sandbox_up.name)
    read = [
        "tshark",
        "-r",
        str(capture),
        "-Y",
        "http.request",
        "-T",
        "fields",
        "-e",
        "http.request.uri",
    ]
    assert "/before" in host.run(read).stdout


def test_tap_overwrites_nothing(abox: Abox, tmp_path: Path):
    """A file that exists stays as it is, and the error says so."""
    file = tmp_path / "mine"
    file.write_text("mine")
    done = abox("tap", abox.name, "-o", str(file))
    assert (done.code, file.read_text()) == (2, "mine")
    assert done.stderr.startswith(f"{file} exists\nwhy: ")
