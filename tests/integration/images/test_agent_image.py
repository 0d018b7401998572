"""The agent image: everything that coding agents need, without root, on a read-only root."""

from __future__ import annotations

import base64
import hashlib
import json
import uuid
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from images.lock import Locked
from tests import host
from tests.integration.images.conftest import Run, run_in

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

TOOLS = (
    "bash git curl wget python3 pip node npm npx gcc g++ make rg jq less ps ssh file patch unzip "
    "zip xz nano tini dig ip ping pkg-config"
)


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    """A folder with wheels that pip can install without a network: a program, and a newer pip."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    hello = b"def main() -> None:\n    print('hello from a wheel')\n"
    _write_wheel(folder, "abxt_hello", "1.0", {"abxt_hello.py": hello}, "abxt_hello:main")
    newer = {"pip/__init__.py": b"def main() -> None:\n    print('a newer pip')\n"}
    _write_wheel(folder, "pip", "99.0", newer, "pip:main")
    folder.chmod(0o755)
    return folder


def _write_wheel(
    folder: Path, name: str, version: str, modules: dict[str, bytes], main: str
) -> None:
    """A wheel with a program of its own name."""
    about = f"{name}-{version}.dist-info"
    program = name.replace("_", "-")
    texts = {
        "METADATA": f"Metadata-Version: 2.1\nName: {program}\nVersion: {version}\n",
        "WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        "entry_points.txt": f"[console_scripts]\n{program} = {main}\n",
    }
    files = modules | {f"{about}/{file}": text.encode() for file, text in texts.items()}
    record = "".join(
        f"{file},sha256={_digest(content)},{len(content)}\n" for file, content in files.items()
    )
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as archive:
        for file, content in files.items():
            archive.writestr(file, content)
        archive.writestr(f"{about}/RECORD", f"{record}{about}/RECORD,,\n")


def _digest(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


def test_agent_is_an_ordinary_user_without_rights(agent: Run) -> None:
    """User 1000 in the workspace, which is his, as is his home; no capability."""
    done = agent(
        "id -u; id -g; pwd; stat -c %u:%a /workspace /home/agent; grep CapEff /proc/self/status"
    )
    assert done.stdout.split() == [
        *("1000", "1000", "/workspace", "1000:755", "1000:755"),
        *("CapEff:", "0000000000000000"),
    ]


def test_only_home_workspace_and_tmp_can_be_written(agent: Run) -> None:
    """A file can be made in three places and in none of the system's."""
    done = agent(
        "for folder in / /etc /usr /usr/local/bin /opt /var/tmp /home /srv ~ /workspace /tmp\n"
        'do if touch "$folder/abxt" 2>/dev/null; then echo "$folder"; fi; done'
    )
    assert done.stdout.split() == ["/home/agent", "/workspace", "/tmp"]  # noqa: S108


def test_no_file_has_a_privilege_bit(agent: Run) -> None:
    """No program of the image lends its owner's or group's rights, by bit or by capability."""
    done = agent(
        "find / -xdev -type f -perm /6000 || true; ls /usr/bin/passwd /usr/bin/ping\n"
        "python3 - <<'END'\n"
        "import os\n"
        "for folder, _, names in os.walk('/usr'):\n"
        "    for name in names:\n"
        "        path = os.path.join(folder, name)\n"
        "        if os.listxattr(path, follow_symlinks=False):\n"
        "            print(path)\n"
        "END"
    )
    assert done.stdout.split() == ["/usr/bin/passwd", "/usr/bin/ping"]  # controls: they are there


def test_promised_tools_are_there(agent: Run) -> None:
    """Each tool is found on PATH, in a plain shell and in a login shell."""
    done = agent(
        f"for tool in {TOOLS}; do command -v $tool >/dev/null || echo missing $tool; done\n"
        f"bash -lc 'for tool in {TOOLS}; do command -v $tool >/dev/null || echo login $tool; done'"
    )
    assert done.stdout == ""


def test_compiler_works(agent: Run) -> None:
    """C is compiled and the result runs from the workspace."""
    done = agent('echo "int main(){return 7;}" > a.c; gcc -o a a.c; ./a || echo "code $?"')
    assert done.stdout == "code 7\n"


def test_pip_installs_into_the_venv_on_path(agent: Run, wheels: Path) -> None:
    """`pip install` needs no setting, and the program that it brought is found."""
    done = agent(
        "pip install -q --no-index abxt-hello --find-links /wheels; abxt-hello; "
        "bash -lc 'abxt-hello; command -v pip'",
        options=["-v", f"{wheels}:/wheels:ro"],
    )
    assert done.stdout.splitlines() == [
        *("hello from a wheel", "hello from a wheel", "/home/agent/.venv/bin/pip")
    ]


def test_pip_replaces_itself_in_the_venv(agent: Run, wheels: Path) -> None:
    """A newer pip takes the place of the image's, though that one lies outside the home."""
    done = agent(
        "pip --version | cut -d' ' -f1\n"
        "pip install -q --no-index --find-links /wheels --upgrade pip\n"
        "pip; python3 -c 'import pip; print(pip.__file__)'",
        options=["-v", f"{wheels}:/wheels:ro"],
    )
    assert done.stdout.splitlines() == [
        "pip",
        "a newer pip",
        "/home/agent/.venv/lib/python3.11/site-packages/pip/__init__.py",
    ]


def test_a_home_is_small_enough_to_be_copied_at_once(agent: Run) -> None:
    """The engine copies the image's home into every new volume, file by file."""
    done = agent("find /home/agent | wc -l; pip list --format=freeze | cut -d= -f1; pip check")
    files, *packages = done.stdout.splitlines()
    assert int(files) < 100
    assert packages == ["pip", "setuptools", "No broken requirements found."]


def test_npm_installs_global_packages_without_root(agent: Run) -> None:
    """`npm install -g` needs no setting, and the program that it brought is found."""
    package = json.dumps({"name": "abxt-hello", "version": "1.0.0", "bin": {"abxt-hello": "h.js"}})
    done = agent(
        f"mkdir /tmp/p; cd /tmp/p; echo '{package}' > package.json\n"
        "printf '#!/usr/bin/env node\\nconsole.log(\"hello from npm\")\\n' > h.js\n"
        "npm pack --silent >/dev/null\n"
        "npm install -g --silent --offline ./abxt-hello-1.0.0.tgz\n"
        "abxt-hello; bash -lc 'command -v abxt-hello'"
    )
    assert done.stdout.splitlines() == ["hello from npm", "/home/agent/.npm-global/bin/abxt-hello"]
    assert done.stderr == ""


def test_native_node_modules_build_without_a_download(agent: Run) -> None:
    """node-gyp finds the headers in the image."""
    gyp = json.dumps({"targets": [{"target_name": "m", "sources": ["m.c"]}]})
    done = agent(
        "mkdir /tmp/m; cd /tmp/m\n"
        f"echo '{gyp}' > binding.gyp\n"
        'echo \'{"name":"abxt-m","version":"1.0.0","gypfile":true}\' > package.json\n'
        "cat > m.c <<'END'\n"
        "#include <node_api.h>\n"
        "NAPI_MODULE_INIT() { napi_value v; napi_create_int32(env, 42, &v); return v; }\n"
        "END\n"
        "npm install --silent --offline >/dev/null\n"
        "node -e 'console.log(require(\"./build/Release/m.node\"))'"
    )
    assert done.stdout == "42\n"


def test_node_obeys_the_proxy_variables(agent: Run) -> None:
    """Node's fetch asks the proxy of the environment (versions before 24 don't)."""
    proxy = (
        "require('net').createServer(s => s.once('data', d => {"
        " console.log(String(d).split('\\r\\n')[0]); s.end(); process.exit() }))"
        ".listen(18080, '127.0.0.1', () => require('child_process').spawn("
        "'node', ['-e', 'fetch(\"https://allowed.test/\").catch(() => 0)']))"
    )
    done = agent(
        f"cat > p.js <<'END'\n{proxy}\nEND\n"
        "export HTTPS_PROXY=http://127.0.0.1:18080 NODE_USE_ENV_PROXY=1; timeout 20 node p.js"
    )
    assert done.stdout == "CONNECT allowed.test:443 HTTP/1.1\n"


@pytest.mark.parametrize(
    "folder", ["$CARGO_HOME/bin", "$GOBIN", "$HOME/.local/bin", "$NPM_CONFIG_PREFIX/bin"]
)
def test_programs_installed_into_the_home_are_found(agent: Run, folder: str) -> None:
    """Where cargo, go, pipx and npm put programs is on PATH, and can be written."""
    done = agent(
        f'printf "#!/bin/sh\\necho found\\n" > "{folder}/abxt-tool"\n'
        f'chmod 755 "{folder}/abxt-tool"; abxt-tool; bash -lc abxt-tool'
    )
    assert done.stdout.split() == ["found", "found"]


def test_git_commits_without_settings(agent: Run) -> None:
    """A first commit needs no identity and lands on main; the user's own settings win."""
    done = agent(
        "git init -q r; cd r; git commit -q --allow-empty -m x; git log --format='%an %D'\n"
        "git config --global user.name somebody; git commit -q --allow-empty -m y\n"
        "git log -1 --format=%an"
    )
    assert done.stdout.splitlines()[-1] == "somebody"
    assert done.stdout.splitlines()[0] == "agent HEAD -> main"


def test_folders_of_other_owners_are_no_trouble_for_git(agent: Run, tmp_path: Path) -> None:
    """A repository that the host mounts, with the host's owner, can be looked at."""
    host.run(["git", "init", "-q", str(tmp_path / "repository")])
    for path in (tmp_path, tmp_path / "repository"):
        path.chmod(0o755)
    done = agent("git -C /r status -sb", options=["-v", f"{tmp_path}/repository:/r:ro"])
    assert "No commits yet" in done.stdout


def test_text_is_utf_8(agent: Run) -> None:
    """Python and the shell agree on UTF-8."""
    script = "python3 -c 'import sys; print(sys.stdout.encoding, \"ä€\")'; locale charmap"
    assert agent(script).stdout.split() == ["utf-8", "ä€", "UTF-8"]


@pytest.fixture
def volume() -> Iterator[str]:
    """Name of a volume that is gone after the test."""
    name = f"abxt-{uuid.uuid4().hex[:12]}"
    yield name
    host.run(["docker", "volume", "rm", "-f", name])


def test_home_outlives_the_container(images: dict[str, Locked], volume: str, wheels: Path) -> None:
    """What was installed into the home is there in the next container."""
    options = ["-v", f"{volume}:/home/agent", "-v", f"{wheels}:/wheels:ro"]
    identity = images["agent"].id
    run_in(
        identity,
        "pip install -q --no-index abxt-hello --find-links /wheels; echo kept > ~/note",
        options=options,
    )
    assert run_in(identity, "cat ~/note; abxt-hello", options=options).stdout.splitlines() == [
        *("kept", "hello from a wheel")
    ]
