"""Entry point of the libvirt stand-in."""

from __future__ import annotations

import sys

from toolchain.plugins import protocol

protocol.take_alone()

from toolchain.plugins.libvirt.provider import LibvirtProvider  # noqa: E402  (after the above)
from toolchain.plugins.server import serve  # noqa: E402  (after the above)

if __name__ == "__main__":
    sys.exit(serve(LibvirtProvider()))
