"""Sandboxes are found by their labels."""

from __future__ import annotations

import json
from typing import Any

import pytest

from abox.errors import HostError, SettingsError
from abox.naming import Role
from cli import host
from cli.check import neighbours, proxy_of
from cli.checkout import Checkout
from cli.containers import Container, check_known, of_role, parse_inspect, running_of_role
from cli.execute import exec_command, find_agent
from cli.host import Finished


def inspected(sandbox="dev", role="agent", state="running", **more) -> dict[str, Any]:
    return {
        "Id": f"{sandbox}-{role}-id",
        "Name": f"/{sandbox}-{role}",
        "Image": "sha256:1",
        "State": {"Status": state, "Pid": 7 if state == "running" else 0},
        "Config": {
            "Labels": {"abox.sandbox": sandbox, "abox.role": role},
            "User": "1000:1000",
            "Env": ["HTTP_PROXY=http://10.10.3.2:8080", "EMPTY="],
        },
        "NetworkSettings": {"Networks": {"n": {"IPAddress": "10.10.3.10"}, "x": {"IPAddress": ""}}},
        **more,
    }


def parsed(*documents: dict[str, Any]) -> list[Container]:
    return parse_inspect(json.dumps(documents))


def test_a_container_is_read_from_the_engines_description():
    (one,) = parsed(inspected())
    assert (one.name, one.sandbox, one.role, one.user, one.pid) == (
        "dev-agent",
        "dev",
        "agent",
        "1000:1000",
        7,
    )
    assert one.addresses == {"n": "10.10.3.10"}
    assert one.environment == {"HTTP_PROXY": "http://10.10.3.2:8080", "EMPTY": ""}


def test_containers_without_our_label_are_left_out():
    foreign = inspected()
    foreign["Config"] = {"Labels": None}
    assert parsed(foreign) == []


def test_a_running_container_comes_before_a_stopped_one_of_the_same_role():
    stopped, running = inspected(state="exited"), inspected()
    assert of_role(parsed(stopped, running), "dev", Role.AGENT).running


def test_an_agent_that_does_not_run_is_told_with_the_remedy():
    with pytest.raises(HostError) as raised:
        running_of_role(parsed(inspected(state="exited")), "dev", Role.AGENT)
    assert "exited" in raised.value.what
    assert "pulumi up -s dev" in raised.value.remedy


def test_a_sandbox_that_is_not_up_is_told_with_the_remedy():
    with pytest.raises(HostError, match="pulumi up -s dev"):
        of_role([], "dev", Role.AGENT)


def test_a_sandbox_of_another_checkout_is_known_too(checkout: Checkout):
    check_known(checkout, "dev")
    check_known(checkout, "far", parsed(inspected("far")))
    with pytest.raises(SettingsError, match="known stacks: dev, far"):
        check_known(checkout, "nope", parsed(inspected("far")))


def test_an_engine_that_does_not_answer_is_told(checkout: Checkout, monkeypatch):
    said = "Cannot connect to the Docker daemon at unix:///var/run/docker.sock.\nmore\n"
    monkeypatch.setattr(host, "run", lambda *_, **__: Finished(1, "", said))
    with pytest.raises(HostError) as raised:
        find_agent("dev")
    assert raised.value.why.startswith("Cannot connect")
    assert "make engine" in raised.value.remedy


def test_a_program_runs_with_a_terminal_only_if_there_is_one():
    (agent,) = parsed(inspected())
    assert exec_command(agent, ["ls", "-l"], terminal=False) == [
        "docker", "exec", "--interactive", "--workdir", "/workspace", "dev-agent-id", "ls", "-l",
    ]  # fmt: skip
    assert "--tty" in exec_command(agent, ["ls"], terminal=True)


def test_the_proxy_is_read_from_the_agents_variables():
    (agent,) = parsed(inspected())
    address, port = proxy_of(agent)
    assert (str(address), port) == ("10.10.3.2", 8080)


@pytest.mark.parametrize("value", ["", "http://proxy:8080", "http://10.10.3.2:x", "no url"])
def test_an_agent_without_a_proxy_variable_is_told(value):
    document = inspected()
    document["Config"]["Env"] = [f"HTTP_PROXY={value}"]
    with pytest.raises(HostError, match="HTTP_PROXY"):
        proxy_of(parsed(document)[0])


def test_neighbours_are_other_sandboxes_and_the_own_egress_leg():
    own = inspected(role="pause")
    own["NetworkSettings"] = {
        "Networks": {"n": {"IPAddress": "10.10.3.2"}, "e": {"IPAddress": "10.11.3.2"}}
    }
    other = inspected("far")
    other["NetworkSettings"] = {"Networks": {"m": {"IPAddress": "10.10.4.10"}}}
    gateway, _ = proxy_of(parsed(inspected())[0])
    vms = {"dev": "10.10.3.10", "machine": "10.10.5.10"}
    found = neighbours("dev", parsed(inspected(), own, other), vms, gateway)
    assert {(one.sandbox, one.address) for one in found} == {
        ("own", "10.11.3.2"),
        ("far", "10.10.4.10"),
        ("machine", "10.10.5.10"),
    }
