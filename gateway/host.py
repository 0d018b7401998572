"""The one place where ``control`` starts processes."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence


def run(*command: str) -> str:
    """What a command prints.

    Raises: OSError with its complaint if it fails or takes longer than a minute.
    """
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except subprocess.TimeoutExpired as error:
        raise OSError(f"{command[0]}: no end after {error.timeout:.0f} s") from error
    if done.returncode != 0:
        raise OSError(f"{_shown(command)}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def _shown(command: Sequence[str]) -> str:
    return " ".join(command[:2])
