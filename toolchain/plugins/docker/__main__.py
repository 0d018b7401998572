"""Entry point of the Docker stand-in."""

from __future__ import annotations

import sys

from toolchain.plugins.docker.provider import DockerProvider
from toolchain.plugins.server import serve

if __name__ == "__main__":
    sys.exit(serve(DockerProvider()))
