"""`abox check` on containers of known openness, without a stack."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator

import pytest

from abox.allowlist import parse_policy
from abox.naming import Role
from cli.check import HostListener, check_rows, run_probes
from cli.containers import Container, list_containers, running_of_role
from cli.probe_plan import Row, plan_probes
from tests.busybox_image import busybox_image
from tests.host import ROOT, run
from tests.integration.cli.test_probes import AROUND

pytestmark = pytest.mark.integration

NAME = "abxt-check"
SUBNET, GATEWAY = "10.254.77.0/24", "10.254.77.2"


def images() -> dict[str, str]:
    lock = json.loads((ROOT / ".abox" / "images.lock.json").read_text())
    return {name: str(one["id"]) for name, one in lock.items()}


@pytest.fixture(scope="module")
def network() -> Iterator[str]:
    run(["docker", "network", "create", "--internal", "--subnet", SUBNET, NAME])
    yield NAME
    run(["docker", "network", "rm", NAME])


def start(role: str, image: str, *options: str) -> None:
    run(
        ["docker", "run", "--detach", "--name", f"{NAME}-{role}", "--label", f"abox.role={role}",
         "--label", f"abox.sandbox={NAME}", *options, image, "sleep", "600"],
    )  # fmt: skip


@pytest.fixture
def agent(request, network) -> Iterator[Container]:
    """An agent on an internal network without a table of ours; without Python if asked so."""
    image = busybox_image() if getattr(request, "param", "") == "no-python" else images()["agent"]
    options = ["--network", network, "--env", f"HTTP_PROXY=http://{GATEWAY}:8080"]
    try:
        start("agent", image, *options)
        start("control", images()["gateway"], "--network", "none")
        yield running_of_role(list_containers(), NAME, Role.AGENT)
    finally:
        run(["docker", "rm", "--force", f"{NAME}-agent", f"{NAME}-control"], check=False)


def rows_of(agent: Container) -> dict[str, Row]:
    return {row.id: row for row in check_rows(agent, list_containers(), parse_policy(["a.test"]))}


def test_a_sandbox_without_a_firewall_is_found_open(agent):
    found = rows_of(agent)
    for name in ("host-listener", "host-listener-silent", "host-echo"):
        assert found[name].state == "open", name
    for name in ("health-dns", "health-http", "health-https"):
        assert found[name].state == "fails", name
    for name in ("denied-dns", "denied-http", "literal-http", "fronting"):
        assert found[name].state == "unproven", name


@pytest.mark.parametrize("agent", ["no-python"], indirect=True)
def test_an_image_without_python_is_probed_from_beside(agent, capsys):
    found = rows_of(agent)
    assert "no python3" in capsys.readouterr().err
    assert found["host-listener"].state == "open"
    assert found["capabilities"].state == "open"
    assert found["no-new-privileges"].state == "open"
    assert "engine-sockets" not in found
    assert run(["docker", "ps", "-aq", "--filter", "name=abox-check-"]).stdout == ""


@pytest.mark.parametrize("agent", ["no-python"], indirect=True)
def test_probes_beside_the_agent_are_answered_all(agent):
    planned, answers = run_probes(agent, list_containers(), plan_probes(AROUND))
    for probe in planned:
        assert set(answers[probe.id]) == set(probe.attempts), probe.id


def test_a_listener_tells_what_arrived():
    with HostListener("127.0.0.1") as listener:
        assert listener.port is not None
        assert listener.row().ok
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
            one.sendto(b"x", ("127.0.0.1", listener.port))
        assert listener.row().result == "a datagram"
        with socket.create_connection(("127.0.0.1", listener.port), 2):
            assert listener.row().result == "a connection"


def test_a_listener_on_an_address_that_is_not_there_has_no_port():
    with HostListener("192.0.2.77") as listener:
        assert listener.port is None
