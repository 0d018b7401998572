"""What agents use every day works through interception without any setting of the user's."""

from __future__ import annotations

import pytest

from tests import host
from tests.e2e.conftest import ALLOWED, ORIGIN
from tests.e2e.registries import NAME, SAYS, lay_git, lay_npm, lay_pypi

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

URL = f"https://{ALLOWED}"


@pytest.fixture
def shelf(sandbox_up, world, tmp_path):
    """A folder that the allowed origin serves over HTTPS."""
    world.reset()
    world.dns.set({ALLOWED: [ORIGIN]})
    world.origin(at=f"{ORIGIN}:443", speaks="https", answer={"folder": str(tmp_path)})
    (tmp_path / "hello.txt").write_text("hello\n")
    return tmp_path


@pytest.mark.parametrize(
    "command",
    [
        ["curl", "-fsS", f"{URL}/hello.txt"],
        ["curl", "-fsS", "--http1.1", f"{URL}/hello.txt"],
        ["wget", "-qO-", f"{URL}/hello.txt"],
        [
            "python3",
            "-c",
            f"import urllib.request as u; print(u.urlopen('{URL}/hello.txt').read().decode())",
        ],
        ["node", "-e", f"fetch('{URL}/hello.txt').then(r => r.text()).then(console.log)"],
        [
            "node",
            "-e",
            f"require('https').get('{URL}/hello.txt', r => r.pipe(process.stdout))",
        ],
    ],
    ids=["curl-h2", "curl-h1", "wget", "python-urllib", "node-fetch", "node-https"],
)
def test_tool_1_clients_fetch_over_https(sandbox_up, shelf, command):
    """TOOL-1: the certificate is trusted and the proxy is found without a setting."""
    done = sandbox_up.exec(command)
    assert done.code == 0, done.stderr
    assert "hello" in done.stdout


def test_tool_2_git_clones_over_https(sandbox_up, shelf):
    """TOOL-2: git clone, and a commit in the clone."""
    lay_git(shelf)
    done = sandbox_up.exec(
        [
            *("sh", "-ec"),
            f"cd $(mktemp -d); git clone -q {URL}/{NAME}.git; cd {NAME}; cat says.txt\n"
            "git commit -q --allow-empty -m 'Say no more'; git log --format=%an -1",
        ]
    )
    assert done.code == 0, done.stderr
    assert done.stdout == f"{SAYS}\nagent\n"


def test_tool_3_pip_installs_without_root_or_settings(sandbox_up, shelf):
    """TOOL-3: pip installs into the venv on PATH, in a root that is read-only."""
    lay_pypi(shelf)
    done = sandbox_up.exec(
        ["pip", "install", "--no-cache-dir", "--index-url", f"{URL}/simple/", NAME]
    )
    assert done.code == 0, done.stdout + done.stderr
    assert sandbox_up.exec([NAME]).stdout == f"{SAYS}\n"
    assert sandbox_up.exec(["pip", "uninstall", "-y", NAME]).code == 0


def test_tool_4_npm_installs_globally_into_the_home(sandbox_up, shelf):
    """TOOL-4: npm install -g needs no root, and the command is on PATH."""
    lay_npm(shelf, URL)
    done = sandbox_up.exec(["npm", "install", "-g", "--registry", f"{URL}/npm/", NAME])
    assert done.code == 0, done.stdout + done.stderr
    assert sandbox_up.exec([NAME]).stdout == f"{SAYS}\n"
    assert sandbox_up.exec(["npm", "uninstall", "-g", NAME]).code == 0


def test_tool_5_python_requests_works(sandbox_up, shelf):
    """TOOL-5: requests, which brings a trust store of its own, trusts the sandbox's CA."""
    folder = shelf / "simple"
    wheels = shelf / "wheels"
    host.run(
        ["python3", "-m", "pip", "download", "-q", "-d", str(wheels), "requests"], timeout_s=120
    )
    for path in wheels.iterdir():
        project = path.name.split("-")[0].lower().replace("_", "-")
        (folder / project).mkdir(parents=True)
        (folder / project / path.name).write_bytes(path.read_bytes())
        (folder / project / "index.html").write_text(f'<a href="{path.name}">{path.name}</a>')
    done = sandbox_up.exec(
        ["pip", "install", "--no-cache-dir", "--index-url", f"{URL}/simple/", "requests"]
    )
    assert done.code == 0, done.stdout + done.stderr
    code = f"import requests; print(requests.get('{URL}/hello.txt', timeout=10).text)"
    assert "hello" in sandbox_up.exec(["python3", "-c", code]).stdout


def test_tool_6_home_and_workspace_outlive_the_container(sandbox_up):
    """TOOL-6: a replaced agent finds its files again."""
    assert (
        sandbox_up.exec(["sh", "-c", "echo kept > ~/mark; echo kept > /workspace/mark"]).code == 0
    )
    before = sandbox_up.facts.agent_container
    host.run(["docker", "rm", "-f", before])
    sandbox_up.stack.up()
    sandbox_up.attach()
    assert sandbox_up.facts.agent_container != before
    assert sandbox_up.exec(["sh", "-c", "cat ~/mark /workspace/mark"]).stdout == "kept\nkept\n"
