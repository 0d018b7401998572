"""What agents use every day works through interception without any setting of the user's."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import zipfile
from base64 import urlsafe_b64encode
from pathlib import Path

import pytest

from tests import host
from tests.e2e.conftest import ALLOWED, ORIGIN

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


def wheel(name: str, version: str) -> bytes:
    """A pure Python wheel with one module."""
    info = f"{name}-{version}.dist-info"
    files = {
        f"{name}.py": b"ANSWER = 42\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n".encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(
        f"{path},sha256={urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip('=')},"
        f"{len(data)}\n"
        for path, data in files.items()
    )
    files[f"{info}/RECORD"] = (record + f"{info}/RECORD,,\n").encode()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for path, data in files.items():
            archive.writestr(path, data)
    return buffer.getvalue()


def npm_package(folder: Path, name: str, version: str) -> None:
    """A registry that knows one package with one command."""
    manifest = {"name": name, "version": version, "bin": {name: "cli.js"}}
    files = {
        "package/package.json": json.dumps(manifest).encode(),
        "package/cli.js": b"#!/usr/bin/env node\nconsole.log('forty-two')\n",
    }
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for path, data in files.items():
            entry = tarfile.TarInfo(path)
            entry.size, entry.mode = len(data), 0o755
            archive.addfile(entry, io.BytesIO(data))
    (folder / f"{name}.tgz").write_bytes(buffer.getvalue())
    dist = {"tarball": f"{URL}/{name}.tgz", "shasum": hashlib.sha1(buffer.getvalue()).hexdigest()}  # noqa: S324  # npm's format
    document = {
        "name": name,
        "dist-tags": {"latest": version},
        "versions": {version: {**manifest, "dist": dist}},
    }
    (folder / name).write_text(json.dumps(document))


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


def test_tool_2_git_clones_over_https(sandbox_up, shelf, tmp_path_factory):
    """TOOL-2: git clone, and a commit in the clone."""
    work = tmp_path_factory.mktemp("work")
    git = ["git", "-c", "user.name=T", "-c", "user.email=t@allowed.test", "-C", str(work)]
    host.run([*git, "init", "-q", "-b", "main"])
    (work / "file.txt").write_text("content\n")
    host.run([*git, "add", "."])
    host.run([*git, "commit", "-qm", "Add a file"])
    host.run(["git", "clone", "-q", "--bare", str(work), str(shelf / "repo.git")])
    host.run(["git", "-C", str(shelf / "repo.git"), "update-server-info"])
    done = sandbox_up.exec(
        ["sh", "-c", f"cd $(mktemp -d) && git clone -q {URL}/repo.git && cat repo/file.txt"]
    )
    assert done.code == 0, done.stderr
    assert done.stdout == "content\n"


def test_tool_3_pip_installs_without_root_or_settings(sandbox_up, shelf):
    """TOOL-3: pip installs into the venv on PATH, in a root that is read-only."""
    folder = shelf / "simple" / "abxtdemo"
    folder.mkdir(parents=True)
    name = "abxtdemo-1.0-py3-none-any.whl"
    (folder / name).write_bytes(wheel("abxtdemo", "1.0"))
    (folder / "index.html").write_text(f'<a href="{name}">{name}</a>')
    done = sandbox_up.exec(
        ["pip", "install", "--no-cache-dir", "--index-url", f"{URL}/simple/", "abxtdemo"]
    )
    assert done.code == 0, done.stdout + done.stderr
    assert sandbox_up.exec(["python3", "-c", "import abxtdemo; print(abxtdemo.ANSWER)"]).stdout == (
        "42\n"
    )
    assert sandbox_up.exec(["pip", "uninstall", "-y", "abxtdemo"]).code == 0


def test_tool_4_npm_installs_globally_into_the_home(sandbox_up, shelf):
    """TOOL-4: npm install -g needs no root, and the command is on PATH."""
    npm_package(shelf, "abxtdemo", "1.0.0")
    done = sandbox_up.exec(["npm", "install", "-g", "--registry", f"{URL}/", "abxtdemo"])
    assert done.code == 0, done.stdout + done.stderr
    assert sandbox_up.exec(["abxtdemo"]).stdout == "forty-two\n"
    assert sandbox_up.exec(["npm", "uninstall", "-g", "abxtdemo"]).code == 0


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
