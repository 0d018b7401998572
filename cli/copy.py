"""`abox cp`: copy a file or folder between the host and the agent."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from abox.errors import CheckError, HostError, SettingsError
from abox.naming import is_name
from abox.pod import AGENT_WORKSPACE
from abox.render.ssh import ALIAS
from cli import host
from cli.execute import find_agent
from cli.guests import Guest

TIMEOUT_S = 3600.0


def copy(
    source: Annotated[str, typer.Argument(help="PATH on the host, or STACK:PATH in the agent.")],
    target: Annotated[str, typer.Argument(help="The same; one of the two is in the agent.")],
) -> None:
    """Copy a file or folder into the agent or out of it, as the agent's user.

    A path in the agent that isn't absolute is below /workspace.
    Example: abox cp ./data project-b:data
    """
    inward, outward = split_place(target), split_place(source)
    if (inward is None) is (outward is None):
        raise SettingsError(
            what=f"abox cp {source} {target}: one of the two places must be in an agent",
            why="a place in an agent is written STACK:PATH",
            remedy="write for example abox cp ./data project-b:data",
        )
    done = host.run(copy_command(source, target), timeout_s=TIMEOUT_S)
    if done.code != 0:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        raise CheckError(
            what=f"{source} was not copied to {target}",
            why=lines[-1] if lines else f"exit code {done.code}",
            remedy="see that the source exists and that the target's folder can be written",
        )


def copy_command(source: str, target: str) -> list[str]:
    """The command line that copies; one of the places is in an agent.

    Raises:
        SettingsError: there is no such stack.
        HostError: its agent doesn't run, or it is a container and can't be written to.
    """
    inward = split_place(target)
    stack, path = inward or split_place(source) or ("", "")
    agent = find_agent(stack)
    if isinstance(agent, Guest):
        inside = f"{ALIAS}:{path}"
        places = [source, inside] if inward else [inside, target]
        return ["scp", "-q", "-r", "-p", "-F", str(agent.config), "--", *map(_local, places)]
    if inward is None:
        return ["docker", "cp", "--", f"{agent.id}:{path}", target]
    if not Path(source).exists():
        raise HostError(
            what=f"{source} can't be copied", why="there is no such file", remedy="see its path"
        )
    # The engine refuses to copy into a container with a read-only root, whatever is mounted there.
    # The archive is unpacked inside, by the agent's user.
    folder, name = str(Path(source).resolve().parent), Path(source).resolve().name
    unpack = ["docker", "exec", "-i", agent.id, "sh", "-c", _UNPACK, "abox", path, name]
    return ["sh", "-c", _PIPE, "abox", folder, name, *unpack]


_UNPACK = (
    'if [ -d "$1" ]; then exec tar -xf - -C "$1"; fi; '
    'tar -xf - -C "$(dirname "$1")" && mv "$(dirname "$1")/$2" "$1"'
)
"""As cp does: into a folder that exists, else under the new name."""

_PIPE = 'folder=$1; name=$2; shift 2; tar -cf - -C "$folder" -- "$name" | "$@"'


def _local(place: str) -> str:
    """A place as scp takes it: a colon in a path of the host would name another machine."""
    is_remote = place.startswith(f"{ALIAS}:")
    return place if is_remote or place.startswith(("/", "./", "../")) else f"./{place}"


def split_place(place: str) -> tuple[str, str] | None:
    """Stack and absolute path of a place in an agent; None for a place on the host."""
    stack, colon, path = place.partition(":")
    if not colon or not is_name(stack):
        return None
    return stack, path if path.startswith("/") else f"{AGENT_WORKSPACE}/{path}"
