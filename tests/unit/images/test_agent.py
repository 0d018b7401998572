"""The agent image's recipe."""

from __future__ import annotations

import json

import pytest

from abox import agent_environment
from abox.agent_environment import RESERVED
from images.agent import AGENT, BROWSER_POLICY, ENVIRONMENT, FIREFOX_POLICY, HOME, render_profile


@pytest.mark.parametrize(
    "package",
    [
        *("bash", "git", "curl", "wget", "python3", "python3-pip", "build-essential", "ripgrep"),
        *("jq", "less", "procps", "openssh-client", "ca-certificates", "file", "patch", "unzip"),
        *("xz-utils", "tini"),
    ],
)
def test_agent_has_what_coding_agents_need(package: str) -> None:
    """The promised tools are in the recipe."""
    assert package in AGENT.packages


def test_image_sets_no_variable_that_the_sandbox_sets() -> None:
    """Proxy and trust are the program's matter: the image doesn't compete."""
    assert not RESERVED & set(ENVIRONMENT)


@pytest.mark.parametrize(
    "name", ["CARGO_HOME", "GOPATH", "GOBIN", "NPM_CONFIG_PREFIX", "VIRTUAL_ENV", "XDG_CACHE_HOME"]
)
def test_installing_happens_in_the_home(name: str) -> None:
    """What tools install lands on the home's volume."""
    assert ENVIRONMENT[name].startswith(f"{HOME}/")


def test_own_programs_come_before_the_systems() -> None:
    """The venv is first on PATH; all folders of the home come before the system's."""
    path = ENVIRONMENT["PATH"].split(":")
    assert path[0] == f"{HOME}/.venv/bin"
    in_home = [folder.startswith(HOME) for folder in path]
    assert in_home == sorted(in_home, reverse=True)
    for tool in ("CARGO_HOME", "NPM_CONFIG_PREFIX"):
        assert f"{ENVIRONMENT[tool]}/bin" in path
    assert ENVIRONMENT["GOBIN"] in path


def test_login_shells_get_the_same_environment() -> None:
    """/etc/profile resets PATH; the lines put it back."""
    lines = render_profile().splitlines()
    assert f'export PATH="{ENVIRONMENT["PATH"]}"' in lines
    assert len(lines) == len(ENVIRONMENT) - 1  # HOME is the shell's own matter


def test_browsers_find_what_the_gateway_writes() -> None:
    """The image's policies lead to files of the trust volume."""
    assert BROWSER_POLICY == agent_environment.BROWSER_POLICY
    policies = json.loads(FIREFOX_POLICY)["policies"]
    assert policies["Certificates"]["Install"] == [agent_environment.SANDBOX_CA]
