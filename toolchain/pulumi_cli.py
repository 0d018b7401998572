"""Pulumi's CLI: the user's own, or one built from Go modules.

A built CLI is kept in the user's cache under the hash of all that it was built from, so that a
second checkout takes it from there.
"""

import os
import re
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from abox.errors import HostError
from toolchain import shell, stamps
from toolchain.layout import Checkout, user_cache
from toolchain.locks import exclusive
from toolchain.progress import Step

MINIMUM = (3, 231, 0)
"""Oldest official CLI that is used as it is."""

GO_MINIMUM = (1, 26)
"""Oldest Go that the pinned modules build with."""

COMMAND = "github.com/pulumi/pulumi/pkg/v3/cmd/pulumi"
SDK_MODULE = "github.com/pulumi/pulumi/sdk/v3"

SCRIPTS = (
    "python/cmd/pulumi-language-python-exec",
    "python/dist/pulumi-resource-pulumi-python",
)
"""Scripts of the sdk module that belong beside the CLI."""

BUILD_FLAGS = ("-trimpath", "-tags", "osusergo,grpcnotrace", "-mod=readonly", "-buildvcs=false")

LAUNCHER = """\
#!{python}
\"\"\"Pulumi's language host for Python, from the checkout's own sources.\"\"\"
import sys

fresh = sys.path[1:]
sys.path.insert(0, {root!r})
from toolchain import fork_server

forks = fork_server.fork(fresh)  # before anything starts a thread

from pathlib import Path

from toolchain.plugins import protocol

protocol.take_alone()

from toolchain.language_host import EXEC_SCRIPT, main

main(sys.argv[1:], Path(__file__).resolve().with_name(EXEC_SCRIPT), forks)
"""


@dataclass(frozen=True)
class Cli:
    """A CLI that can be used."""

    path: Path
    version: str
    official: bool
    """The user's own, with its own language host; nothing of ours is put beside it."""


def parse_version(text: str) -> tuple[int, ...] | None:
    """The three numbers of what `pulumi version` prints; None if it is something else."""
    found = re.match(r"v?(\d+)\.(\d+)\.(\d+)", text.strip())
    return tuple(map(int, found.groups())) if found else None


def find_official(search_path: str) -> Cli | None:
    """The first usable `pulumi` of a PATH that no checkout of ours has made.

    It counts only with a language host for Python beside it or on the same PATH.
    """
    folders = [Path(each) for each in search_path.split(os.pathsep) if each]
    foreign = [each for each in folders if each.parent.name != ".abox"]
    outside = os.pathsep.join(map(str, foreign))
    found = shutil.which("pulumi", path=outside)
    if found is None:
        return None
    beside = str(Path(found).resolve().parent)
    if not shutil.which("pulumi-language-python", path=outside + os.pathsep + beside):
        return None
    asked = shell.run([found, "version"], timeout_s=20)
    version = parse_version(asked.stdout)
    if version is None or version < MINIMUM:
        return None
    return Cli(Path(found), ".".join(map(str, version)), official=True)


def provide(checkout: Checkout, step: Step) -> Cli:
    """The CLI to use, built if need be, with what belongs beside it.

    Raises:
        HostError: Go is missing, or the build fails.
    """
    checkout.bin.mkdir(parents=True, exist_ok=True)
    official = find_official(os.environ.get("PATH", ""))
    if official is not None:
        _remove_own(checkout)
        step.done(f"using {official.path} {official.version}")
        return official
    version = checkout.pulumi_version
    built = _built(checkout, step)
    for source in sorted(built.iterdir()):
        _install(source, checkout.bin / source.name)
    write_executable(
        checkout.bin / "pulumi-language-python",
        LAUNCHER.format(python=checkout.python, root=str(checkout.root)),
    )
    step.done(f"pulumi {version} with its language host is in .abox/bin")
    return Cli(checkout.bin / "pulumi", version, official=False)


def write_executable(path: Path, text: str) -> None:
    """Write a script in one move, so that nobody runs half of it."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.write_text(text)
    beside.chmod(0o755)
    beside.replace(path)


def _remove_own(checkout: Checkout) -> None:
    """Take away a CLI built earlier: the user's own is to be used."""
    for own in checkout.bin.glob("pulumi*"):
        own.unlink()


def _install(source: Path, target: Path) -> None:
    """Put a file of the cache into the checkout: a second name for it, or a copy."""
    if target.exists() and target.samefile(source):
        return
    beside = target.with_name(f".{target.name}.{os.getpid()}")
    beside.unlink(missing_ok=True)
    try:
        beside.hardlink_to(source)
    except OSError:
        shutil.copy2(source, beside)
    beside.replace(target)


def _built(checkout: Checkout, step: Step) -> Path:
    """Folder of the cache with the CLI and its scripts, built if it is missing."""
    module = checkout.go_module
    digest = stamps.content_hash(
        [module / "go.mod", module / "go.sum"], *BUILD_FLAGS, *SCRIPTS, os.uname().machine
    )
    folder = user_cache() / f"pulumi-{checkout.pulumi_version}-{digest[:16]}"
    if folder.is_dir():
        return folder
    with exclusive(
        folder.with_suffix(".lock"), lambda: step.say("waiting for another run that builds it")
    ):
        if not folder.is_dir():
            _build(checkout, folder, step)
    return folder


def _build(checkout: Checkout, folder: Path, step: Step) -> None:
    """Build into a folder beside the final one, which appears only when all is there."""
    environment = _go_environment()
    _require_go(environment)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="building-") as name:
        building = Path(name) / "result"
        building.mkdir()
        total = _download(checkout, environment, step)
        _compile(checkout, building / "pulumi", total, environment, step)
        sdk = _go(["list", "-m", "-f", "{{.Dir}}", SDK_MODULE], checkout, environment).strip()
        for script in SCRIPTS:
            target = building / Path(script).name
            shutil.copyfile(Path(sdk) / script, target)
            target.chmod(0o755)
        building.rename(folder)


def _go_environment() -> dict[str, str]:
    """Variables for Go: only its own caches and the user's proxy settings are kept."""
    kept = {key: value for key, value in os.environ.items() if key not in ("GOFLAGS", "GOWORK")}
    return {**kept, "CGO_ENABLED": "0", "GOWORK": "off", "GOTOOLCHAIN": "local"}


def _require_go(environment: dict[str, str]) -> None:
    """Refuse to start without a Go that can build the CLI."""
    wanted = ".".join(map(str, GO_MINIMUM))
    remedy = f"put Go {wanted} on PATH, or the official pulumi"
    if shutil.which("go") is None:
        raise HostError(
            what="go was not found on PATH", why="pulumi has to be built from source", remedy=remedy
        )
    found = shell.run(["go", "version"], environment=environment).stdout
    version = re.search(r"go(\d+)\.(\d+)", found)
    if version is None or tuple(map(int, version.groups())) < GO_MINIMUM:
        raise HostError(
            what=f"go on PATH is too old: {found.strip()}",
            why=f"the pinned modules need Go {wanted}",
            remedy=remedy,
        )


def _go(arguments: list[str], checkout: Checkout, environment: dict[str, str]) -> str:
    """What a short go command prints."""
    finished = shell.run(
        ["go", *arguments], environment=environment, directory=checkout.go_module, timeout_s=300
    )
    return shell.require(
        finished,
        what=f"go {' '.join(arguments[:3])} failed",
        remedy="check that the Go module proxy is reachable and the disk isn't full; try again",
    ).stdout


def _download(checkout: Checkout, environment: dict[str, str], step: Step) -> int:
    """Fetch the modules; how many packages there are to compile."""
    modules = [0]
    packages = [0]

    def count(line: str) -> None:
        if line.startswith("go: downloading"):
            modules[0] += 1
        elif not line.startswith("go: "):
            packages[0] += 1

    step.say(f"building pulumi {checkout.pulumi_version} from Go modules, once: about 4 min")
    finished = shell.stream(
        ["go", "list", "-mod=readonly", "-deps", COMMAND],
        count,
        on_tick=lambda: step.tick(f"fetching Go modules: {modules[0]} so far"),
        environment=environment,
        directory=checkout.go_module,
    )
    shell.require(
        finished,
        what="the Go modules of pulumi can't be fetched",
        remedy="check that the Go module proxy is reachable and the disk isn't full; try again",
    )
    return packages[0]


def _compile(
    checkout: Checkout, target: Path, total: int, environment: dict[str, str], step: Step
) -> None:
    """Compile and link, at low priority; says how many packages are done."""
    version = f"{SDK_MODULE}/go/common/version.Version=v{checkout.pulumi_version}"
    done = [0]

    def count(line: str) -> None:
        done[0] += bool(re.fullmatch(r"[\w.~/-]+", line))

    finished = shell.stream(
        [
            *("nice", "-n", "10", "go", "build", "-v", *BUILD_FLAGS),
            *("-ldflags", f"-s -w -X {version}", "-o", target, COMMAND),
        ],
        count,
        on_tick=lambda: step.tick(f"compiled {done[0]} of {total} packages"),
        environment=environment,
        directory=checkout.go_module,
    )
    shell.require(
        finished,
        what=f"pulumi {checkout.pulumi_version} can't be built",
        remedy="check free disk space and memory (2 GB each), then try again",
    )
