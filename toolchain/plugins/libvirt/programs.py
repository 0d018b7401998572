"""The one module of the libvirt stand-in that starts processes."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence

from toolchain.plugins.bridge.resource import ResourceError


class ProgramError(ResourceError):
    """A program ended with an error; the text is what it said."""


def run(arguments: Sequence[str], *, timeout_s: float) -> str:
    """Run a program to its end and return its standard output.

    Raises:
        ProgramError: it failed.
        ResourceError: it isn't there, or was still running after `timeout_s`.
    """
    try:
        done = subprocess.run(
            list(arguments),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
            env={**os.environ, "LC_ALL": "C"},
            check=False,
        )
    except FileNotFoundError as error:
        raise ResourceError(f"{arguments[0]} is not on this machine: run `make vm`") from error
    except subprocess.TimeoutExpired as error:
        shown = " ".join(arguments[:5])
        raise ResourceError(f"{shown} did not end within {timeout_s:g} s") from error
    if done.returncode != 0:
        raise ProgramError(done.stderr.strip() or f"{arguments[0]} ended with {done.returncode}")
    return done.stdout
