"""Entry point of the Docker stand-in."""

from __future__ import annotations

import sys

from toolchain.plugins import protocol

protocol.take_alone()

from toolchain.plugins.docker.provider import DockerProvider  # noqa: E402  (after the above)
from toolchain.plugins.server import serve  # noqa: E402  (after the above)

if __name__ == "__main__":
    sys.exit(serve(DockerProvider()))
