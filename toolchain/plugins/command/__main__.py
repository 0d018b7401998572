"""Entry point of the command stand-in."""

from __future__ import annotations

import sys

from toolchain.plugins import protocol

protocol.take_alone()

from toolchain.plugins.command.engine_log import EngineLog  # noqa: E402  (after the above)
from toolchain.plugins.command.provider import CommandProvider  # noqa: E402  (after the above)
from toolchain.plugins.server import engine_address, serve  # noqa: E402  (after the above)

if __name__ == "__main__":
    sys.exit(serve(CommandProvider(EngineLog(engine_address(sys.argv[1:])))))
