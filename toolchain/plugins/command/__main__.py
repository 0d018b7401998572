"""Entry point of the command stand-in."""

from __future__ import annotations

import sys

from toolchain.plugins.command.engine_log import EngineLog
from toolchain.plugins.command.provider import CommandProvider
from toolchain.plugins.server import engine_address, serve

if __name__ == "__main__":
    sys.exit(serve(CommandProvider(EngineLog(engine_address(sys.argv[1:])))))
