"""The seccomp profile in the agent's image: tools run, ways out are refused by the kernel."""

from __future__ import annotations

import errno
import json
from pathlib import Path

import pytest

from abox.render.seccomp import render_seccomp
from tests.host import ROOT, run

pytestmark = pytest.mark.integration

CALL = """
import ctypes, errno, os, sys
library = ctypes.CDLL(None, use_errno=True)
arguments = [ctypes.c_ulong(int(each, 0)) for each in sys.argv[2:]]
done = library.syscall(ctypes.c_long(int(sys.argv[1])), *arguments)
print("done" if done >= 0 else errno.errorcode[ctypes.get_errno()])
"""

X86_64 = {
    "socket": 41, "socketpair": 53, "clone": 56, "personality": 135, "unshare": 272, "setns": 308,
    "mount": 165, "io_uring_setup": 425, "open_by_handle_at": 304, "bpf": 321, "keyctl": 250,
    "userfaultfd": 323, "perf_event_open": 298, "add_key": 248, "kexec_load": 246,
    "init_module": 175, "pivot_root": 155, "clone3": 435,
}  # fmt: skip


@pytest.fixture(scope="module")
def profile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("seccomp") / "profile.json"
    path.write_text(render_seccomp())
    return path


@pytest.fixture(scope="module")
def image() -> str:
    lock = json.loads((ROOT / ".abox" / "images.lock.json").read_text())
    return str(lock["agent"]["id"])


@pytest.fixture
def inside(profile: Path, image: str):
    def inside(*command: str, check: bool = True, seccomp: str | None = None):
        return run(
            [
                "docker", "run", "--rm", "--name", "abxt-seccomp", "--network", "none",
                "--cap-drop", "ALL", "--security-opt", "no-new-privileges",
                "--security-opt", f"seccomp={seccomp or profile}", image, *command,
            ],
            check=check,
        )  # fmt: skip

    return inside


def call(inside, name: str, *arguments: int, seccomp: str | None = None) -> str:
    words = [str(X86_64[name]), *map(str, arguments)]
    return str(inside("python3", "-c", CALL, *words, seccomp=seccomp).stdout.strip())


@pytest.mark.parametrize(
    ("family", "kind", "protocol", "outcome"),
    [
        pytest.param(1, 1, 0, "done", id="unix"),
        pytest.param(2, 1, 0, "done", id="tcp"),
        pytest.param(2, 2 | 0o2000000, 17, "done", id="udp-cloexec"),
        pytest.param(10, 1, 6, "done", id="tcp6"),
        pytest.param(16, 3, 0, "done", id="netlink-route"),
        pytest.param(40, 1, 0, "EPERM", id="vsock"),
        pytest.param(40 | 1 << 32, 1, 0, "EPERM", id="vsock-beyond-32-bits"),
        pytest.param(2 | 1 << 32, 1, 0, "EPERM", id="tcp-beyond-32-bits"),
        pytest.param(17, 3, 768, "EPERM", id="packet"),
        pytest.param(16, 3, 12, "EPERM", id="netlink-netfilter"),
        pytest.param(38, 5, 0, "EPERM", id="kernel-crypto"),
        pytest.param(2, 2, 136, "EPERM", id="udp-lite"),
        pytest.param(2, 1, 132, "EPERM", id="sctp"),
        pytest.param(44, 3, 0, "EPERM", id="xdp"),
    ],
)
def test_only_sockets_that_the_network_rules_see_can_be_opened(
    inside, family, kind, protocol, outcome
):
    assert call(inside, "socket", family, kind, protocol) == outcome


def test_the_refusals_are_the_profiles(inside):
    """Control: without a profile the kernel itself has no objection."""
    assert call(inside, "socket", 16, 3, 12, seccomp="unconfined") == "done"


@pytest.mark.parametrize(
    "name",
    ["unshare", "setns", "mount", "io_uring_setup", "open_by_handle_at", "bpf", "keyctl",
     "userfaultfd", "perf_event_open", "add_key", "kexec_load", "init_module", "pivot_root"],
)  # fmt: skip
def test_a_way_out_is_refused(inside, name):
    assert call(inside, name, 0, 0, 0, 0, 0) == "EPERM"


@pytest.mark.parametrize("flag", [0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000,
                                  0x20000000, 0x40000000], ids=hex)  # fmt: skip
def test_clone_into_a_namespace_is_refused(inside, flag):
    assert call(inside, "clone", flag | 17, 0, 0, 0, 0) == "EPERM"


def test_clone3_says_that_it_is_missing(inside):
    assert call(inside, "clone3", 0, 0) == errno.errorcode[errno.ENOSYS]


def test_a_32_bit_call_ends_the_program(inside):
    source = 'int main(){int r;__asm__ volatile("int $0x80":"=a"(r):"a"(20));return 0;}'
    script = 'cd /tmp && printf %s "$1" > a.c && gcc -o a a.c && ./a; echo "code $?"'
    done = inside("bash", "-c", script, "bash", source)
    assert done.stdout.strip().endswith("code 159")  # 128 + SIGSYS


@pytest.mark.parametrize(
    "command",
    [
        pytest.param("python3 -m venv /tmp/v && /tmp/v/bin/python -c 'print(1)'", id="python"),
        pytest.param(
            'python3 -c "from concurrent.futures import ProcessPoolExecutor as P\n'
            'import multiprocessing\nprint(P(2).submit(abs, -1).result())"',
            id="processes",
        ),
        pytest.param("node -e 'setTimeout(() => console.log(1), 10)'", id="node"),
        pytest.param("npm --version", id="npm"),
        pytest.param(
            "node -e \"new (require('worker_threads').Worker)('console.log(1)', {eval: true})\"",
            id="workers",
        ),
        pytest.param(
            "cd /tmp && git init -q r && cd r && git status --short && git gc -q", id="git"
        ),
        pytest.param(
            "cd /tmp && echo 'int main(){return 0;}' > m.c && gcc -O2 -pthread m.c -o m && ./m",
            id="gcc",
        ),
        pytest.param("cd /tmp && printf 'a:\\n\\ttrue\\n' > Makefile && make -j4 a", id="make"),
        pytest.param("rg --version && echo a | rg a", id="ripgrep"),
        pytest.param("ssh-keygen -q -t ed25519 -N '' -f /tmp/k && ls /tmp/k", id="ssh"),
        pytest.param("ps aux | head -3 && top -bn1 | head -3", id="procps"),
        pytest.param("curl --version && wget --version | head -1 && jq -n 1", id="tools"),
        pytest.param("ip link show lo || ip addr || true", id="netlink"),
        pytest.param("tar -C /etc -cf - passwd | xz | xz -d | tar -t", id="archives"),
        pytest.param("perl -e 'print sprintf(\"%s\", $$)'", id="perl"),
    ],
)
def test_what_coding_agents_use_runs(inside, command):
    done = inside("bash", "-euo", "pipefail", "-c", command, check=False)
    assert done.code == 0, done.stderr
