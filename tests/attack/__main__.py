"""``python -m tests.attack``: bring a sandbox up, attack it, say what came of it."""

from __future__ import annotations

import argparse
import secrets
import sys
import tempfile
from pathlib import Path

from tests.attack.arena import SETTINGS, Arena
from tests.cases.sandbox import Sandbox
from tests.stacks import Project
from tests.world import World


def _say(text: str) -> None:
    sys.stdout.write(f"attack     {text}\n")
    sys.stdout.flush()


def main() -> int:
    """0 if nothing got out and everything still serves."""
    parser = argparse.ArgumentParser(prog="tests.attack", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600, help="how long it lasts")
    parser.add_argument("--seed", type=int, help="the same moves again")
    arguments = parser.parse_args()
    seed = secrets.randbelow(2**32) if arguments.seed is None else arguments.seed
    _say(f"seed {seed}: the same moves again with SEED={seed}")
    with (
        tempfile.TemporaryDirectory(prefix="abxt-attack-") as folder,
        World() as world,
        Project() as project,
    ):
        sandbox = Sandbox(world, project, world.run.stack("k"), Path(folder))
        try:
            _say("bringing a sandbox up")
            sandbox.up(SETTINGS)
            outcome = Arena(sandbox).attack(seed, arguments.seconds, _say)
        finally:
            sandbox.down()
    for line in outcome.lines():
        _say(line)
    return 1 if outcome.faults else 0


if __name__ == "__main__":
    sys.exit(main())
